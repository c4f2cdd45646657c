"""Locks as a client sees them: rows of the life of a lock, section 7 of client_produce.md.

A broker's real lock table with another member beside, a timer moved by hand.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from mqstore.broker.broker import MessageQueue
from mqstore.broker.queue_locks import QueueLocks as BrokerLocks
from mqstore.client.rebalance.queue_locks import QueueLocks
from mqstore.store.errors import StoreError
from support.clients.manual_timer import ManualTimer

GROUP, ME, OTHER = "billing", "me", "other"
FIRST, SECOND = (MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))
ELSEWHERE = MessageQueue("orders", "broker-b", 0)


class LockingBroker:
    """The part of a broker that locks, and what it was asked for."""

    def __init__(self, name: str, timer: ManualTimer) -> None:
        self.name = name
        self.table = BrokerLocks(timer.now_s)
        self.asked: list[list[MessageQueue]] = []
        self.error: Exception | None = None

    def lock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        self.asked.append(list(queues))
        if self.error is not None:
            raise self.error
        return self.table.lock(group, client_id, self.asked[-1])

    def unlock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        if self.error is not None:
            raise self.error
        self.table.unlock(group, client_id, queues)


class Locking:
    """A client's locks at two brokers."""

    def __init__(self) -> None:
        self.timer = ManualTimer()
        self.broker: Any = LockingBroker("broker-a", self.timer)
        self.elsewhere: Any = LockingBroker("broker-b", self.timer)
        self.queues = [FIRST, ELSEWHERE, SECOND]
        self.locks = QueueLocks(
            [self.broker, self.elsewhere],
            GROUP,
            ME,
            lambda: self.queues,
            self.timer,
            now_s=self.timer.now_s,
        )


@pytest.fixture
def locking() -> Locking:
    return Locking()


def test_start(locking: Locking) -> None:
    """Rows start, Lock renewal, system-property knobs: after 1 s, every 20 s; one call a broker."""
    locking.locks.start()
    locking.timer.advance(999)
    assert not locking.broker.asked
    locking.timer.advance(1)
    assert locking.broker.asked == [[FIRST, SECOND]]
    assert locking.elsewhere.asked == [[ELSEWHERE]]
    locking.timer.advance(19_999)
    assert len(locking.broker.asked) == 1
    locking.timer.advance(1)
    assert len(locking.broker.asked) == len(locking.elsewhere.asked) == 2


def test_view_of_the_client(locking: Locking) -> None:
    """Row client's view: locked and not older than 30 s since the last success."""
    assert not locking.locks.is_held(FIRST)
    assert locking.locks.lock(FIRST)
    locking.timer.advance(30_000)
    assert locking.locks.is_held(FIRST)
    locking.timer.advance(1)
    assert not locking.locks.is_held(FIRST)
    assert locking.locks.is_locked(FIRST), "nobody has said no"


def test_a_renewal_that_is_refused(locking: Locking) -> None:
    """Row start, refused: not locked any more; the next yes gives it back."""
    locking.locks.lock(FIRST)
    locking.broker.table.unlock(GROUP, ME, [FIRST])
    locking.broker.table.lock(GROUP, OTHER, [FIRST])
    locking.locks.renew()
    assert [locking.locks.is_held(queue) for queue in (FIRST, SECOND)] == [False, True]
    locking.broker.table.unlock(GROUP, OTHER, [FIRST])
    locking.locks.renew()
    assert locking.locks.is_held(FIRST)


def test_a_renewal_that_fails(locking: Locking, caplog: pytest.LogCaptureFixture) -> None:
    """Row start, RPC failed: nothing changes, the age decides. It is logged once."""
    locking.locks.start()
    locking.timer.advance(1_000)
    locking.broker.error = StoreError("no answer")
    locking.timer.advance(20_000)
    assert locking.locks.is_held(FIRST)
    locking.timer.advance(10_001)
    assert not locking.locks.is_held(FIRST)
    assert locking.locks.is_held(ELSEWHERE), "the other broker was asked all the same"
    locking.timer.advance(30_000)
    assert len(caplog.records) == 1
    locking.broker.error = None
    locking.timer.advance(20_000)
    assert locking.locks.is_held(FIRST)


def test_another_member_has_it(locking: Locking) -> None:
    """Row broker's view: refused while not expired, then taken over after 60 s."""
    locking.broker.table.lock(GROUP, OTHER, [FIRST])
    assert not locking.locks.lock(FIRST)
    locking.timer.advance(60_001)
    assert locking.locks.lock(FIRST)


def test_giving_up(locking: Locking) -> None:
    """Row queue revoked: another member can lock it at once."""
    locking.locks.lock(FIRST)
    locking.locks.unlock(FIRST)
    assert not locking.locks.is_held(FIRST)
    assert locking.broker.table.lock(GROUP, OTHER, [FIRST]) == {FIRST}


def test_giving_up_at_a_broker_that_fails(locking: Locking, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and not held here."""
    locking.locks.lock(FIRST)
    locking.broker.error = StoreError("no answer")
    locking.locks.unlock(FIRST)
    assert not locking.locks.is_held(FIRST)
    assert "cannot unlock" in caplog.text


def test_a_queue_of_no_broker_that_is_known(locking: Locking) -> None:
    """It cannot be locked, and giving it up does nothing."""
    unknown = MessageQueue("orders", "broker-c", 0)
    assert not locking.locks.lock(unknown)
    locking.locks.unlock(unknown)


def test_the_age(locking: Locking) -> None:
    """Since the last yes; a queue that was never locked is as old as can be."""
    assert locking.locks.age_s(FIRST) == float("inf")
    locking.locks.lock(FIRST)
    locking.timer.advance(20_000)
    assert locking.locks.age_s(FIRST) == 20


def test_a_stopped_one_renews_no_more(locking: Locking) -> None:
    """Nothing is left on the timer."""
    locking.locks.start()
    locking.locks.stop()
    locking.locks.start()
    assert locking.timer.delays_ms == []
    locking.timer.advance(60_000)
    assert not locking.broker.asked
