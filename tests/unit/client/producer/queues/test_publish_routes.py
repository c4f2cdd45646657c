"""The publish routes: which queues a producer sends to, and how long it believes in them.

Rows of docs/spec/client_produce.md: "route" of section 2, and "Queues of a topic for sending" of section 3.
"""

import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mqstore.broker.broker import MessageQueue, TopicRoute
from mqstore.client.errors import TopicRouteNotFound
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.queues.publish_routes import PublishRoutes, QueueTurns
from mqstore.store.errors import ConfigIllegal, StoreClosed
from support.clients.answering_broker import AnsweringBroker


def routes_of(*brokers: AnsweringBroker, **settings: Any) -> PublishRoutes:
    by_name: Any = {broker.name: broker for broker in brokers}
    return PublishRoutes(by_name, ProducerSettings(**settings), random.Random(1))


def queues(*of_brokers: tuple[str, int], topic: str = "orders") -> tuple[MessageQueue, ...]:
    return tuple(
        MessageQueue(topic, name, queue_id) for name, count in of_brokers for queue_id in range(count)
    )


def turns_of(queues: tuple[MessageQueue, ...]) -> QueueTurns:
    return QueueTurns([(queue, queue.queue_id, None, None) for queue in queues], random.Random(7))


def test_queues_come_by_broker_and_id() -> None:
    """Row "Queues of a topic for sending": by the names of brokers, ids from 0 to writeQueueNums - 1."""
    b, a = AnsweringBroker("b", topics={"orders": 1}), AnsweringBroker("a", topics={"orders": 2})
    assert routes_of(b, a).find("orders", 0.0).queues == queues(("a", 2), ("b", 1))


def test_only_those_that_may_be_written_to_count() -> None:
    """The same row: those with write permission; the write queues, not the read queues."""
    a, b = AnsweringBroker("a"), AnsweringBroker("b")
    a.routes["orders"] = TopicRoute(8, 3, is_readable=False, is_writable=True)
    b.routes["orders"] = TopicRoute(8, 3, is_readable=True, is_writable=False)
    assert routes_of(a, b).find("orders", 0.0).queues == queues(("a", 3))


def test_an_order_configuration_is_followed() -> None:
    """The same row: with `a:8;b:4` exactly those."""
    routes = routes_of(AnsweringBroker("a"), order_topic_conf={"orders": "b:1;a:2"})
    assert routes.find("orders", 0.0).queues == queues(("b", 1), ("a", 2))


@pytest.mark.parametrize("conf", ["", "a", "a:", ":4", "a:x", "a:0", "a:1;b:-1"])
def test_an_order_configuration_that_means_nothing_is_refused(conf: str) -> None:
    """When the producer is made, with the value and an example."""
    with pytest.raises(ConfigIllegal, match="must be like broker-a:8;broker-b:4") as caught:
        routes_of(AnsweringBroker(), order_topic_conf={"orders": conf})
    assert caught.value.value == conf


@pytest.mark.parametrize(("template_queues", "count"), [(8, 4), (3, 3)])
def test_a_missing_topic_has_the_queues_of_the_template(template_queues: int, count: int) -> None:
    """Row route: none: that of TBW102, `min(defaultTopicQueueNums 4, its queues)`."""
    broker = AnsweringBroker("a", topics={"TBW102": template_queues})
    assert routes_of(broker).find("orders", 0.0).queues == queues(("a", count))
    assert broker.asked_routes == ["orders", "TBW102"]


def test_no_topic_and_no_template() -> None:
    """Row route: none at all is an error, which names the brokers; what one of them raised is its cause."""
    a, b = AnsweringBroker("a", topics={}), AnsweringBroker("b", topics={})
    closed = StoreClosed(Path("/b"))
    b.routes["orders"] = closed
    with pytest.raises(TopicRouteNotFound, match="no broker of 'a', 'b'") as caught:
        routes_of(a, b).find("orders", 0.0)
    assert (caught.value.topic, caught.value.broker_names) == ("orders", ("a", "b"))
    assert caught.value.__cause__ is closed


def test_a_broker_that_raises_is_left_out() -> None:
    """The others have a route all the same."""
    a, b = AnsweringBroker("a"), AnsweringBroker("b", topics={"orders": 1})
    a.routes["orders"] = StoreClosed(Path("/a"))
    assert routes_of(a, b).find("orders", 0.0).queues == queues(("b", 1))


def test_a_route_is_kept_for_a_while() -> None:
    """Row route: table in memory; asked anew after pollNameServerInterval, and when it was forgotten."""
    broker = AnsweringBroker("a")
    routes = routes_of(broker, poll_name_server_interval=10_000)
    first = routes.find("orders", 0.0)
    assert routes.find("orders", 9.9) is first
    assert len(broker.asked_routes) == 1
    broker.routes["orders"] = TopicRoute(1, 1, is_readable=True, is_writable=True)
    assert routes.find("orders", 10.0).queues == queues(("a", 1))
    routes.forget("orders")
    routes.find("orders", 10.0)
    assert len(broker.asked_routes) == 3


def test_a_route_that_is_gone_is_not_believed() -> None:
    """A topic that was deleted is an error at once, not for ever the old route."""
    broker = AnsweringBroker("a")
    routes = routes_of(broker)
    routes.find("orders", 0.0)
    broker.routes.clear()
    with pytest.raises(TopicRouteNotFound):
        routes.look_up("orders", 1.0)
    assert not routes.table


def test_turns_go_on_when_the_queues_are_the_same() -> None:
    """A route that is asked anew and has not changed does not begin at a random queue again."""
    broker = AnsweringBroker("a")
    routes = routes_of(broker)
    first = routes.find("orders", 0.0)
    assert routes.look_up("orders", 1.0).turns is first.turns
    broker.routes["orders"] = TopicRoute(5, 5, is_readable=True, is_writable=True)
    assert routes.look_up("orders", 2.0).turns is not first.turns


def test_each_thread_takes_the_queues_in_turn_from_a_random_one() -> None:
    """Row Index: one per thread and topic, begins at a random number, + 1 for each look."""
    four = queues(("a", 4))
    turns = turns_of(four)
    firsts: list[MessageQueue] = []

    def look() -> None:
        seen = [turns.next().queue_id for _ in range(9)]
        firsts.append(four[seen[0]])
        assert seen == [(seen[0] + step) % 4 for step in range(9)]

    threads = [threading.Thread(target=look) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Counter(firsts)) == 4


def test_what_plain_sends_look_at_is_the_table() -> None:
    """The same routes, taken apart: until when, whose turn it is, and for each queue its id and broker."""
    a = AnsweringBroker("a")
    a.put_sent = lambda *arguments: None
    routes = routes_of(a, order_topic_conf={"orders": "a:1;missing:1"})
    route = routes.find("orders", 5.0)
    expires_s, turns, itself = routes.plain["orders"]
    assert (expires_s, itself) == (route.expires_s, route)
    targets = [next(turns.targets) for _ in range(2)]
    assert sorted(targets, key=str) == [
        (MessageQueue("orders", "a", 0), 0, a, a.put_sent),
        (MessageQueue("orders", "missing", 0), 0, None, None),
    ]
    routes.forget("orders")
    assert routes.plain == routes.table == {}


def test_turns_can_begin_anew() -> None:
    """They then go on from a random queue, which is any of them."""
    turns = turns_of(queues(("a", 4)))
    seen = set()
    for _ in range(50):
        turns.begin_anew()
        seen.add(turns.next().queue_id)
    assert seen == {0, 1, 2, 3}
