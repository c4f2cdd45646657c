"""Sync waiters: everyone whose bytes are durable is woken, one after another, and then one who leads.

Nobody sleeps here: `sleep(0)` tells who would run, and a thread's going its way is played by `leave`.
"""

from types import SimpleNamespace

import pytest

from mqstore.store.log import sync_waiters as sync_waiters_module
from mqstore.store.log.sync_waiters import SyncWaiter, SyncWaiters
from support.disks.interrupts import interrupted_at


def woken(waiters: SyncWaiters, *sleeping: SyncWaiter) -> list[int]:
    """The end offsets of those who wake up, in their order. Each goes its way, and so wakes the next."""
    order: list[int] = []
    asleep = list(sleeping)
    while awake := [waiter for waiter in asleep if waiter.sleep(0)]:
        for waiter in awake:
            order.append(waiter.end_offset)
            asleep.remove(waiter)
            waiters.leave(waiter)
    return order


def test_those_who_are_covered_wake_in_a_row_and_then_one_who_leads() -> None:
    """In the order of their coming; one at a time; the leader is the youngest of the others."""
    waiters = SyncWaiters()
    waiters.is_led = True
    first, *others = (waiters.join(end_offset) for end_offset in (100, 300, 200, 400, 500))
    waiters.wake(200)
    assert first.sleep(0)
    assert not any(waiter.sleep(0) for waiter in others)
    waiters.leave(first)
    covered = others[1]
    assert covered.sleep(0)
    waiters.leave(covered)
    leader = others[3]
    assert [waiter.sleep(0) for waiter in others] == [False, False, False, True]
    assert waiters.is_led
    assert repr(waiters) == "SyncWaiters(waiting=2)"
    waiters.wake(leader.end_offset)
    assert woken(waiters, *others) == [300, 400]
    assert not waiters.is_led


def test_each_is_woken_once() -> None:
    """A second sync finds those who still sleep, and no lock is released twice (which would raise)."""
    waiters = SyncWaiters()
    sleeping = [waiters.join(end_offset) for end_offset in (100, 200, 300)]
    for flushed_offset in (100, 300, 300):
        waiters.wake(flushed_offset)
    assert sorted(woken(waiters, *sleeping)) == [100, 200, 300]
    assert repr(waiters) == "SyncWaiters(waiting=0)"


def test_who_has_left_is_passed_over() -> None:
    """Its time was up, or it led a sync itself: it is not woken, neither to go on nor to lead."""
    waiters = SyncWaiters()
    waiters.is_led = True
    sleeping = [waiters.join(end_offset) for end_offset in (100, 200, 300, 400)]
    for waiter in (sleeping[0], sleeping[3]):
        waiters.leave(waiter)
    assert repr(waiters) == "SyncWaiters(waiting=2)"
    waiters.wake(200)
    assert woken(waiters, *sleeping) == [200, 300]
    assert not waiters.is_led


def test_who_is_woken_late_wakes_all_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy thread keeps the interpreter's lock: they are to queue for it all together."""
    now_s = [1_000.0]
    monkeypatch.setattr(sync_waiters_module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    waiters = SyncWaiters()
    waiters.is_led = True
    sleeping = [waiters.join(end_offset) for end_offset in (100, 200, 300, 400)]
    waiters.wake(300)
    now_s[0] += 0.005
    assert sleeping[0].sleep(0)
    waiters.leave(sleeping[0])
    assert [waiter.sleep(0) for waiter in sleeping[1:]] == [True, True, True]
    assert waiters.is_led


def test_a_poisoned_log_lets_everyone_go() -> None:
    """Nobody will sync again, so nobody may sleep on; also those who were to be woken in a row."""
    waiters = SyncWaiters()
    waiters.is_led = True
    sleeping = [waiters.join(end_offset) for end_offset in (100, 200, 300, 400)]
    waiters.wake(200)
    waiters.wake_all()
    assert all(waiter.sleep(0) for waiter in sleeping)
    assert not waiters.is_led


def test_ctrl_c_anywhere_leaves_nobody_who_cannot_be_woken() -> None:
    """Those who slept in vain look for themselves and leave; whoever joins then is woken as ever."""

    def scene(waiters: SyncWaiters) -> None:
        sleeping = [waiters.join(end_offset) for end_offset in (100, 300, 200)]
        waiters.wake(200)
        woken(waiters, *sleeping)
        waiters.wake(300)
        woken(waiters, *sleeping)

    at, was_interrupted = 0, True
    while was_interrupted:
        at += 1
        waiters = SyncWaiters()
        waiters.is_led = True
        was_interrupted = interrupted_at(at, (sync_waiters_module,), lambda: scene(waiters))  # noqa: B023
        for waiter in (*waiters._waiting, *waiters._covered):
            waiters.leave(waiter)
        sleeping = [waiters.join(end_offset) for end_offset in (400, 500, 600)]
        waiters.wake(500)
        assert woken(waiters, *sleeping) == [400, 500, 600], at
        assert not waiters.is_led


def test_a_finalizer_amid_a_wake_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told that its thread is within, and its own wake is left to those who look for themselves."""
    waiters = SyncWaiters()
    waiter = waiters.join(100)
    seen: list[bool] = []

    def a_finalizer() -> float:
        seen.append(waiters.is_entered)
        waiters.wake(100)
        waiters.wake_all()
        return 0.0

    monkeypatch.setattr(sync_waiters_module, "time", SimpleNamespace(monotonic=a_finalizer))
    waiters.wake(100)
    assert seen == [True]
    assert not waiters.is_entered
    assert waiter.sleep(0)
