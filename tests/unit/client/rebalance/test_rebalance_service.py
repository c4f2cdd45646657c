"""When a rebalance runs, and what it makes of routes and members: section 8 of client_produce.md.

A scripted broker, a timer moved by hand; what would work on the queues notes what it is given.
"""

from collections.abc import Collection
from pathlib import Path

import pytest

from mqstore.broker.broker import ConsumerData, MessageModel, MessageQueue, TopicRoute
from mqstore.client.rebalance.queue_allocation import (
    Allocation,
    allocate_averagely,
    allocate_averagely_by_circle,
)
from mqstore.client.rebalance.rebalance_service import RebalanceService
from mqstore.store.errors import StoreClosed, StoreError
from support.clients.manual_timer import ManualTimer
from support.clients.scripted_broker import ScriptedBroker

GROUP = "billing"
RETRY = "%RETRY%billing"


class Assignment:
    """Notes what it is to work on."""

    def __init__(self) -> None:
        self.queues: dict[str, list[int]] = {}
        self.retained: list[set[str]] = []
        self.is_complete = True
        self.count = 0

    def update(self, topic: str, subscription: str, queues: Collection[MessageQueue]) -> bool:
        self.count += 1
        self.queues[topic] = [queue.queue_id for queue in queues]
        return self.is_complete

    def retain_topics(self, topics: Collection[str]) -> bool:
        self.retained.append(set(topics))
        return self.is_complete


class Member:
    """One member of the group, at a broker that it may share."""

    def __init__(
        self,
        broker: ScriptedBroker,
        timer: ManualTimer,
        client_id: str = "a",
        model: MessageModel = MessageModel.CLUSTERING,
        *others: ScriptedBroker,
        allocate: Allocation = allocate_averagely,
    ) -> None:
        self.timer = timer
        self.assignment = Assignment()
        self.subscriptions = {"orders": "*", RETRY: "*"}
        self.service = RebalanceService(
            [broker, *others],
            GROUP,
            client_id,
            model,
            lambda: self.subscriptions,
            self.assignment,
            timer,
            allocate=allocate,
            now_s=timer.now_s,
        )
        broker.register_consumer(GROUP, client_id, ConsumerData(model, self.subscriptions), self.service.soon)


@pytest.fixture
def broker() -> ScriptedBroker:
    broker = ScriptedBroker()
    broker.add_topic("orders", 2)
    broker.add_topic(RETRY)
    return broker


@pytest.fixture
def timer() -> ManualTimer:
    return ManualTimer()


