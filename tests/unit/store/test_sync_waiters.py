"""Sync waiters: everyone whose bytes are durable is woken, and exactly one of the others, to lead.

A lock that `join` returned and that can be acquired means: woken. No thread is needed to see it.
"""

import threading

from mqstore.store.sync_waiters import SyncWaiters


def woken(*locks: threading.Lock) -> list[bool]:
    """Which of the threads that sleep on these locks would run now."""
    return [lock.acquire(blocking=False) for lock in locks]


def test_those_who_are_covered_wake_and_one_more() -> None:
    """Whatever the order they came in; the first that is not covered leads the next sync."""
    waiters = SyncWaiters()
    locks = [waiters.join(end_offset) for end_offset in (300, 100, 400, 200, 500)]
    waiters.wake(200)
    assert woken(*locks) == [True, True, False, True, False]
    assert repr(waiters) == "SyncWaiters(waiting=2)"


def test_each_is_woken_once() -> None:
    """A second wake finds those who still sleep, and no lock is released twice (which would raise)."""
    waiters = SyncWaiters()
    locks = [waiters.join(end_offset) for end_offset in (100, 200, 300)]
    waiters.wake(100)
    waiters.wake(300)
    waiters.wake(300)
    assert woken(*locks) == [True, True, True]
    assert repr(waiters) == "SyncWaiters(waiting=0)"


def test_a_poisoned_log_lets_everyone_go() -> None:
    """Nobody will sync again, so nobody may sleep on."""
    waiters = SyncWaiters()
    locks = [waiters.join(end_offset) for end_offset in (100, 200)]
    waiters.wake_all()
    assert woken(*locks) == [True, True]
