"""The plain send: who is asked to put a message, and which sends are not plain.

That it behaves as any other send is asked in test_send_retry.py, by messages of both kinds. In a wheel these
run the compiled one.
"""

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, PutMessageResult
from mqstore.client import EmbeddedBroker
from mqstore.client.errors import ClientNotRunning
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.send_result import SendResult
from mqstore.client.producer.sends.send_hooks import SendMessageContext
from mqstore.store.errors import MessageIllegal, NoPermission, StoreError, StoreFull, TopicIllegal
from support.clients.answering_broker import AnsweringBroker
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds

MakeProducer = Callable[..., Producer]
ORDER = Message("orders", b"body")
FULL = StoreFull(Path("/full"), 1, "no room")


class DirectBroker(AnsweringBroker):
    """One that may put a message as it is given: it answers None, or raises."""

    def __init__(self, name: str = "broker-a", error: StoreError | None = None) -> None:
        super().__init__(name)
        self.asked: list[tuple[Message, int, str]] = []
        self.error = error

    def put_sent(  # type: ignore[override]
        self, message: Message, topic: str, body: bytes, queue_id: int, unique_key: str
    ) -> None:
        assert (topic, body) == (message.topic, message.body)
        self.asked.append((message, queue_id, unique_key))
        if self.error is not None:
            raise self.error


def warm(producer: Producer) -> Producer:
    """The route is known already: a send may be plain."""
    producer.fetch_publish_message_queues("orders")
    return producer


def test_a_broker_of_this_process_gets_the_message_as_it_is(producer_of: MakeProducer) -> None:
    """What it does not put so is sent to the same queue, with the same key."""
    broker = DirectBroker()
    result = warm(producer_of(broker)).send(ORDER)
    ((message, queue_id, unique_key),) = broker.asked
    assert message is ORDER
    (sent,) = broker.sent
    assert (sent.queue_id, sent.properties) == (queue_id, {"UNIQ_KEY": unique_key})
    assert (result.msg_id, result.message_queue.queue_id) == (unique_key, queue_id)


def test_another_broker_is_tried_with_the_same_key(producer_of: MakeProducer) -> None:
    """A direct put that failed was the first attempt."""
    brokers = DirectBroker("broker-a", FULL), DirectBroker("broker-b", FULL)
    producer = warm(producer_of(*brokers))
    producer.send(ORDER)
    [(_, _, unique_key)] = brokers[0].asked + brokers[1].asked
    [sent] = brokers[0].sent + brokers[1].sent
    assert sent.properties["UNIQ_KEY"] == unique_key


@pytest.mark.parametrize(
    ("message", "how"),
    [
        (Message("orders", b"body", properties={"a": "b"}), {}),
        (Message("orders", bytearray(b"body")), {}),
        (Message("orders", bytes(5_000)), {}),
        (ORDER, {"timeout_ms": 3_000}),
        (ORDER, {"selector": lambda queues, message, arg: queues[0]}),
    ],
    ids=["properties", "a body that may change", "to be compressed", "a time of its own", "a selector"],
)
def test_other_sends_are_not_plain(producer_of: MakeProducer, message: Message, how: dict[str, Any]) -> None:
    """They go through `send` of the broker."""
    broker = DirectBroker()
    warm(producer_of(broker)).send(message, **how)
    assert not broker.asked
    assert len(broker.sent) == 1


@pytest.mark.parametrize(
    "settings",
    [{"send_latency_enable": True}, {"send_msg_max_timeout_per_request": 100}, {"auto_batch": True}],
    ids=str,
)
def test_settings_that_want_more(producer_of: MakeProducer, settings: dict[str, Any]) -> None:
    """A producer with latency faults, a time for each attempt, or batches by itself has no plain sends."""
    broker = DirectBroker()
    warm(producer_of(broker, **settings)).send(ORDER)
    assert not broker.asked


