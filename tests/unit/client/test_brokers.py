"""The brokers of a client: which were given, which queues they have, and names that were not given."""

from pathlib import Path

import pytest

from mqstore.broker.broker import MessageQueue, TopicRoute
from mqstore.client.brokers import Brokers
from mqstore.client.errors import BrokerNotExist, NoBroker
from mqstore.store.errors import StoreClosed
from support.clients.scripted_broker import ScriptedBroker


def broker_named(name: str, queue_nums: int = 1, *, is_readable: bool = True) -> ScriptedBroker:
    broker = ScriptedBroker()
    broker.name = name
    broker.routes["orders"] = TopicRoute(queue_nums, queue_nums, is_readable, is_writable=True)
    return broker


def test_one_or_several() -> None:
    """They stand in the order of their names."""
    one, two = broker_named("b"), broker_named("a")
    assert Brokers(one, "it") == {"b": one}
    assert list(Brokers([one, two], "it").items()) == [("a", two), ("b", one)]


def test_none() -> None:
    """The error names the client."""
    with pytest.raises(NoBroker, match="the consumer of billing was given no broker"):
        Brokers([], "the consumer of billing")


def test_two_of_one_name() -> None:
    """It could not be told which one a queue is of."""
    with pytest.raises(ValueError, match=r"different names, but these have \['a', 'a'\]"):
        Brokers([broker_named("a"), broker_named("a")], "it")


def test_a_name_that_was_not_given() -> None:
    """The error says which there are."""
    with pytest.raises(BrokerNotExist, match="there is no broker 'c': this client knows 'a', 'b'"):
        Brokers([broker_named("a"), broker_named("b")], "it")["c"]


def test_the_queues_of_a_topic() -> None:
    """Of all brokers that are open and where it may be read."""
    closed = broker_named("d")

    def raise_closed(topic: str) -> TopicRoute | None:
        raise StoreClosed(Path("/store"))

    closed.topic_route = raise_closed  # type: ignore[method-assign]
    given = [broker_named("b", 2), broker_named("a"), broker_named("c", is_readable=False), closed]
    brokers = Brokers(given, "it")
    assert brokers.message_queues("orders") == [
        MessageQueue("orders", "a", 0),
        MessageQueue("orders", "b", 0),
        MessageQueue("orders", "b", 1),
    ]
    assert brokers.message_queues("nothing") == []
