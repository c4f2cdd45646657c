"""The producer as a whole: its life, what it is given, and what it keeps of brokers that fail.

Sends to one queue after the other are in test_send_retry.py; here the brokers are real where nothing must
fail.
"""

import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore
from mqstore.broker.broker import MessageQueue
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.errors import (
    BrokerNotConnected,
    BrokerNotExist,
    ClientNotRunning,
    NoBroker,
    SendFailed,
)
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.store.errors import GroupIllegal, QueueIllegal, StoreError, StoreFull
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.clients.answering_broker import AnsweringBroker, as_broker
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds
from support.stores.small_store import SmallStore, messages_of

MakeProducer = Callable[..., Producer]
ORDER = Message("orders", b"body", tags="a")
FULL = StoreFull(Path("/full"), 1, "no room")


@pytest.fixture
def small(clock: ManualClock) -> SmallStore:
    return SmallStore(MemoryFileSystem(clock=clock), Path("/store"), clock=clock)


# -- life -------------------------------------------------------------------------------------------


def test_a_message_is_stored_as_it_was_sent(small: SmallStore, clock: ManualClock) -> None:
    """Over a real store: it is found by its queue, its offset, its ids."""
    with small.open() as store, EmbeddedBroker(store) as broker, Producer(broker, "billing") as producer:
        result = producer.send(Message("orders", b"body", tags="a", keys=("k-1",)))
        (found,) = messages_of(store, "orders", result.message_queue.queue_id)
        assert (found.body, found.tags, found.keys) == (b"body", "a", ("k-1",))
        assert (found.unique_key, found.msg_id) == (result.msg_id, result.offset_msg_id)
        assert found.queue_offset == result.queue_offset
        assert [each.body for each in store.query_message("orders", result.msg_id)] == [b"body"]


def test_long_bodies_are_compressed(small: SmallStore) -> None:
    """Row compression: in the store compressed, for a reader as it was; the caller's message stays."""
    message = Message("orders", bytes(8_000))
    with small.open() as store, EmbeddedBroker(store) as broker, Producer(broker, "billing") as producer:
        result = producer.send(message)
        (found,) = messages_of(store, "orders", result.message_queue.queue_id)
        assert found.is_compressed
        assert found.stored_sys_flag & 0x701 == 0x301
        assert len(found.stored_body) < 100
        assert found.body == message.body
    assert message == Message("orders", bytes(8_000))


def test_queues_are_used_in_turn(small: SmallStore) -> None:
    """A new topic has the 4 queues that a producer takes at first, later all of it."""
    with small.open(default_topic_queue_nums=8) as store, EmbeddedBroker(store) as broker:
        seconds = ManualSeconds()
        with Producer(broker, "billing", timer=seconds) as producer:
            first = {producer.send(ORDER).message_queue.queue_id for _ in range(8)}
            seconds.advance(30)
            later = {producer.send(ORDER).message_queue.queue_id for _ in range(8)}
        assert (first, later) == (set(range(4)), set(range(8)))


def test_a_retry_topic_takes_its_counts_from_properties(small: SmallStore) -> None:
    """Row topic `%RETRY%`: RECONSUME_TIME and MAX_RECONSUME_TIMES go into the header, the record keeps
    both."""
    properties = {"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "5"}
    with small.open() as store, EmbeddedBroker(store) as broker, Producer(broker, "billing") as producer:
        message = Message("%RETRY%orders", b"again", properties=properties)
        result = producer.send(message)
        (found,) = messages_of(store, "%RETRY%orders", result.message_queue.queue_id)
        assert found.reconsume_times == 3
        assert properties.items() <= found.properties.items()
        exhausted = {"RECONSUME_TIME": "6", "MAX_RECONSUME_TIMES": "5"}
        producer.send(Message("%RETRY%orders", b"dead", properties=exhausted))
        assert [message.body for message in messages_of(store, "%DLQ%orders")] == [b"dead"]
    assert message.properties is properties


def test_it_sends_only_while_it_runs() -> None:
    """Before the start, and after the close, for ever: a typed error that says what to do."""
    producer = Producer(AnsweringBroker(), "billing")  # type: ignore[arg-type]
    calls: list[Callable[[], object]] = [
        lambda: producer.send(ORDER),
        lambda: producer.send(ORDER, timeout_ms=1),
        lambda: producer.send(ORDER, queue=MessageQueue("orders", "broker-a", 0)),
        lambda: producer.fetch_publish_message_queues("orders"),
    ]
    for call in calls:
        with pytest.raises(ClientNotRunning, match="was not started: call start") as caught:
            call()
        assert caught.value.state == "CREATE_JUST"
    producer.start()
    for call in calls:
        call()
    producer.close()
    producer.close()
    for call in (*calls, producer.start):
        with pytest.raises(ClientNotRunning, match="was closed: make another"):
            call()


def test_it_is_started_once() -> None:
    """A second start is refused, as in RocketMQ."""
    with Producer(AnsweringBroker(), "billing") as producer, pytest.raises(ClientNotRunning):  # type: ignore[arg-type]
        producer.start()


def test_a_store_that_is_closed_is_an_error_of_a_send(small: SmallStore) -> None:
    """Row MQBrokerException: code 14 is tried again, and in the end told."""
    with small.open() as store, EmbeddedBroker(store) as broker, Producer(broker, "billing") as producer:
        producer.send(ORDER)
        store.close()
        with pytest.raises(SendFailed) as caught:
            producer.send(ORDER)
    assert caught.value.code == 14
    assert [type(error).__name__ for error in caught.value.errors] == ["StoreClosed"] * 3


# -- what it is given -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("", "is empty"),
        ("g" * 121, "at most 120"),
        ("a b", "only the characters"),
        ("DEFAULT_PRODUCER", "stands for"),
    ],
)
def test_a_bad_group_is_refused(group: str, words: str) -> None:
    """Row topic / group length; and the name that stands for none."""
    with pytest.raises(GroupIllegal, match=words):
        Producer(AnsweringBroker(), group)  # type: ignore[arg-type]


