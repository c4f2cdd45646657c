"""Transactions: the same ones by RocketMQ's own producer and broker, and by ours, leave equal records.

Method: each message says in a property what its local transaction answers, at once and when the broker asks.
The real client sends them to a real broker, mqstore's producer to its embedded one. Halves, copies that were
asked about, ops and final messages must tell of each transaction alike. Then each side opens a directory in
which the other has left transactions open, asks the producer about them, and ends them.
"""

import base64
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, StoreConfig, StoredMessage
from mqstore.client import EmbeddedBroker, TransactionProducer, TransactionSettings, TransactionState
from support.interop.broker import broker_port, eventually, running_broker
from support.interop.picture import differences
from support.interop.process import ROCKETMQ_VERSIONS, prepared_versions, rocketmq_settings
from support.interop.stores import SETTINGS

TOPIC = "bookings"
GROUP = "box-office"
HALVES, OPS = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECKED = "TRANSACTION_CHECK_TIMES"
FATES = (
    ("COMMIT_MESSAGE", "UNKNOW"),
    ("ROLLBACK_MESSAGE", "UNKNOW"),
    ("UNKNOW", "COMMIT_MESSAGE"),
    ("UNKNOW", "ROLLBACK_MESSAGE"),
)
"""What the local transaction answers at once, and when it is asked."""
NUMBERS = range(12)
SOON_MS = 500
# A broker that asks before it has noted an end asks without end, for its producer does not know it any more.
LONG_ENOUGH_MS = 2_500
MANY = 10_000
# 4.9 knows nothing of the last one.
BROKER_SETTINGS = {
    "transactionTimeOut": str(LONG_ENOUGH_MS),
    "transactionCheckInterval": str(SOON_MS),
    "transactionCheckMax": str(MANY),
    "transactionOpBatchInterval": "100",
}
# What the real producer and its broker add of their own accord. (The message class of Java has WAIT always.)
_OF_THEIRS = frozenset({"CLUSTER", "MSG_REGION", "TRACE_ON", "WAIT"})
# From 5.4 on, final messages have lost these; those of 5.3, after which ours are made, have not.
_NOT_IN_FINALS = frozenset({"REAL_TOPIC", "REAL_QID"})
_CONFIG = StoreConfig.from_mapping(SETTINGS)


def body_of(number: int) -> bytes:
    return f"seat {number}".encode() * (1 + number)


def properties_of(number: int, fate: tuple[str, str]) -> dict[str, str]:
    first, then = fate
    return {"number": str(number), "first": first, "then": then, "名": "naïve 😀"}


def fate_of(number: int) -> tuple[str, str]:
    return FATES[number % len(FATES)]


def is_committed(fate: tuple[str, str]) -> bool:
    return "COMMIT_MESSAGE" in fate


class Listener:
    """Answers what stands in the message; `then` counts instead when it is given."""

    def __init__(self, then: str | None = None) -> None:
        self._then = then

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionState:
        return TransactionState(message.properties["first"])

    def check_local_transaction(self, message: StoredMessage) -> TransactionState:
        return TransactionState(self._then or message.properties["then"])


@contextmanager
def our_producer(path: Path, listener: Listener) -> Iterator[tuple[MessageStore, TransactionProducer]]:
    settings = TransactionSettings(
        transaction_timeout=SOON_MS, transaction_check_interval=SOON_MS, transaction_check_max=MANY
    )
    with (
        MessageStore.open(path, _CONFIG) as store,
        EmbeddedBroker(store, transaction_settings=settings) as broker,
    ):
        store.topics.create(TOPIC, 1)
        with TransactionProducer(broker, GROUP, listener) as producer:
            yield store, producer


def send_ours(producer: TransactionProducer, number: int, fate: tuple[str, str]) -> None:
    message = Message(
        TOPIC, body_of(number), tags="seat", keys=(f"key-{number}",), properties=properties_of(number, fate)
    )
    state = producer.send_message_in_transaction(message).local_transaction_state
    assert state.name == fate[0]