def test_a_send_that_was_kept_follows_the_producer(
    clock: ManualClock, seconds: ManualSeconds, producer_of: MakeProducer
) -> None:
    """Whoever keeps `producer.send` is refused before the start and after the close, and hooks are called."""
    broker, seen = DirectBroker(), []

    class Hook:
        def send_message_before(self, context: SendMessageContext) -> None:
            seen.append(context.message.body)

        def send_message_after(self, context: SendMessageContext) -> None:
            pass

    producer = Producer(broker, "billing", clock=clock, timer=seconds)  # type: ignore[arg-type]
    send = producer.send
    with pytest.raises(ClientNotRunning):
        send(ORDER)
    producer.start()
    warm(producer)
    send(ORDER)
    assert len(broker.asked) == 1
    producer.register_send_message_hook(Hook())
    send(ORDER)
    assert seen == [b"body"]
    producer.close()
    with pytest.raises(ClientNotRunning):
        send(ORDER)
    assert len(broker.asked) == 1
    assert len(broker.sent) == 2


def test_a_class_may_have_a_send_of_its_own(producer_of: MakeProducer) -> None:
    """Made of that of `Producer`."""

    class Louder(Producer):
        def send(self, message: Message, **how: Any) -> SendResult:
            return super().send(Message(message.topic, message.body + b"!"), **how)

    broker = DirectBroker()
    warm(producer_of(broker, kind=Louder)).send(ORDER)
    assert [message.body for message, _, _ in broker.asked] == [b"body!"]


def test_nothing_is_put_past_a_send_of_the_brokers_own(tmp_path: Path) -> None:
    """A class that watches or refuses messages, as its store's class may, sees all of them."""
    seen: list[tuple[str, bytes]] = []

    class WatchingBroker(EmbeddedBroker):
        def send(self, message: Message, *, timeout_ms: int) -> PutMessageResult:
            seen.append(("broker", bytes(message.body)))
            return super().send(message, timeout_ms=timeout_ms)

    class WatchingStore(MessageStore):
        def put_message(self, message: Message) -> PutMessageResult:
            seen.append(("store", bytes(message.body)))
            return super().put_message(message)

    for store_kind, broker_kind, who in (
        (MessageStore, WatchingBroker, "broker"),
        (WatchingStore, EmbeddedBroker, "store"),
    ):
        with (
            store_kind.open(tmp_path / who) as store,
            broker_kind(store) as broker,
            Producer(broker, "billing") as producer,
        ):
            for number in range(20):
                producer.send(Message("orders", b"%d" % number))
        assert seen == [(who, b"%d" % number) for number in range(20)]
        seen.clear()


@pytest.mark.parametrize(
    ("topic", "kind"), [("SCHEDULE_TOPIC_XXXX", NoPermission), ("%RETRY%" + "g" * 130, TopicIllegal)]
)
def test_a_topic_that_no_producer_may_send_to_is_refused(
    tmp_path: Path, topic: str, kind: type[StoreError]
) -> None:
    """By the same error, whether somebody has asked for its queues or not."""
    with (
        MessageStore.open(tmp_path / "data") as store,
        EmbeddedBroker(store) as broker,
        Producer(broker, "billing") as producer,
    ):
        refusals = []
        for _ in range(2):
            with pytest.raises(kind) as refused:
                producer.send(Message(topic, b"body"))
            refusals.append(str(refused.value))
            assert producer.fetch_publish_message_queues(topic)
        assert refusals[0] == refusals[1]


def test_nothing_is_put_past_a_broker_that_is_closed(tmp_path: Path) -> None:
    """The store is open still."""
    with (
        MessageStore.open(tmp_path / "data") as store,
        EmbeddedBroker(store) as broker,
        Producer(broker, "billing") as producer,
    ):
        for _ in range(20):
            producer.send(ORDER)
        before = store.commit_log.max_offset
        broker.close()
        with pytest.raises(StoreError, match="closed"):
            producer.send(ORDER)
        assert store.commit_log.max_offset == before


