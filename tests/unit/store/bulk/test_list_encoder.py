"""Lists of one topic, encoded in one compiled pass: the records of single puts, or none at all.

Method: the loop encodes drawn lists; `MessageEncoder` and `encode_from` make the same records one by one.
"""

import datetime
import enum
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqstore import Host, Message
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.delay.delayed_message import rewrite
from mqstore.store.bulk.buffer_pool import BufferPool
from mqstore.store.bulk.list_encoder import ListEncoder
from mqstore.store.bulk.record_block import RecordBlock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import MessageIllegal
from mqstore.store.message.message_encoder import MessageEncoder
from mqstore.store.record.record_template import encode_from
from support.stores.small_log import small_config

LEVELS = DelayLevels.parse("1s 5s 10s")
QUEUE_NUMS = 8
LONG_TOPIC = "%RETRY%" + "g" * 200
HOSTS = [Host.parse("127.0.0.1:10911"), Host.parse("[2001:db8::7]:4711"), Host(bytes(4), 2**32 - 1)]
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_LONG = st.sampled_from(["a" * 31, "b" * 32, "c" * 255, "d" * 256, "KEYS", "TAGS", "DELAY", "__CRC32#", " "])
_ANY = st.one_of(_TEXTS, _LONG)
_LEGAL = st.text("abcxyz#_-ä€", min_size=1, max_size=40)
_TIMES = st.sampled_from([None, None, 0, 127, 128, 2**31, 2**32, 1_726_000_000_123, 2**63 - 1])


def lists(texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[Message]]:
    """Lists of messages to one topic, with these texts."""
    message = st.builds(
        Message,
        topic=st.just("orders"),
        body=st.one_of(st.binary(max_size=40), st.sampled_from([bytes(255), bytes(256), bytearray(3)])),
        tags=st.one_of(st.none(), st.just(""), texts),
        keys=st.one_of(
            st.just(()), texts, st.lists(texts, max_size=20).map(tuple), st.lists(texts, max_size=2)
        ),
        properties=st.one_of(st.just({}), st.dictionaries(texts, texts, max_size=20)),
        queue_id=st.integers(0, QUEUE_NUMS - 1),
        delay_level=st.sampled_from([0, 0, 0, -3, 1, 3, 4, 2**31 - 1]),
        flag=st.one_of(st.just(0), st.integers(-(2**31), 2**31 - 1)),
        born_timestamp=_TIMES,
        born_host=st.sampled_from([None, *HOSTS]),
    )
    return st.lists(message, min_size=1, max_size=40)


def encode(messages: list[Message], config: StoreConfig | None = None) -> RecordBlock | None:
    encoder = ListEncoder(config or small_config(), LEVELS.max_level, BufferPool())
    return encoder.encode(messages, {"orders": QUEUE_NUMS, LONG_TOPIC: 1}.get)


def records_of(block: RecordBlock, born_when_stored: int) -> list[bytes]:
    """The records as they are in the log if all offsets and times are this number."""
    count = len(block)
    queue_offsets = np.empty(count, np.int64)
    records = []
    for row in range(count):
        base = born_when_stored - int(block.starts[row])
        block.complete(
            row, row + 1, [born_when_stored] * len(block.queues), queue_offsets, base, born_when_stored
        )
        records.append(bytes(block.bytes_of(row, row + 1)))
    return records


def record_of(message: Message, config: StoreConfig, number: int) -> bytes:
    """The record of a single put, if all offsets and times are this number."""
    encoded = MessageEncoder(config).encode(rewrite(message, LEVELS))
    born = number if encoded.born_timestamp is None else encoded.born_timestamp
    return encode_from(
        encoded.template,
        encoded.ending,
        encoded.size_bytes,
        encoded.queue_id,
        encoded.body,
        encoded.body_crc,
        number,
        number,
        born,
        number,
    )


@pytest.mark.slow
@settings(deadline=None)
@given(lists(_LEGAL), st.sampled_from(HOSTS[:2]), st.booleans())
@example([Message("orders", b"", queue_id=at % 3) for at in range(65_537)], HOSTS[0], True)
def test_records_are_those_of_single_puts(messages: list[Message], host: Host, has_crc: bool) -> None:
    """Byte by byte, with all that the loop takes; it takes every ordinary list."""
    config = small_config(store_host=host, enabled_append_prop_crc=has_crc)
    block = encode(messages, config)
    assert block is not None
    stored = [rewrite(message, LEVELS) for message in messages]
    queues = [block.queues[group] for group in block.groups]
    assert queues == [(message.topic, message.queue_id) for message in stored]
    some = messages if len(messages) < 100 else messages[:100]
    expected = [record_of(message, config, 1_000_000) for message in some]
    assert records_of(block, 1_000_000)[: len(some)] == expected