def request_of(number: int, fate: tuple[str, str]) -> dict[str, Any]:
    """As Client.java takes it."""
    properties = {**properties_of(number, fate), "TAGS": "seat", "KEYS": f"key-{number}"}
    body = base64.b64encode(body_of(number)).decode()
    return {"topic": TOPIC, "body": body, "flag": 0, "properties": properties}


def broker_settings(port: int) -> dict[str, Any]:
    return rocketmq_settings(SETTINGS) | BROKER_SETTINGS | {"listenPort": port}


def with_topic(path: Path) -> None:
    """A directory in which the topic has one queue."""
    with MessageStore.open(path, _CONFIG) as store:
        store.topics.create(TOPIC, 1)


# -- what a directory tells ---------------------------------------------------------------------------


def messages_in(store: MessageStore, topic: str) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    offset, end = 0, store.get_max_offset_in_queue(topic, 0)
    while offset < end:
        pulled = store.get_message("reader", topic, 0, offset, 1_000)
        found += [StoredMessage.of(memoryview(bytes(message.record))) for message in pulled.messages]
        offset = pulled.next_begin_offset
    return found


def read(path: Path, topic: str) -> list[StoredMessage]:
    with MessageStore.open(path, _CONFIG, read_only=True) as store:
        return messages_in(store, topic)


def number_of(message: StoredMessage) -> int:
    return int(message.properties["number"])


def times_asked(half: StoredMessage) -> int:
    return int(half.properties.get(CHECKED, "0"))


def is_ended(path: Path, numbers: set[int]) -> bool:
    """Whether the last half of each of these transactions is named by an op."""
    last = {number_of(half): half.queue_offset for half in read(path, HALVES)}
    return {last[number] for number in numbers if number in last} <= set(ended(path))


def ended(path: Path) -> list[int]:
    """The queue offsets of halves that ops name."""
    names: list[int] = []
    for op in read(path, OPS):
        assert op.tags == "d"
        names += [int(name) for name in op.body.decode().split(",") if name]
    return names


def stories(path: Path, not_in_finals: frozenset[str] = frozenset()) -> dict[int, list[dict[str, Any]]]:
    """What the records tell of each transaction: its half, the copy that was asked about, and its message.

    not_in_finals: properties of final messages to leave out. Also left out: places, times and hosts, and that
    a half was asked about more than once (a broker that has not yet seen the answer asks again, and commits
    by each answer). A final message names its half by the place of it.
    """
    halves: dict[int, list[StoredMessage]] = defaultdict(list)
    for half in read(path, HALVES):
        if times_asked(half) <= 1:
            halves[number_of(half)].append(half)
    told = {number: [described(half) for half in of_one] for number, of_one in halves.items()}
    offsets = {half.physical_offset: number_of(half) for half in read(path, HALVES)}
    for final in read(path, TOPIC):
        assert offsets[final.prepared_transaction_offset] == number_of(final), "it names one of its halves"
    for final in finals(path):
        told[number_of(final)].append(described(final, not_in_finals))
    return told


def finals(path: Path) -> list[StoredMessage]:
    """The final messages; of a transaction that was asked about more than once the first one."""
    asked_again = {number_of(half) for half in read(path, HALVES) if times_asked(half) > 1}
    found: list[StoredMessage] = []
    for final in read(path, TOPIC):
        if number_of(final) not in asked_again or number_of(final) not in map(number_of, found):
            found.append(final)
    return found


def described(message: StoredMessage, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    left_out = _OF_THEIRS | without
    properties = {name: text for name, text in message.properties.items() if name not in left_out}
    if CHECKED in properties:
        properties[CHECKED] = "asked"
    unique_key = properties.pop("UNIQ_KEY")
    assert properties.pop("__transactionId__", unique_key) == unique_key
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "flag": message.flag,
        "sys_flag": message.stored_sys_flag,
        "reconsume_times": message.reconsume_times,
        "has_prepared_offset": bool(message.prepared_transaction_offset),
        "body": message.stored_body,
        "properties": properties,
    }


