"""Transactions that Apache RocketMQ's own producer and broker wrote: halves, ops, and final messages.

Made by support/interop/golden_transactions.py with 5.5.0, 5.1.4 and 4.9.7: of 14 transactions some were
committed, some rolled back, some of both only after the broker had asked, and two are open. Method: each
directory is opened as it is, reading only, and as a copy that is recovered for writing; all that RocketMQ found
in it again is compared, then what the records tell of each transaction. At last our broker goes on with a copy.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, StoreConfig, StoredMessage
from mqstore.client import EmbeddedBroker, TransactionProducer, TransactionSettings, TransactionState
from mqstore.store.record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from support.golden.manifest import TRANSACTION_NAMES, manifest
from support.interop.golden import SETTINGS
from support.interop.mqstore import Operations

TOPIC, GROUP = "bookings", "box-office"
HALVES, OPS = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECKED = "TRANSACTION_CHECK_TIMES"
COMMIT, OPEN = "COMMIT_MESSAGE", "UNKNOW"
CONFIG = StoreConfig.from_mapping(SETTINGS)


@pytest.fixture(params=TRANSACTION_NAMES)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(params=["read-only", "recovered"])
def path_and_mode(
    request: pytest.FixtureRequest,
    name: str,
    golden_directory: Callable[[str], Path],
    golden_copy: Callable[[str], Path],
) -> tuple[Path, bool]:
    read_only = request.param == "read-only"
    return (golden_directory if read_only else golden_copy)(name), read_only


def messages_in(store: MessageStore, topic: str) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    offset, end = 0, store.get_max_offset_in_queue(topic, 0)
    while offset < end:
        pulled = store.get_message("reader", topic, 0, offset)
        found += [message.detached() for message in pulled.messages]
        offset = pulled.next_begin_offset
    return found


def number_of(message: StoredMessage) -> int:
    return int(message.properties["number"])


def named_by(ops: list[StoredMessage]) -> set[int]:
    """The queue offsets of halves that are ended."""
    return {int(offset) for op in ops for offset in op.body.decode().split(",") if offset}


def fates_of(name: str) -> list[tuple[str, str]]:
    return [(sent["first"], sent["then"]) for sent in manifest(name, "sent")]


def test_we_find_what_rocketmq_found(path_and_mode: tuple[Path, bool], name: str) -> None:
    """The range of the log, every queue entry, and every field of every record, halves and ops included."""
    path, read_only = path_and_mode
    store = Operations()
    store.open(str(path), SETTINGS | {"read_only": read_only, "start": False})
    try:
        assert (store.range(),) == manifest(name, "log")
        found: dict[tuple[str, int], Any] = {
            (queue["topic"], queue["queue_id"]): queue for queue in store.queues() if queue["max_offset"]
        }
        expected_queues = manifest(name, "queue")
        assert found.keys() == {(queue["topic"], queue["queue_id"]) for queue in expected_queues}
        assert {(TOPIC, 0), (HALVES, 0), (OPS, 0)} <= found.keys()
        for queue in expected_queues:
            ours = found[queue["topic"], queue["queue_id"]]
            ours["entries"] = [list(entry) for entry in ours["entries"]]
            assert ours == queue
        expected = manifest(name, "message")
        assert len(expected) > 3 * 14
        assert store.messages([message["physical_offset"] for message in expected]) == list(expected)
    finally:
        store.close()


def test_what_became_of_each_transaction(path_and_mode: tuple[Path, bool], name: str) -> None:
    """Committed: one final message that names a half. Rolled back: an op alone. Open: no op for its last half."""
    path, read_only = path_and_mode
    with MessageStore.open(path, CONFIG, read_only=read_only, start=False) as store:
        halves, ops, finals = (messages_in(store, topic) for topic in (HALVES, OPS, TOPIC))
        fates = fates_of(name)
        ended = named_by(ops)
        assert {op.tags for op in ops} == {"d"}
        assert len(fates) == 14
        last = {number_of(half): half for half in halves}
        assert last.keys() == set(range(14))
        for half in halves:
            assert half.topic == HALVES
            assert half.sys_flag & TRANSACTION_MASK == 0, "in its queue a half is an ordinary message"
            assert half.properties["REAL_TOPIC"] == TOPIC
            assert half.properties["PGROUP"] == GROUP
        by_place = {half.physical_offset: half for half in halves}
        final_of = {number_of(final): final for final in finals}
        assert len(finals) == len(final_of) == 6
        for number, (first, then) in enumerate(fates):
            is_open = (first, then) == (OPEN, OPEN)
            assert (last[number].queue_offset in ended) is not is_open, number
            assert (CHECKED in last[number].properties) is (first == OPEN), number
            assert (number in final_of) is (COMMIT in (first, then)), number
        for number, final in final_of.items():
            half = by_place[final.prepared_transaction_offset]
            assert number_of(half) == number
            assert final.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
            assert (final.topic, final.body, final.tags) == (TOPIC, half.body, half.tags) == (
                TOPIC,
                b"seat %d" % number,
                "seat",
            )
            assert final.unique_key == half.unique_key


class Committing:
    """Commits whatever it is asked about, and keeps what that was."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.has_all = threading.Event()

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionState:
        raise AssertionError("nothing is sent here")

    def check_local_transaction(self, message: StoredMessage) -> TransactionState:
        self.asked.append(number_of(message))
        if set(self.asked) == {12, 13}:
            self.has_all.set()
        return TransactionState.COMMIT_MESSAGE


@pytest.fixture
def asked(name: str, golden_copy: Callable[[str], Path]) -> Iterator[tuple[Path, Committing]]:
    """A copy whose transactions our broker has asked about, until both that were open are in their queue."""
    path, listener = golden_copy(name), Committing()
    # These halves are as old as the archives, and those that are older than the log is kept are given up.
    config = replace(CONFIG, file_reserved_time=24 * 365 * 100)
    # RocketMQ has asked more often than its default of 15 allows.
    settings = TransactionSettings(
        transaction_timeout=100, transaction_check_interval=100, transaction_check_max=10_000
    )
    with (
        MessageStore.open(path, config) as store,
        EmbeddedBroker(store, transaction_settings=settings) as broker,
        TransactionProducer(broker, GROUP, listener),
    ):
        assert listener.has_all.wait(60)
        assert store.wait_for_messages(TOPIC, 0, 7, timeout_ms=60_000)
    yield path, listener


def test_our_broker_goes_on_with_what_is_open(asked: tuple[Path, Committing]) -> None:
    """It asks about the two that are open, and no other; they come into their queue behind what was there."""
    path, listener = asked
    assert set(listener.asked) == {12, 13}
    with MessageStore.open(path, CONFIG, read_only=True) as store:
        finals = messages_in(store, TOPIC)
        assert sorted(map(number_of, finals)) == [0, 2, 4, 6, 8, 10, 12, 13]
        assert sorted(map(number_of, finals[-2:])) == [12, 13]
