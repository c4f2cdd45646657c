"""Queues that come and go: where they begin, what is kept when they are taken, and how thresholds are shared.

A scripted broker and a pull service that is only told which queues are ready.
"""

from typing import Any

import pytest

from mqstore.broker.broker import MessageQueue
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.pulls.assigned_queues import AssignedQueues
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.offsets.broker_offset_store import BrokerOffsetStore
from mqstore.store.errors import TopicNotExist
from support.clients.manual_timer import ManualTimer
from support.clients.scripted_broker import BROKER, ScriptedBroker

GROUP = "billing"
QUEUES = [MessageQueue("orders", BROKER, queue_id) for queue_id in range(4)]
REFUND = MessageQueue("refunds", BROKER, 0)
BEGIN = 100


class Pulls:
    """Stands for the pull service."""

    def __init__(self) -> None:
        self.threshold_for_queue = 1_000
        self.threshold_size_for_queue = 100 << 20
        self.begun: list[tuple[int, int]] = []

    def ready(self, pulled: PulledQueue) -> None:
        self.begun.append((pulled.queue.queue_id, pulled.next_offset))


class Order:
    """Stands for what locks queues, and knows whether a listener is at work."""

    def __init__(self) -> None:
        self.refused: set[MessageQueue] = set()
        self.at_work: set[MessageQueue] = set()
        self.steps: list[tuple[str, int]] = []

    def claim(self, queue: MessageQueue) -> bool:
        self.steps.append(("claim", queue.queue_id))
        return queue not in self.refused

    def may_leave(self, pulled: PulledQueue) -> bool:
        assert pulled.process_queue.dropped, "no listener may begin any more"
        return pulled.queue not in self.at_work

    def release(self, queue: MessageQueue) -> None:
        self.steps.append(("release", queue.queue_id))


class Assigning:
    """Assigned queues and what is around them."""

    def __init__(self, order: Order | None = None, **settings: int) -> None:
        self.broker = ScriptedBroker()
        self.timer = ManualTimer()
        self.pulls: Any = Pulls()
        self.offsets = BrokerOffsetStore({BROKER: self.broker}, GROUP)
        self.assigned = AssignedQueues(
            GROUP,
            ConsumerSettings(**settings),
            self.offsets,
            self.pulls,
            self.begin,
            order=order,
            now_s=self.timer.now_s,
        )

    def begin(self, queue: MessageQueue) -> int:
        if queue.queue_id == 3:
            raise TopicNotExist(queue.topic)
        return BEGIN

    def update(self, *queues: MessageQueue) -> bool:
        return self.assigned.update("orders", "*", queues)

    @property
    def queue_ids(self) -> list[int]:
        return [pulled.queue.queue_id for pulled in self.assigned]


@pytest.fixture
def assigning() -> Assigning:
    return Assigning()


def test_where_a_queue_begins(assigning: Assigning) -> None:
    """First offset: a store value >= 0 wins, else what consume_from_where says."""
    assigning.broker.offsets = {(GROUP, "orders", 0): 0, (GROUP, "orders", 1): 7}
    assert assigning.update(*QUEUES[:3])
    assert assigning.pulls.begun == [(0, 0), (1, 7), (2, BEGIN)]


def test_what_is_in_memory_of_an_earlier_time_does_not_count(assigning: Assigning) -> None:
    """A push consumer reads the store: another member may have come farther, or gone back."""
    assigning.offsets.update(QUEUES[0], 50, increase_only=True)
    assigning.broker.offsets[GROUP, "orders", 0] = 7
    assigning.update(QUEUES[0])
    assert assigning.pulls.begun == [(0, 7)]
    assert assigning.offsets.read(QUEUES[0]) == -1