@pytest.fixture(autouse=True)
def prepared() -> None:
    assert set(ROCKETMQ_VERSIONS) <= set(prepared_versions()), "run these tests with: make interop"


# -- the tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ROCKETMQ_VERSIONS)
def test_equal_records(version: str, tmp_path: Path) -> None:
    """Committed, rolled back, and both of them after the broker has asked."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    numbers = set(NUMBERS)
    with our_producer(ours, Listener()) as (_, producer):
        for number in NUMBERS:
            send_ours(producer, number, fate_of(number))
        eventually(lambda: is_ended(ours, numbers), "our transactions end")
    with_topic(theirs)
    with running_broker(version, theirs, broker_settings(broker_port()), name="transactions") as run:
        run.client.ask("begin_transactions", group=GROUP, topic=TOPIC)
        requests = [request_of(number, fate_of(number)) for number in NUMBERS]
        states = run.client.ask("transactions", messages=requests)
        assert states == [fate_of(number)[0] for number in NUMBERS]
        eventually(lambda: is_ended(theirs, numbers), "the broker's transactions end")
        run.client.ask("end_transactions")
        run.broker.stop()
    without = _NOT_IN_FINALS if version.startswith("5.5") else frozenset()
    assert not differences(stories(theirs), stories(ours, without))
    committed = {number for number in NUMBERS if is_committed(fate_of(number))}
    for path in (ours, theirs):
        assert sorted(map(number_of, finals(path))) == sorted(committed)


@pytest.mark.parametrize("version", ROCKETMQ_VERSIONS)
def test_we_end_what_a_broker_has_left_open(version: str, tmp_path: Path) -> None:
    """What it has ended is left as it is."""
    path = tmp_path / "data"
    with_topic(path)
    fates = {0: FATES[0], 1: FATES[1], 2: ("UNKNOW", "UNKNOW"), 3: ("UNKNOW", "UNKNOW")}
    with running_broker(version, path, broker_settings(broker_port()), name="left-open") as run:
        run.client.ask("begin_transactions", group=GROUP, topic=TOPIC)
        run.client.ask("transactions", messages=[request_of(*each) for each in fates.items()])
        eventually(lambda: {2, 3} <= set(run.client.ask("checked")), "the broker asks")
        eventually(lambda: is_ended(path, {0, 1}), "the ended ones are ended")
        run.client.ask("end_transactions")
        run.broker.stop()
    with our_producer(path, Listener(then="COMMIT_MESSAGE")) as (store, _):
        eventually(lambda: len(messages_in(store, TOPIC)) >= 3, "we end the others")
        eventually(lambda: is_ended(path, set(fates)), "all are ended")
    assert sorted(map(number_of, read(path, TOPIC))) == [0, 2, 3]


@pytest.mark.parametrize("version", ROCKETMQ_VERSIONS)
def test_a_broker_ends_what_we_have_left_open(version: str, tmp_path: Path) -> None:
    """By asking the real producer; what we have ended is left as it is."""
    path = tmp_path / "data"
    fates = {0: FATES[0], 1: FATES[1], 2: FATES[2], 3: FATES[3]}
    with our_producer(path, Listener(then="UNKNOW")) as (_, producer):
        for number, fate in fates.items():
            send_ours(producer, number, fate)
    with running_broker(version, path, broker_settings(broker_port()), name="left-to-it") as run:
        run.client.ask("begin_transactions", group=GROUP, topic=TOPIC)
        # By this the broker knows the client; the fifth is of its own.
        run.client.ask("transactions", messages=[request_of(4, FATES[0])])
        eventually(lambda: {2, 3} <= set(run.client.ask("checked")), "the broker asks")
        eventually(lambda: is_ended(path, {*fates, 4}), "all are ended")
        run.client.ask("end_transactions")
        run.broker.stop()
    assert sorted(map(number_of, read(path, TOPIC))) == [0, 2, 4]
