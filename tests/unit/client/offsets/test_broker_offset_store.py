"""Offsets that the broker keeps: when it is asked, what it is told, and what an error of one queue does."""

import pytest

from mqstore.broker.broker import MessageQueue
from mqstore.client.offsets.broker_offset_store import BrokerOffsetStore
from mqstore.store.errors import TopicNotExist
from support.clients.scripted_broker import BROKER, ScriptedBroker

QUEUE, OTHER = MessageQueue("orders", BROKER, 0), MessageQueue("refunds", BROKER, 1)


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


@pytest.fixture
def offsets(broker: ScriptedBroker) -> BrokerOffsetStore:
    return BrokerOffsetStore({BROKER: broker}, "billing")


def test_read_kept(broker: ScriptedBroker, offsets: BrokerOffsetStore) -> None:
    """Row readOffset: the store, whatever is in memory; none at the broker -1; an error is raised."""
    offsets.update(QUEUE, 9, increase_only=True)
    assert (offsets.read_kept(QUEUE), offsets.read(QUEUE)) == (-1, 9)
    broker.offsets["billing", "orders", 0] = 5
    assert offsets.read_kept(QUEUE) == 5
    broker.offsets["billing", "orders", 0] = TopicNotExist("orders")
    with pytest.raises(TopicNotExist):
        offsets.read_kept(QUEUE)


def test_persist(broker: ScriptedBroker, offsets: BrokerOffsetStore) -> None:
    """One queue, if it has an offset."""
    offsets.load()
    offsets.persist(QUEUE)
    offsets.update(QUEUE, 9, increase_only=True)
    offsets.persist(QUEUE)
    assert broker.commits == [("billing", "orders", 0, 9)]


def test_persist_all(broker: ScriptedBroker, offsets: BrokerOffsetStore) -> None:
    """Row persistAll: per owned queue; not-owned entries dropped."""
    offsets.update(QUEUE, 9, increase_only=True)
    offsets.update(OTHER, 3, increase_only=True)
    offsets.persist_all([QUEUE])
    assert broker.commits == [("billing", "orders", 0, 9)]
    assert offsets.read(OTHER) == -1


def test_an_error_of_one_queue(broker: ScriptedBroker, offsets: BrokerOffsetStore) -> None:
    """The others are persisted; then it is raised."""
    broker.commit_errors["orders"] = TopicNotExist("orders")
    offsets.update(QUEUE, 9, increase_only=True)
    offsets.update(OTHER, 3, increase_only=True)
    with pytest.raises(TopicNotExist):
        offsets.persist_all([QUEUE, OTHER])
    assert broker.commits == [("billing", "refunds", 1, 3)]
