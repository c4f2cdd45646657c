"""Sync waiters: the threads that sleep until the log is durable up to their record.

Each sleeps on a lock of its own, so whoever syncs can wake all that are covered in one go, and the first of
those that are not: that one leads the next sync. A lock (or a condition) that all share would wake them in
a chain, one thread switch after another, while the disk has nothing to do.

It does not sync, and does not know what the offsets mean (flusher.py). Nothing here is durable.
Threads: any. A thread that goes away without being woken (its time is up, Ctrl-C) leaves an entry behind
that the next `wake` takes away.
"""

import threading
from typing import NamedTuple

__all__ = ["SyncWaiters"]


class _Waiter(NamedTuple):
    end_offset: int
    # Held from the beginning; released once, by whoever wakes the thread.
    asleep: threading.Lock


class SyncWaiters:
    """The threads that wait for one log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # In the order of their coming, which is nearly the order of their offsets. Under _lock.
        self._waiters: list[_Waiter] = []

    def join(self, end_offset: int) -> threading.Lock:
        """Become one of those who wait; acquire the lock that is returned to sleep until woken."""
        waiter = _Waiter(end_offset, threading.Lock())
        waiter.asleep.acquire()
        with self._lock:
            self._waiters.append(waiter)
        return waiter.asleep

    def wake(self, flushed_offset: int) -> None:
        """Wake all who wait for bytes below `flushed_offset`, and one more, who is to lead the next sync."""
        if not self._waiters:
            return
        with self._lock:
            waiters, self._waiters = self._waiters, []
            leader_woken = False
            for waiter in waiters:
                if waiter.end_offset <= flushed_offset:
                    waiter.asleep.release()
                elif not leader_woken:
                    waiter.asleep.release()
                    leader_woken = True
                else:
                    self._waiters.append(waiter)

    def wake_all(self) -> None:
        """Wake everyone: there will be no further sync."""
        with self._lock:
            for waiter in self._waiters:
                waiter.asleep.release()
            self._waiters = []

    def __repr__(self) -> str:
        return f"SyncWaiters(waiting={len(self._waiters)})"
