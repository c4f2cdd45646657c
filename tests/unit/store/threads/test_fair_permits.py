"""Fair permits: who came first gets them first, and none is lost."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.fair_permits import FairPermits


def wait_until_waiting(permits: FairPermits, count: int) -> None:
    """Until so many threads wait."""
    while len(permits._waiters) < count:
        threading.Event().wait(0.001)


def test_permits_are_taken_and_given_back() -> None:
    """As long as there are any."""
    permits = FairPermits(3)
    assert permits.acquire(2, 0)
    assert not permits.acquire(2, 0)
    assert permits.free == 1
    permits.release(2)
    assert permits.acquire(3, 0)


def test_one_who_wants_many_is_not_overtaken() -> None:
    """Three wait for 3, 1 and 1 of 3 permits; they get them in this order."""
    permits, order = FairPermits(3), []
    permits.acquire(3, 0)

    def take(count: int, name: str) -> None:
        assert permits.acquire(count, 60)
        order.append(name)

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(take, 3, "many")
        wait_until_waiting(permits, 1)
        others = [pool.submit(take, 1, "few"), pool.submit(take, 1, "few")]
        wait_until_waiting(permits, 3)
        permits.release(1)
        assert permits.free == 1
        permits.release(2)
        first.result(60)
        assert order == ["many"]
        permits.release(3)
        for other in others:
            other.result(60)
    assert permits.free == 1


def test_one_who_gives_up_takes_none() -> None:
    """And lets those behind it pass."""
    permits = FairPermits(2)
    permits.acquire(1, 0)
    with ThreadPoolExecutor(1) as pool:
        gives_up = pool.submit(permits.acquire, 2, 0.01)
        assert gives_up.result(60) is False
    assert permits.free == 1
    assert permits.acquire(1, 0)


def test_permits_that_come_at_the_last_moment_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is over, but they were handed out already."""
    permits = FairPermits(1)
    permits.acquire(1, 0)

    def too_late(event: AutoResetEvent, timeout_s: float) -> bool:
        permits.release(1)
        return False

    monkeypatch.setattr(AutoResetEvent, "wait", too_late)
    assert permits.acquire(1, 60)
    assert permits.free == 0


def test_an_interrupt_leaves_nothing_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not the permits were handed out."""
    permits = FairPermits(1)
    for came in (True, False):
        permits.acquire(1, 0)

        def interrupted(event: AutoResetEvent, timeout_s: float, came: bool = came) -> bool:
            if came:
                permits.release(1)
            raise KeyboardInterrupt

        monkeypatch.setattr(AutoResetEvent, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            permits.acquire(1, 60)
        if not came:
            permits.release(1)
        assert permits.free == 1
        assert not permits._waiters