@pytest.mark.slow
@settings(deadline=None)
@given(lists(_ANY))
@example([Message("orders", b"", keys=("a", "b c"))])
@example([Message("orders", b"", keys=("",))])
@example([Message("orders", b"", keys=("", "a"))])
@example([Message("orders", b"", keys=["a"] * 70_000)])
@example([Message("orders", b"", properties={str(number): "d" for number in range(70_000)})])
@example([Message("orders", b"", properties={"a": "b" * 32_760})])
@example([Message("orders", b"", tags="t" * 70_000)])
def test_what_is_taken_is_legal(messages: list[Message]) -> None:
    """Whatever texts hold: a list with a message that a single put refuses is not taken."""
    config = small_config()
    block = encode(messages)
    try:
        expected = [record_of(message, config, 1_000_000) for message in messages]
    except MessageIllegal:
        assert block is None
        return
    if block is not None:
        assert records_of(block, 1_000_000) == expected


class Number(enum.IntEnum):
    """Numbers with names, which msgspec packs as numbers."""

    ONE = 1


class Name(enum.Enum):
    """No text at all, and msgspec packs its value."""

    ONE = "one"


class Derived(Message):
    """A message of a program's own type."""


DAY = datetime.date(2024, 1, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "others"},
        {"topic": "order"},
        {"topic": DAY},
        {"body": "text"},
        {"body": bytes(60_001)},
        {"body": memoryview(b"abcd")[::2]},
        {"tags": b"c"},
        {"tags": DAY},
        {"tags": Name.ONE},
        {"tags": "a\x01"},
        {"tags": "a\ud800"},
        {"keys": 1},
        {"keys": (b"a",)},
        {"keys": (DAY,)},
        {"keys": DAY},
        {"keys": {"a"}},
        {"keys": "\x02"},
        {"keys": ("a", ("b",))},
        {"keys": {"a": "b"}},
        {"properties": {"a": 1.5}},
        {"properties": {"a": DAY}},
        {"properties": {DAY: "a"}},
        {"properties": {"a": {"b": "c"}}},
        {"properties": {"a": ""}},
        {"properties": {"": "a"}},
        {"properties": {"a": "b\x02"}},
        {"properties": [("c", "d")]},
        {"properties": "text"},
        {"properties": {"DELAY": "1"}},
        {"properties": {"TIMER_DELIVER_MS": "1"}},
        {"properties": {"KEYS": "1"}},
        {"properties": {"TAGS": "1"}},
        {"properties": {"__CRC32#": "1"}},
        {"properties": {"a": "b" * 32_767}},
        {"queue_id": QUEUE_NUMS},
        {"queue_id": -1},
        {"queue_id": 2**31},
        {"queue_id": 2**64 - 1},
        {"queue_id": True},
        {"queue_id": 1.0},
        {"queue_id": None},
        {"queue_id": Number.ONE},
        {"flag": Number.ONE},
        {"flag": 2**31},
        {"flag": "1"},
        {"delay_level": Number.ONE},
        {"delay_level": True},
        {"delay_level": 2**31},
        {"properties": {"REAL_QID": "1"}},
        {"sys_flag": 4},
        {"reconsume_times": 1},
        {"prepared_transaction_offset": 1},
        {"wait_store_msg_ok": False},
        {"born_timestamp": -1},
        {"born_timestamp": 2**63},
        {"born_timestamp": Number.ONE},
        {"born_timestamp": 1.5},
        {"born_host": (b"abcd", 1)},
        {"born_host": Host(b"abc", 1)},
        {"born_host": Host(b"abcd", -1)},
        {"born_host": Host(b"abcd", 2**32)},
        {"born_host": Host("10.0.0.1", 1)},  # type: ignore[arg-type]
    ],
    ids=", ".join,
)
def test_what_is_special_is_left(fields: dict[str, Any]) -> None:
    """No list is taken that has such a message, wherever it stands."""
    ordinary = Message("orders", b"b", tags="a", keys="c", properties={"d": "e"})
    special = msgspec.structs.replace(ordinary, **fields)
    for at in range(3):
        messages = [ordinary] * 3
        messages[at] = special
        assert encode(messages) is None


def test_only_messages_are_taken() -> None:
    """Neither what looks like one nor what is derived from it."""
    assert encode([Derived("orders", b"b")]) is None
    assert encode([{"topic": "orders", "body": b"b"}]) is None  # type: ignore[list-item]


def test_a_long_topic_has_records_of_the_second_version() -> None:
    """Its length takes two bytes, and the magic says so."""
    message = Message(LONG_TOPIC, b"b")
    block = encode([message] * 3)
    assert block is not None
    assert records_of(block, 7) == [record_of(message, small_config(), 7)] * 3


def test_buffers_are_used_again_after_a_refusal() -> None:
    """A list that is not taken leaves its buffer to the next."""
    buffers = BufferPool()
    buffers.release(buffer := np.zeros(10_000, np.uint8))
    encoder = ListEncoder(small_config(), 18, buffers)
    assert encoder.encode([Message("orders", b"", sys_flag=1)], lambda _: 1) is None
    block = encoder.encode([Message("orders", b"")], lambda _: 1)
    assert block is not None
    assert block.buffer is buffer
