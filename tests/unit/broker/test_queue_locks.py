"""The queue locks: who holds a queue, for how long, and who gets it next. The clock is moved by hand."""

from mqstore.broker.broker import MessageQueue
from mqstore.broker.queue_locks import LEASE_S, QueueLocks
from support.manual_seconds import ManualSeconds

GROUP, ME, OTHER = "billing", "me", "other"
FIRST, SECOND = (MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))


def test_a_queue_has_one_holder(seconds: ManualSeconds) -> None:
    """Another client is refused while the lease runs, and gets the queues that nobody has."""
    locks = QueueLocks(seconds)
    assert locks.lock(GROUP, ME, [FIRST]) == {FIRST}
    assert locks.lock(GROUP, OTHER, [FIRST, SECOND]) == {SECOND}
    assert locks.lock(GROUP, ME, [FIRST, SECOND]) == {FIRST}
    assert locks.lock("another group", OTHER, [FIRST]) == {FIRST}


def test_a_lease_runs_for_60_seconds(seconds: ManualSeconds) -> None:
    """Then another client takes the queue over, and the first one does not get it back."""
    locks = QueueLocks(seconds)
    locks.lock(GROUP, ME, [FIRST])
    seconds.advance(LEASE_S)
    assert locks.are_held(GROUP)
    assert locks.lock(GROUP, OTHER, [FIRST]) == set()
    seconds.advance(0.001)
    assert not locks.are_held(GROUP)
    assert locks.lock(GROUP, OTHER, [FIRST]) == {FIRST}
    assert locks.lock(GROUP, ME, [FIRST]) == set()


def test_each_lock_renews_the_lease(seconds: ManualSeconds) -> None:
    """The holder asks every 20 s, and so never loses a queue."""
    locks = QueueLocks(seconds)
    for _ in range(10):
        assert locks.lock(GROUP, ME, [FIRST]) == {FIRST}
        seconds.advance(20)
        assert locks.lock(GROUP, OTHER, [FIRST]) == set()


def test_only_its_holder_gives_a_queue_up(seconds: ManualSeconds) -> None:
    """What others give up, or what nobody holds, changes nothing."""
    locks = QueueLocks(seconds)
    locks.lock(GROUP, ME, [FIRST])
    locks.unlock(GROUP, OTHER, [FIRST, SECOND])
    locks.unlock("another group", ME, [FIRST])
    assert locks.lock(GROUP, OTHER, [FIRST]) == set()
    locks.unlock(GROUP, ME, iter([FIRST]))
    assert not locks.are_held(GROUP)
    assert locks.lock(GROUP, OTHER, [FIRST]) == {FIRST}


def test_a_client_gives_up_all_of_a_group(seconds: ManualSeconds) -> None:
    """What it holds for another group stays, and what others hold."""
    locks = QueueLocks(seconds)
    locks.lock(GROUP, ME, [FIRST])
    locks.lock(GROUP, OTHER, [SECOND])
    locks.lock("another group", ME, [FIRST])
    locks.unlock_all(GROUP, ME)
    assert locks.lock(GROUP, OTHER, [FIRST, SECOND]) == {FIRST, SECOND}
    assert locks.are_held("another group")


def test_nothing_is_kept_of_a_group_without_locks(seconds: ManualSeconds) -> None:
    """A broker that has seen a million groups remembers none."""
    locks = QueueLocks(seconds)
    locks.lock(GROUP, ME, [])
    assert repr(locks) == "QueueLocks(0 locks of 0 groups)"
    locks.lock(GROUP, ME, [FIRST, SECOND])
    assert repr(locks) == "QueueLocks(2 locks of 1 groups)"
    locks.unlock_all(GROUP, ME)
    assert repr(locks) == "QueueLocks(0 locks of 0 groups)"