def test_at_once_and_then_every_20_s(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """Row period: at once at the start, then 20 s."""
    member = Member(broker, timer)
    member.service.soon()
    timer.advance(0)
    assert member.assignment.queues == {"orders": [0, 1], RETRY: [0]}
    assert timer.delays_ms == [20_000]
    timer.advance(20_000)
    assert (member.assignment.count, timer.delays_ms) == (4, [20_000])


def test_a_second_after_one_that_did_not_succeed(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """Row period: 1 s after one that was not balanced."""
    member = Member(broker, timer)
    member.assignment.is_complete = False
    member.service.soon()
    timer.advance(0)
    assert timer.delays_ms == [1_000]


def test_never_twice_within_a_second(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """Row period: a change right after a rebalance waits for the second to pass."""
    member = Member(broker, timer)
    member.service.soon()
    timer.advance(400)
    member.service.soon()
    member.service.soon()
    assert timer.delays_ms == [600]
    timer.advance(600)
    assert timer.delays_ms == [20_000]


def test_a_topic_that_comes_to_be(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """It is looked for each second; its queues are then worked on."""
    del broker.routes["orders"]
    member = Member(broker, timer)
    member.service.soon()
    timer.advance(5_000)
    assert (member.assignment.queues, timer.delays_ms) == ({RETRY: [0]}, [1_000])
    broker.add_topic("orders", 3)
    timer.advance(1_000)
    assert member.assignment.queues["orders"] == [0, 1, 2]
    assert timer.delays_ms == [20_000]


def test_a_retry_topic_that_does_not_exist_is_silent(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """Row input: nothing is done about it, nor sooner."""
    del broker.routes[RETRY]
    member = Member(broker, timer)
    member.service.soon()
    timer.advance(0)
    assert (member.assignment.queues, timer.delays_ms) == ({"orders": [0, 1]}, [20_000])


def test_a_topic_that_is_missing_changes_nothing(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """Row input: either missing, nothing changes: the queues that it had are worked on."""
    member = Member(broker, timer)
    member.service.soon()
    timer.advance(0)
    count = member.assignment.count
    broker.routes = {"orders": TopicRoute(2, 2, is_readable=False, is_writable=True)}
    timer.advance(20_000)
    assert member.assignment.count == count
    assert member.assignment.retained[-1] == {"orders", RETRY}, "they are still subscribed to"


def test_a_member_that_the_broker_does_not_know(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """Row input: the members are missing, nothing changes."""
    member = Member(broker, timer)
    broker.members.clear()
    member.service.soon()
    timer.advance(0)
    assert (member.assignment.count, timer.delays_ms) == (0, [1_000])


def test_a_client_that_is_no_member_has_no_queues(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """All strategies: it gives up what it has, for the others share it."""
    member = Member(broker, timer)
    member.service.soon()
    timer.advance(0)
    broker.members = {"b": broker.members["a"]}
    timer.advance(20_000)
    assert member.assignment.queues == {"orders": [], RETRY: []}


def test_members_share_and_one_takes_over(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """Row period, a change of the group: no queue has two owners, and none is without."""
    first, second = Member(broker, timer, "a"), Member(broker, timer, "b")
    for member in (first, second):
        member.service.soon()
    timer.advance(0)
    assert (first.assignment.queues["orders"], second.assignment.queues["orders"]) == ([0], [1])
    broker.unregister_consumer(GROUP, "a")
    broker.members["b"]()
    timer.advance(1_000)
    assert second.assignment.queues["orders"] == [0, 1]


def test_another_allocation(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """Row input: it gets sorted members and queues, and decides."""
    broker.add_topic("orders", 4)
    members = [Member(broker, timer, name, allocate=allocate_averagely_by_circle) for name in "ba"]
    for member in members:
        member.service.soon()
    timer.advance(0)
    assert [member.assignment.queues["orders"] for member in members] == [[1, 3], [0, 2]]


def test_several_brokers(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """Row input: queues sorted by broker name, members of each broker. One that is closed is left out."""
    before = ScriptedBroker()
    before.name = "a-broker"
    before.add_topic("orders", 3)
    first = Member(broker, timer, "a", MessageModel.CLUSTERING, before)
    second = Member(before, timer, "b", MessageModel.CLUSTERING, broker)
    for member in (first, second):
        member.service.soon()
    timer.advance(0)
    assert [member.assignment.queues["orders"] for member in (first, second)] == [[0, 1, 2], [0, 1]]

    def fail(topic: str) -> TopicRoute:
        raise StoreClosed(Path("/store"))

    before.topic_route = fail  # type: ignore[method-assign]
    timer.advance(20_000)
    assert first.assignment.queues["orders"] == [0, 1], "those of the broker that is open"


def test_a_topic_that_fails_does_not_stop_the_others(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """The rebalance is tried again after a second."""
    member = Member(broker, timer)

    def fail(topic: str) -> TopicRoute | None:
        if topic == "orders":
            raise StoreError("no route")
        return broker.routes.get(topic)

    broker.topic_route = fail  # type: ignore[method-assign]
    member.service.soon()
    timer.advance(0)
    assert (member.assignment.queues, timer.delays_ms) == ({RETRY: [0]}, [1_000])


def test_broadcasting(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """Row BROADCASTING: all queues, whoever else is there."""
    members = [Member(broker, timer, name, MessageModel.BROADCASTING) for name in "ab"]
    for member in members:
        member.service.soon()
    timer.advance(0)
    assert [member.assignment.queues["orders"] for member in members] == [[0, 1], [0, 1]]


def test_an_error_is_logged_once(
    broker: ScriptedBroker, timer: ManualTimer, caplog: pytest.LogCaptureFixture
) -> None:
    """And tried again after a second."""
    member = Member(broker, timer)

    def fail(topic: str) -> TopicRoute:
        raise ValueError("no route")

    broker.topic_route = fail  # type: ignore[method-assign]
    member.service.soon()
    timer.advance(3_000)
    assert (len(caplog.records), timer.delays_ms) == (1, [1_000])


def test_a_closed_store_ends_it(
    broker: ScriptedBroker, timer: ManualTimer, caplog: pytest.LogCaptureFixture
) -> None:
    """There will be no queues any more."""
    member = Member(broker, timer)

    def fail(topic: str) -> TopicRoute:
        raise StoreClosed(Path("/store"))

    broker.topic_route = fail  # type: ignore[method-assign]
    member.service.soon()
    timer.advance(3_000)
    assert timer.delays_ms == []
    assert "takes no more queues" in caplog.text


def test_a_stopped_one_stays_so(broker: ScriptedBroker, timer: ManualTimer) -> None:
    """What was due is cancelled, and a change of the group is ignored."""
    member = Member(broker, timer)
    member.service.soon()
    member.service.stop()
    member.service.soon()
    timer.advance(60_000)
    assert member.assignment.count == 0
