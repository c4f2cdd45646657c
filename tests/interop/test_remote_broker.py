"""Our clients over a broker of Apache RocketMQ: what they do over `mqstore serve`, they do there, too.

Method: a name server and a broker of each version run as published. Our producers and consumers find it, send
in every way, fail, retry and take part in transactions; in one test they share a group with RocketMQ's own
consumer. What is stored is read from the broker's directory afterwards.
"""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, StoredMessage
from mqstore.client import (
    ConsumeFromWhere,
    ConsumerSettings,
    LitePullConsumer,
    LitePullSettings,
    Producer,
    PushConsumer,
    RemoteBroker,
    SendStatus,
    TransactionProducer,
    TransactionState,
    create_reply_message,
)
from support.interop.broker import eventually
from support.interop.process import BUILD, ROCKETMQ_VERSIONS, prepared_versions
from support.interop.real_broker import PATIENT, real_broker
from support.interop.served import Traffic

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@pytest.fixture(params=ROCKETMQ_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each version, if `make interop` has made it ready."""
    assert request.param in prepared_versions(), "run these tests with: make interop"
    return str(request.param)


class Collected:
    """What a listener was given. fails: bodies on which it fails, always."""

    def __init__(self, fails: frozenset[bytes] = frozenset()) -> None:
        self.seen: list[tuple[bytes, int]] = []
        self._fails = fails
        self._lock = threading.Lock()

    def __call__(self, messages: list[StoredMessage], _context: Any) -> None:
        with self._lock:
            self.seen += [(bytes(message.body), message.reconsume_times) for message in messages]
        if any(message.body in self._fails for message in messages):
            raise ValueError("as the test wants it")

    def await_bodies(self, wanted: Counter[bytes]) -> None:
        """Return once each was given; each is given as often as it is wanted."""
        eventually(lambda: not wanted - self.bodies(), f"{sum(wanted.values())} messages are consumed")
        assert self.bodies() == wanted

    def bodies(self) -> Counter[bytes]:
        with self._lock:
            return Counter(body for body, _ in self.seen)


def test_every_way_to_send_and_to_consume(version: str, tmp_path: Path) -> None:
    with real_broker(version, tmp_path / "data", "remote-ways") as (_, broker):
        with Producer(broker, "producers", PATIENT) as producer:
            sent = [producer.send(Message("orders", b"sync-%d" % at, tags="A", keys="k")) for at in range(8)]
            assert {result.send_status for result in sent} == {SendStatus.SEND_OK}
            futures = [producer.send_async(Message("orders", b"async-%d" % at, tags="B")) for at in range(8)]
            assert {future.result(30).send_status for future in futures} == {SendStatus.SEND_OK}
            batch = producer.send_batch([Message("orders", b"batch-%d" % at, tags="A") for at in range(8)])
            assert batch.send_status is SendStatus.SEND_OK
            for at in range(8):
                producer.send_oneway(Message("orders", b"oneway-%d" % at, tags="B"))
            producer.send(Message("orders", b"late", tags="A", delay_level=1))
        kinds = (b"sync", b"async", b"batch", b"oneway")
        wanted = Counter([*(b"%b-%d" % (kind, at) for kind in kinds for at in range(8)), b"late"])
        everything, tagged = Collected(), Collected()
        settings = ConsumerSettings(consume_from_where=FIRST)
        with (
            PushConsumer(broker, "everything", settings) as first,
            PushConsumer(broker, "tagged", settings) as second,
        ):
            first.subscribe("orders")
            first.listener(everything)
            second.subscribe("orders", "B")
            second.listener(tagged)
            first.start()
            second.start()
            everything.await_bodies(wanted)
            tagged.await_bodies(
                Counter({body: 1 for body in wanted if body.startswith((b"async", b"oneway"))})
            )
        with LitePullConsumer(broker, "pulls", LitePullSettings(consume_from_where=FIRST)) as lite:
            lite.subscribe("orders")
            pulled: Counter[bytes] = Counter()
            eventually(
                lambda: pulled.update(message.body for message in lite.poll(100)) or pulled == wanted,
                "all is pulled",
            )
            lite.commit()
        offsets = [broker.query_consumer_offset("pulls", "orders", queue_id) for queue_id in range(4)]
        assert sum(offsets) == sum(wanted.values())
        assert sent[0].offset_msg_id.startswith("7F000001")
    with MessageStore.open(tmp_path / "data", read_only=True) as store:
        first_put = store.look_message_by_offset(sent[0].put.physical_offset)
        assert first_put is not None
        assert (first_put.body, first_put.keys, first_put.msg_id) == (
            b"sync-0",
            ("k",),
            sent[0].offset_msg_id,
        )


def test_failures_come_again_and_end_as_dead_letters(version: str, tmp_path: Path) -> None:
    with real_broker(version, tmp_path / "data", "remote-retries") as (_, broker):
        settings = ConsumerSettings(consume_from_where=FIRST, max_reconsume_times=2)
        listener = Collected(fails=frozenset({b"bad"}))
        with (
            Producer(broker, "producers", PATIENT) as producer,
            PushConsumer(broker, "billing", settings) as consumer,
        ):
            for body in (b"good", b"bad"):
                producer.send(Message("orders", body))
            consumer.subscribe("orders")
            consumer.listener(listener)
            consumer.start()
            eventually(lambda: broker.topic_route("%DLQ%billing") is not None, "there are dead letters")
            listener.await_bodies(Counter({b"good": 1, b"bad": 3}))
            assert sorted(times for body, times in listener.seen if body == b"bad") == [0, 1, 2]
    with MessageStore.open(tmp_path / "data", read_only=True) as store:
        dead = store.get_message("test", "%DLQ%billing", 0, 0).messages
        assert [message.body for message in dead] == [b"bad"]


def test_order_is_kept_over_two_members(version: str, tmp_path: Path) -> None:
    """Locks of the broker: each queue in its order, also while a second member joins."""
    with real_broker(version, tmp_path / "data", "remote-order") as (_, broker):
        given: dict[int, list[int]] = {}
        lock = threading.Lock()

        def collect(messages: list[StoredMessage], _context: Any) -> None:
            with lock:
                for message in messages:
                    given.setdefault(message.queue_id, []).append(message.queue_offset)

        with Producer(broker, "producers", PATIENT) as producer:
            for at in range(100):
                producer.send(Message("orders", b"%d" % at))
        settings = ConsumerSettings(consume_from_where=FIRST)
        with (
            RemoteBroker(broker._names.addresses[0]) as elsewhere,
            PushConsumer(broker, "ordered", settings) as first,
            PushConsumer(elsewhere, "ordered", settings) as second,
        ):
            for consumer in (first, second):
                consumer.subscribe("orders")
                consumer.orderly_listener(collect)
            first.start()
            eventually(lambda: sum(map(len, given.values())) >= 100, "the first member has all")
            second.start()
            eventually(lambda: bool(second.queues) and len(first.queues) < 5, "the members share")
            with Producer(broker, "producers", PATIENT) as producer:
                for at in range(100):
                    producer.send(Message("orders", b"%d" % at))
            eventually(lambda: sum(map(len, map(set, given.values()))) == 200, "both are given the rest")
        for offsets in given.values():
            seen_once = list(dict.fromkeys(offsets))
            assert seen_once == sorted(seen_once)


class Booking:
    """Answers what the body says; asked about one that it did not know, it commits."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def execute_local_transaction(self, message: Message, _arg: Any) -> TransactionState:
        return TransactionState(bytes(message.body).decode())

    def check_local_transaction(self, message: StoredMessage) -> TransactionState:
        self.asked.append(message.body)
        said = TransactionState(message.body.decode())
        return TransactionState.COMMIT_MESSAGE if said is TransactionState.UNKNOW else said


def test_transactions(version: str, tmp_path: Path) -> None:
    """Committed and unknown ones are seen, the latter once the broker has asked; others never."""
    booking, listener = Booking(), Collected()
    with (
        real_broker(version, tmp_path / "data", "remote-transactions") as (_, broker),
        TransactionProducer(broker, "booking", booking, PATIENT) as producer,
        PushConsumer(broker, "billing", ConsumerSettings(consume_from_where=FIRST)) as consumer,
    ):
        for state in TransactionState:
            producer.send_message_in_transaction(Message("seats", state.value.encode()))
        consumer.subscribe("seats")
        consumer.listener(listener)
        consumer.start()
        # Answers that are slower than the broker's next question commit a message again.
        eventually(lambda: set(listener.bodies()) >= {b"COMMIT_MESSAGE", b"UNKNOW"}, "both are consumed")
    assert set(listener.bodies()) == {b"COMMIT_MESSAGE", b"UNKNOW"}
    assert b"UNKNOW" in booking.asked
    for body, times in listener.bodies().items():
        assert times <= max(1, booking.asked.count(body) + (body == b"COMMIT_MESSAGE"))


def test_request_and_reply(version: str, tmp_path: Path) -> None:
    with (
        real_broker(version, tmp_path / "data", "remote-replies") as (_, broker),
        Producer(broker, "askers", PATIENT) as asker,
        Producer(broker, "answerers", PATIENT) as answerer,
        PushConsumer(broker, "answers", ConsumerSettings(consume_from_where=FIRST)) as consumer,
    ):
        asker.send(Message("questions", b"first"))

        @consumer.listener
        def answer(messages: list[StoredMessage], _context: Any) -> None:
            for message in messages:
                if "REPLY_TO_CLIENT" in message.properties:
                    answerer.send(create_reply_message(message, b"re: " + message.body))

        consumer.subscribe("questions")
        consumer.start()
        reply = asker.request(Message("questions", b"why?"), 30_000)
        assert reply.body == b"re: why?"


def test_a_group_is_shared_with_rocketmqs_own_consumer(version: str, tmp_path: Path) -> None:
    """Both take their part of the queues, for both share by the same rule; each message is given."""
    with real_broker(version, tmp_path / "data", "remote-shared") as (run, broker):
        theirs = Traffic(version, run.name_server, BUILD / version / "traffic" / "remote-shared")
        ours = Collected()
        try:
            with (
                Producer(broker, "producers", PATIENT) as producer,
                PushConsumer(broker, "shared", ConsumerSettings(consume_from_where=FIRST)) as consumer,
            ):
                producer.send(Message("orders", b"first"))
                theirs.ask("consume", name="shared", group="shared", topic="orders", tags="*")
                eventually(lambda: len(theirs.seen("shared")) == 1, "their consumer has it all")
                consumer.subscribe("orders")
                consumer.listener(ours)
                consumer.start()
                eventually(lambda: 0 < _queues_of(consumer, "orders") < 4, "the queues are shared")
                # Their consumer gives up its queues when it hears of ours.
                time.sleep(2)
                for at in range(40):
                    producer.send(Message("orders", b"%d" % at))
                wanted = {b"first", *(b"%d" % at for at in range(40))}

                def given() -> set[bytes]:
                    return {*ours.bodies(), *(each["body"].encode() for each in theirs.seen("shared"))}

                # A message that is at work when a queue moves may be given to both.
                eventually(lambda: given() == wanted, "all are given")
                assert ours.seen
                assert len(theirs.seen("shared")) > 1
        finally:
            theirs.end()


def _queues_of(consumer: PushConsumer, topic: str) -> int:
    return sum(queue.topic == topic for queue in consumer.queues)
