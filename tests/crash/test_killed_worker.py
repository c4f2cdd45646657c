"""A worker that is killed after its progress was saved does nothing again: each message has one dead letter.

Method: a process whose messages all die is killed once the files say how far it is, and started again with
one message more. When that one has died, all that would come again has come.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mqstore import MessageStore
from mqstore.client import DeadLetters
from support.crash import killed_worker
from support.crash.killed_worker import CONFIG, GROUP

PATIENCE_S = 60.0


@contextmanager
def worker(path: Path, *keys: str) -> Iterator[None]:
    """Run it, and kill it."""
    argv = [sys.executable, killed_worker.__file__, str(path), *keys]
    # What its listener raises is logged; nobody reads it.
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as running:
        try:
            yield
            assert running.poll() is None
        finally:
            running.kill()


def eventually(path: Path, is_so: Callable[[MessageStore], bool]) -> None:
    """Look into the store beside the worker until it is so."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        if (path / "commitlog").is_dir():
            with MessageStore.open(path, CONFIG, read_only=True) as store:
                if is_so(store):
                    return
        assert time.monotonic() < give_up
        time.sleep(0.05)


def dead_keys(store: MessageStore) -> list[str]:
    """The keys of all dead letters, in the order of their deaths."""
    return [letter.message.keys[0] for letter in DeadLetters(store, GROUP)]


def is_saved(store: MessageStore) -> bool:
    """Whether what the files say of retries is all that was done."""
    retries = store.get_max_offset_in_queue(f"%RETRY%{GROUP}", 0)
    delivered = {status.level: status.next_offset for status in store.delivery.status()}
    consumed = store.consumer_offsets.query(GROUP, f"%RETRY%{GROUP}", 0)
    return (consumed, delivered[1]) == (retries, retries)


def test_what_was_saved_is_not_done_again(tmp_path: Path) -> None:
    """Though RocketMQ's periods have not ended: what has moved is saved by itself."""
    keys = [f"o-{number}" for number in range(5)]
    with worker(tmp_path, *keys):
        eventually(tmp_path, lambda store: len(dead_keys(store)) == 5 and is_saved(store))
    with worker(tmp_path, "last"):
        eventually(tmp_path, lambda store: "last" in dead_keys(store))
    with MessageStore.open(tmp_path, CONFIG) as store:
        assert sorted(dead_keys(store)) == ["last", *keys]
