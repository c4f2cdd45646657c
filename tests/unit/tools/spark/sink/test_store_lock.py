"""Goal: the sink waits for another writer of its store, and no longer than it was told.

Method: another process holds the lock, and is told to let it go at the second look or never; time is a number
that the pauses add to.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqstore import MessageStore
from mqstore.store.errors import StoreLocked
from mqstore.tools.spark.sink.sink_commit import Write, commit
from mqstore.tools.spark.sink.store_lock import LockTimeout, opened_for_write

HOLDER = """
import sys
from mqstore import MessageStore
with MessageStore.open(sys.argv[1], start=False):
    print("open", flush=True)
    sys.stdin.readline()
"""


class Time:
    """Seconds, which pass in the pauses alone."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.pauses = 0

    def now(self) -> float:
        return self.passed_s

    def pause(self, seconds: float) -> None:
        self.passed_s += seconds
        self.pauses += 1


@contextmanager
def held(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the store open until it reads a line."""
    command = [sys.executable, "-c", HOLDER, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        yield holder
        if holder.poll() is None:
            holder.communicate(b"\n")


def test_the_wait_ends_with_its_limit(tmp_path: Path) -> None:
    """And says who holds the lock, how long it was waited for, and what to do."""
    time = Time()
    with (
        held(tmp_path) as holder,
        pytest.raises(LockTimeout) as caught,
        opened_for_write(tmp_path, 1_000, now_s=time.now, pause=time.pause),
    ):
        pytest.fail("opened beside another writer")
    assert time.passed_s == pytest.approx(1)
    assert time.pauses > 10
    error = caught.value
    assert (error.holder_pid, error.timeout_ms, error.is_own) == (holder.pid, 1_000, False)
    for words in (f"process {holder.pid}", "lockTimeout (1000 ms)", "set lockTimeout", "`mqstore serve`"):
        assert words in str(error)


def test_who_waits_gets_the_lock(tmp_path: Path) -> None:
    """When the other writer closes the store, well before the limit."""
    time = Time()
    with held(tmp_path) as holder:

        def pause(seconds: float) -> None:
            time.pause(seconds)
            if time.pauses == 2:
                holder.communicate(b"\n")

        with opened_for_write(tmp_path, 60_000, now_s=time.now, pause=pause) as store:
            assert not store.read_only
    assert time.pauses == 2


def test_no_wait_if_none_is_wanted(tmp_path: Path) -> None:
    """A limit of 0 asks once; so does a commit."""
    time = Time()
    with held(tmp_path):
        with pytest.raises(LockTimeout), opened_for_write(tmp_path, 0, now_s=time.now, pause=time.pause):
            pytest.fail("opened beside another writer")
        with pytest.raises(LockTimeout):
            commit(tmp_path, Write(), (), lock_timeout_ms=0)
    assert time.pauses == 0


def test_a_store_of_this_process_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody would close it."""
    with (
        MessageStore.open(tmp_path, start=False),
        pytest.raises(StoreLocked, match="has the store open"),
        opened_for_write(tmp_path, 60_000),
    ):
        pytest.fail("opened twice")
