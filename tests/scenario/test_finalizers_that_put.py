"""Finalizers that put, in whatever thread Python runs them: no put waits for ever, and the log stays sound.

Python runs a finalizer where an object happens to be freed, or collected: in a service thread of the store as
well. Method: a profile function puts at every n-th call that a service thread makes, beside three producers.
"""

import itertools
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from mqstore import MessageStore
from mqstore.store.errors import StoreError
from mqstore.verify import verify
from support.stores.small_log import small_config

FLUSH_TYPES = ("SYNC_FLUSH", "ASYNC_FLUSH")
PUTS = 60
PATIENCE_S = 60


class Finalizers:
    """Puts within the service threads of one store. answers: by status, or by the name of the error."""

    def __init__(self, every: int) -> None:
        self.store: MessageStore | None = None
        self.answers = Counter[str]()
        self._every = every
        self._calls = Counter[int]()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        store, thread = self.store, threading.current_thread()
        if store is None or event != "call" or not thread.name.startswith("mqstore"):
            return
        self._calls[thread.ident or 0] += 1
        if self._calls[thread.ident or 0] % self._every:
            return
        sys.setprofile(None)
        try:
            self.answers[store.put("orders", b"of a finalizer").status.name] += 1
        except (StoreError, RuntimeError) as error:
            self.answers[type(error).__name__] += 1
        finally:
            sys.setprofile(self)


@contextmanager
def in_new_threads(finalizers: Finalizers) -> Iterator[None]:
    """Threads that are started meanwhile call it."""
    threading.setprofile(finalizers)
    try:
        yield
    finally:
        threading.setprofile(None)


@pytest.mark.parametrize("every", [11, 50, 173])
@pytest.mark.parametrize("flush_disk_type", FLUSH_TYPES)
def test_no_put_waits_for_ever(tmp_path: Path, flush_disk_type: str, every: int) -> None:
    """A producer's put is stored; one of a finalizer is stored, or refused where it would wait for itself.

    In the thread that syncs it waits sync_flush_timeout, and so do those behind it.
    """
    config = small_config(
        flush_disk_type=flush_disk_type, sync_flush_timeout=100, flush_interval_commit_log=10
    )
    finalizers = Finalizers(every)
    stored = Counter[str]()

    def produce() -> None:
        for number in itertools.count():
            if number >= PUTS and finalizers.answers:
                return
            stored[store.put(f"topic-{number % 5}", bytes(900), keys="k").status.name] += 1

    with in_new_threads(finalizers), MessageStore.open(tmp_path, config) as store:
        finalizers.store = store
        producers = [threading.Thread(target=produce, daemon=True) for _ in range(3)]
        for producer in producers:
            producer.start()
        for producer in producers:
            producer.join(PATIENCE_S)
        finalizers.store = None
        assert not any(producer.is_alive() for producer in producers)
    assert stored.total() >= 3 * PUTS
    assert set(stored) <= {"PUT_OK", "FLUSH_DISK_TIMEOUT"}
    assert set(finalizers.answers) <= {"PUT_OK", "FLUSH_DISK_TIMEOUT", "RuntimeError"}
    report = verify(tmp_path)
    assert report.is_sound
    of_finalizers = finalizers.answers.total() - finalizers.answers["RuntimeError"]
    assert report.records == stored.total() + of_finalizers
