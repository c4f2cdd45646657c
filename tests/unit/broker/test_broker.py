"""The interface of brokers: its values, and the error of one that was closed."""

from pathlib import Path

from mqstore.broker.broker import BrokerClosed, MessageQueue
from mqstore.store.errors import StoreClosed
from mqstore.store.status import ResponseCode


def test_queues_sort_as_rocketmqs_do() -> None:
    """By topic, broker name and queue id: all members of a group must see the same order."""
    queues = [
        MessageQueue("orders", "broker-a", 0),
        MessageQueue("orders", "broker-a", 2),
        MessageQueue("orders", "broker-a", 10),
        MessageQueue("orders", "broker-b", 1),
        MessageQueue("payments", "broker-a", 0),
    ]
    mixed = [queues[number] for number in (3, 0, 4, 2, 1)]
    assert sorted(mixed) == queues


def test_a_closed_broker_says_which() -> None:
    """For clients it is a store that was closed: they ask another one, or end."""
    error = BrokerClosed("broker-a", Path("/store"))
    assert str(error) == "the broker 'broker-a' at /store is closed: make another"
    assert (error.name, error.place) == ("broker-a", Path("/store"))
    assert error.response_code is ResponseCode.SERVICE_NOT_AVAILABLE
    assert isinstance(error, StoreClosed)