def test_client_ids() -> None:
    """Row client id: address@instance; an unset instance name becomes pid#number, a new one each time."""
    named, first, second = (
        Producer(as_broker(AnsweringBroker()), "billing", ProducerSettings(client_ip="10.0.0.7", **settings))
        for settings in ({"instance_name": "one"}, {}, {})
    )
    assert named.client_id == "10.0.0.7@one"
    assert re.fullmatch(rf"10\.0\.0\.7@{os.getpid()}#\d+", first.client_id)
    assert first.client_id != second.client_id


def test_no_broker_is_refused() -> None:
    """Code 10004, where RocketMQ has no name server."""
    with pytest.raises(NoBroker, match="give it one or several") as caught:
        Producer([], "billing")
    assert caught.value.code == 10004


def test_brokers_of_one_name_are_refused() -> None:
    """A queue names its broker, so names must differ."""
    with pytest.raises(ValueError, match="different names"):
        Producer([AnsweringBroker(), AnsweringBroker()], "billing")  # type: ignore[list-item]


def test_fetch_publish_message_queues(producer_of: MakeProducer) -> None:
    """The queues that a topic is sent to."""
    queues = producer_of(AnsweringBroker(topics={"orders": 2})).fetch_publish_message_queues("orders")
    assert queues == [MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)]


# -- faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "is_detecting", "is_isolated", "is_reachable"),
    [
        (None, False, False, True),
        (BrokerNotExist("broker-a", ["b"]), False, False, True),
        (BrokerNotConnected("broker-a", "refused"), False, True, True),
        (BrokerNotConnected("broker-a", "refused"), True, True, False),
        (FULL, False, True, False),
        (QueueIllegal("none"), False, True, False),
        (KeyboardInterrupt(), False, False, True),
    ],
    ids=repr,
)
def test_each_attempt_tells_the_fault_strategy(
    producer_of: MakeProducer,
    error: BaseException | None,
    is_detecting: bool,
    is_isolated: bool,
    is_reachable: bool,
) -> None:
    """Row result: ok (no, yes); client (no, yes); remoting (yes, yes), detecting (yes, no); broker (yes, no);
    interrupt (no, yes)."""
    broker = AnsweringBroker("broker-a", *([error] if error else []))
    producer = producer_of(
        broker,
        send_latency_enable=True,
        start_detector_enable=is_detecting,
        retry_times_when_send_failed=0,
    )
    if error is None:
        producer.send(ORDER)
    else:
        with pytest.raises((StoreError, KeyboardInterrupt)):
            producer.send(ORDER)
    faults = producer._parts.faults
    assert faults.is_available("broker-a") is not is_isolated
    assert faults.is_reachable("broker-a") is is_reachable


def test_a_broker_that_failed_is_avoided(producer_of: MakeProducer, seconds: ManualSeconds) -> None:
    """Sends go elsewhere for the 10 s that it is isolated, then to both again."""
    a, b = AnsweringBroker("a", FULL, seconds=seconds), AnsweringBroker("b", seconds=seconds)
    producer = producer_of(a, b, send_latency_enable=True)
    while a.answers:
        producer.send(ORDER)
    asked = len(a.sent)
    for _ in range(20):
        producer.send(ORDER)
    assert len(a.sent) == asked
    seconds.advance(10)
    for _ in range(8):
        producer.send(ORDER)
    assert len(a.sent) > asked


def test_the_detector_asks_about_a_known_topic(producer_of: MakeProducer) -> None:
    """Row detector: an answer to a question about any topic that was sent to makes it reachable."""
    broker = AnsweringBroker("broker-a", FULL)
    producer = producer_of(broker, send_latency_enable=True, retry_times_when_send_failed=0)
    with pytest.raises(SendFailed):
        producer.send(ORDER)
    assert not producer._parts.faults.is_reachable("broker-a")
    producer._parts.faults.detect_once()
    assert producer._parts.faults.is_reachable("broker-a")


def test_the_same_seed_sends_to_the_same_queues(small: SmallStore) -> None:
    """Randomness comes in from outside."""

    def queues_of(store: MessageStore, seed: int) -> list[Any]:
        with EmbeddedBroker(store) as broker:
            producer = Producer(broker, "billing", ProducerSettings(), choice=random.Random(seed))
            with producer:
                return [producer.send(ORDER).message_queue for _ in range(5)]

    with small.open() as store:
        store.topics.create("orders", 8)
        assert queues_of(store, 5) == queues_of(store, 5)