@pytest.mark.parametrize("error", ["kept", "begin"])
def test_a_queue_whose_begin_cannot_be_found(
    assigning: Assigning, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Other negative value, exception, retried: it is left out, the others are worked on."""
    queue = QUEUES[3] if error == "begin" else QUEUES[2]
    assigning.broker.offsets[GROUP, "orders", 2] = TopicNotExist("orders")
    assert not assigning.update(QUEUES[0], queue)
    assert assigning.queue_ids == [0]
    assert "cannot begin" in caplog.text
    assigning.broker.offsets.clear()
    assert assigning.update(QUEUES[0], QUEUES[2])
    assert assigning.pulls.begun == [(0, BEGIN), (2, BEGIN)]


def test_a_queue_that_is_taken(assigning: Assigning) -> None:
    """Dropped, persisted, forgotten; queues of other topics stay."""
    assigning.update(*QUEUES[:2])
    assigning.assigned.update("refunds", "*", [REFUND])
    taken = next(iter(assigning.assigned))
    assigning.offsets.update(QUEUES[0], 9, increase_only=True)
    assert assigning.update(QUEUES[1])
    assert taken.process_queue.dropped
    assert assigning.broker.commits == [(GROUP, "orders", 0, 9)]
    assert assigning.offsets.read(QUEUES[0]) == -1
    assert sorted(pulled.queue for pulled in assigning.assigned) == [QUEUES[1], REFUND]


def test_an_offset_that_cannot_be_persisted_does_not_hold_a_queue(
    assigning: Assigning, caplog: pytest.LogCaptureFixture
) -> None:
    """It is taken all the same, and messages come again."""
    assigning.update(QUEUES[0])
    assigning.offsets.update(QUEUES[0], 9, increase_only=True)
    assigning.broker.commit_errors["orders"] = TopicNotExist("orders")
    assigning.update()
    assert len(assigning.assigned) == 0
    assert "cannot persist" in caplog.text


def test_topics_that_are_not_subscribed_any_more(assigning: Assigning) -> None:
    """Their queues are taken."""
    assigning.update(QUEUES[0])
    assigning.assigned.update("refunds", "*", [REFUND])
    assigning.assigned.retain_topics({"refunds"})
    assert [pulled.queue for pulled in assigning.assigned] == [REFUND]


def test_a_queue_that_moves(assigning: Assigning) -> None:
    """OFFSET_ILLEGAL: set and frozen, persisted, removed; given again it begins there."""
    assigning.update(QUEUES[0])
    moved = next(iter(assigning.assigned))
    assigning.offsets.update(QUEUES[0], 9, increase_only=True)
    # A listener's result that comes just then.
    moved.cancel = lambda: assigning.offsets.update(QUEUES[0], 10, increase_only=True)
    assigning.assigned.move(moved, 4)
    assert assigning.broker.commits == [(GROUP, "orders", 0, 4)]
    assert len(assigning.assigned) == 0
    assigning.update(QUEUES[0])
    assert assigning.pulls.begun[-1] == (0, 4)
    assigning.assigned.move(moved, 2)
    assert len(assigning.assigned) == 1, "it was another's by then"


def test_a_queue_that_is_not_pulled_for_long(assigning: Assigning) -> None:
    """Pull idle max 120 s: begun again, in case a pull was lost."""
    assigning.update(QUEUES[0])
    assigning.timer.advance(120_000)
    assigning.update(QUEUES[0])
    assert len(assigning.pulls.begun) == 1
    assigning.timer.advance(1)
    assigning.update(QUEUES[0])
    assert len(assigning.pulls.begun) == 2


def test_a_new_subscription_is_used_by_the_next_pull(assigning: Assigning) -> None:
    """The queue goes on where it is."""
    assigning.update(QUEUES[0])
    assigning.assigned.update("orders", "paid", [QUEUES[0]])
    assert [pulled.subscription for pulled in assigning.assigned] == ["paid"]
    assert len(assigning.pulls.begun) == 1


@pytest.mark.parametrize(
    ("settings", "count", "messages", "mebibytes"),
    [
        ({}, 2, 1_000, 100),
        ({"pull_threshold_for_topic": 10}, 3, 3, 100),
        ({"pull_threshold_for_topic": 2}, 3, 1, 100),
        ({"pull_threshold_size_for_topic": 7}, 2, 1_000, 3),
    ],
)
def test_thresholds_of_a_topic(settings: dict[str, int], count: int, messages: int, mebibytes: int) -> None:
    """pullThresholdForQueue := max(1, pullThresholdForTopic / all queues); the same for the size."""
    assigning = Assigning(**settings)
    assigning.update(*QUEUES[:count])
    pulls = assigning.pulls
    assert (pulls.threshold_for_queue, pulls.threshold_size_for_queue) == (messages, mebibytes << 20)


# -- queues that are consumed in order: row "queue assigned" and "queue revoked" of section 7 --------------


def test_a_queue_is_locked_before_it_is_given() -> None:
    """Row queue assigned: refused, it is left out, and the rebalance did not succeed."""
    order = Order()
    order.refused = {QUEUES[1]}
    assigning = Assigning(order)
    assert not assigning.update(*QUEUES[:3])
    assert assigning.queue_ids == [0, 2]
    order.refused.clear()
    assert assigning.update(*QUEUES[:3])
    assert order.steps == [("claim", 0), ("claim", 1), ("claim", 2), ("claim", 1)]


def test_a_queue_is_released_when_it_is_taken() -> None:
    """Row queue revoked: persisted, forgotten, then unlocked."""
    order = Order()
    assigning = Assigning(order)
    assigning.update(QUEUES[0])
    assigning.offsets.update(QUEUES[0], 9, increase_only=True)
    assert assigning.update()
    assert assigning.broker.commits == [(GROUP, "orders", 0, 9)]
    assert order.steps[-1] == ("release", 0)


def test_a_queue_that_a_listener_is_at_work_on_stays() -> None:
    """Row queue revoked, not got: it stays in the table, dropped, and is tried in each rebalance."""
    order = Order()
    assigning = Assigning(order)
    assigning.update(QUEUES[0])
    order.at_work = {QUEUES[0]}
    (pulled,) = assigning.assigned
    for _ in range(2):
        assert not assigning.update()
        assert pulled.process_queue.dropped
        assert assigning.queue_ids == [0]
    assert not assigning.assigned.retain_topics({"refunds"})
    order.at_work.clear()
    assert assigning.update()
    assert assigning.queue_ids == []
    assert order.steps == [("claim", 0), ("release", 0)]


def test_a_queue_that_leaves_and_is_mine_again() -> None:
    """It is given up first, then begun again: what its listener had counts no more."""
    order = Order()
    assigning = Assigning(order)
    assigning.update(QUEUES[0])
    order.at_work = {QUEUES[0]}
    assigning.update()
    assert not assigning.update(QUEUES[0])
    order.at_work.clear()
    assigning.assigned.take_leaving()
    assert assigning.update(QUEUES[0])
    assert assigning.pulls.begun == [(0, BEGIN)] * 2


def test_a_queue_that_moves_while_a_listener_is_at_work() -> None:
    """It begins at its new offset once the listener has returned."""
    order = Order()
    assigning = Assigning(order)
    assigning.update(QUEUES[0])
    order.at_work = {QUEUES[0]}
    (pulled,) = assigning.assigned
    assigning.assigned.move(pulled, 4)
    assert assigning.broker.commits == []
    order.at_work.clear()
    assigning.update(QUEUES[0])
    assert assigning.pulls.begun[-1] == (0, 4)