def test_each_message_is_stored_as_it_was_sent(tmp_path: Path) -> None:
    """Fields, queue and key of the result are those of the record; the key finds it."""
    with (
        MessageStore.open(tmp_path / "data") as store,
        EmbeddedBroker(store) as broker,
        Producer(broker, "billing") as producer,
    ):
        for number in range(50):
            message = Message("orders", b"%d" % number, tags="created", keys=f"o-{number}", queue_id=3)
            result = producer.send(message)
            [stored] = store.query_message("orders", result.msg_id)
            assert (stored.body, stored.tags, stored.keys) == (message.body, "created", (f"o-{number}",))
            assert stored.properties["UNIQ_KEY"] == result.msg_id
            assert (stored.queue_id, stored.queue_offset) == (
                result.message_queue.queue_id,
                result.queue_offset,
            )


def test_each_thread_has_turns_of_its_own_in_each_topic(tmp_path: Path) -> None:
    """Threads that send by turns, to two topics: each uses the queues of a topic one after the other."""
    sent: dict[tuple[int, str], list[int]] = {}
    with (
        MessageStore.open(tmp_path / "data") as store,
        EmbeddedBroker(store) as broker,
        Producer(broker, "billing") as producer,
    ):
        store.topics.create("orders", 4)
        store.topics.create("others", 3)

        def send(thread: int, topic: str) -> None:
            result = producer.send(Message(topic, b"body"))
            assert result.message_queue.topic == topic
            sent.setdefault((thread, topic), []).append(result.message_queue.queue_id)

        with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
            for step in range(60):
                for number, thread in enumerate((first, second)):
                    topics = ("orders", "others") if step % 3 else ("orders",)
                    for topic in topics:
                        thread.submit(send, number, topic).result()
    for (_, topic), queue_ids in sent.items():
        count = {"orders": 4, "others": 3}[topic]
        assert queue_ids == [(queue_ids[0] + step) % count for step in range(len(queue_ids))]
    assert len(sent) == 4


def test_no_two_keys_are_alike(producer_of: MakeProducer) -> None:
    """Of threads that send at once, for more than one block of ids, beside sends that are not plain."""
    broker = DirectBroker()
    producer = warm(producer_of(broker))

    def send(number: int) -> None:
        for step in range(1_000):
            producer.send(ORDER, timeout_ms=3_000 if step % 100 == number else None)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(send, range(4)))
    made = [sent.properties["UNIQ_KEY"] for sent in broker.sent]
    assert len(set(made)) == len(made) == 4_000
    assert all(re.fullmatch("[0-9A-F]{32}", each) for each in made)


def test_a_forked_child_sends_with_other_keys(producer_of: MakeProducer) -> None:
    """Although the block of ids was begun before the fork."""
    producer = warm(producer_of(DirectBroker()))
    before = producer.send(ORDER).msg_id
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, producer.send(ORDER).msg_id.encode())
        os._exit(0)
    os.waitpid(child, 0)
    made = os.read(reader, 100).decode()
    os.close(reader)
    os.close(writer)
    assert made[:8] == before[:8]
    assert int(made[8:12], 16) == child & 0xFFFF
    assert made[12:20] != before[12:20]


class Signed(Message, frozen=True):
    """A message of a program's own class."""


@pytest.mark.parametrize(
    "thing",
    [None, object(), "orders", Message("orders", None), Message(None, b"body")],  # type: ignore[arg-type]
    ids=["None", "an object", "a text", "without a body", "without a topic"],
)
def test_what_is_no_message_is_refused(producer_of: MakeProducer, thing: Any) -> None:
    """By the checks of producers, before any broker is asked."""
    broker = DirectBroker()
    with pytest.raises((MessageIllegal, AttributeError)):
        warm(producer_of(broker)).send(thing)
    assert not broker.asked
    assert not broker.sent


def test_a_message_of_a_class_of_ones_own_is_sent(tmp_path: Path) -> None:
    """It has the fields of a message."""
    with (
        MessageStore.open(tmp_path / "data") as store,
        EmbeddedBroker(store) as broker,
        Producer(broker, "billing") as producer,
    ):
        for _ in range(10):
            result = producer.send(Signed("orders", b"body"))
            [stored] = store.query_message("orders", result.msg_id)
            assert stored.body == b"body"
