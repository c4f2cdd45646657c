"""Messages as msgspec packs them, read by the compiled loop as its plain twin reads the objects."""

import datetime
import enum
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqstore import Host, Message
from mqstore.store.bulk import msgpack_kernels
from mqstore.store.bulk.message_list import columns_of_messages
from support.twins.message_rows import MESSAGES
from support.twins.plain_rows import plain_messages

NUMBERS = st.one_of(
    st.integers(-(2**64) + 1, 2**64 - 1).filter(lambda number: number >= -(2**63)),
    st.sampled_from(
        [
            sign * (1 << bits) + near
            for sign in (1, -1)
            for bits in (5, 7, 8, 15, 16, 31, 32)
            for near in (-1, 0, 1)
        ]
    ),
)
LISTS = st.lists(
    st.one_of(
        MESSAGES,
        st.builds(Message, st.just("a"), st.just(b"b"), queue_id=NUMBERS, delay_level=NUMBERS, flag=NUMBERS),
        st.builds(
            Message,
            st.text(max_size=300),
            st.binary(max_size=300),
            keys=st.lists(st.text(max_size=40), max_size=20).map(tuple),
            properties=st.dictionaries(st.text(max_size=3), st.text(max_size=40), max_size=20),
        ),
    ),
    min_size=1,
    max_size=40,
)


def read(messages: list[Message]) -> tuple[list[tuple[bytes, int, int, int]], bool, bool] | None:
    packed = msgspec.msgpack.encode(messages)
    starts, stops = np.empty((2, len(messages)), np.int64)
    numbers = np.empty((3, len(messages)), np.int32)
    found = msgpack_kernels.read_messages(np.frombuffer(packed, np.uint8), starts, stops, *numbers)
    if found == msgpack_kernels.OUT_OF_THE_ORDINARY:
        return None
    bodies = [packed[start:stop] for start, stop in zip(starts, stops, strict=True)]
    rows = list(zip(bodies, *numbers.tolist(), strict=True))
    return rows, bool(found & msgpack_kernels.KEYS_FOUND), bool(found & msgpack_kernels.PROPERTIES_FOUND)


@pytest.mark.slow
@given(LISTS)
@example([Message("a", bytes(size)) for size in (0, 255, 256, 65_535, 65_536)])
@example([Message("a", b"", queue_id=number) for number in range(70_000)])
@example([Message("a" * 70_000, b"b", tags="c" * 256)])
@example(
    [Message("a", b"b", keys=("c",) * 70_000, properties={str(number): "d" for number in range(70_000)})]
)
def test_messages_are_read_as_in_plain_python(messages: list[Message]) -> None:
    """Bodies, texts, numbers and lists of every length that has a form of its own."""
    assert read(messages) == plain_messages(messages)


@pytest.mark.parametrize(
    "fields",
    [
        {"sys_flag": 4},
        {"born_timestamp": 1},
        {"born_host": Host.parse("10.0.0.1:1")},
        {"reconsume_times": 1},
        {"prepared_transaction_offset": 1},
        {"wait_store_msg_ok": False},
        {"body": "text"},
        {"body": None},
        {"queue_id": True},
        {"queue_id": 1.0},
        {"queue_id": None},
        {"flag": "1"},
        {"keys": 1},
        {"keys": (b"a",)},
        {"properties": {"a": 1.5}},
        {"properties": {"a": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)}},
    ],
    ids=str,
)
def test_what_columns_have_not_is_left(fields: dict[str, Any]) -> None:
    """The loop gives up, wherever in the list such a message is."""
    ordinary = Message("a", b"b", keys="c", properties={"d": "e"})
    assert read([ordinary, msgspec.structs.replace(ordinary, **fields), ordinary]) is None


class Derived(Message):
    """A message of a program's own type."""


class Number(enum.IntEnum):
    """Numbers with names, which msgspec packs as numbers."""

    ONE = 1


class Name(enum.Enum):
    """No number at all, and msgspec packs its value."""

    ONE = 1


@pytest.mark.parametrize(
    "odd",
    [
        {"topic": "a", "body": b"b"},
        Derived("a", b"b"),
        Message(datetime.date(2024, 1, 1), b"b"),  # type: ignore[arg-type]
        Message("a", b"b", tags=datetime.date(2024, 1, 1)),  # type: ignore[arg-type]
        Message("a", b"b", tags=b"c"),  # type: ignore[arg-type]
        Message("a", memoryview(b"abcd")[::2]),
        Message("a", b"b", queue_id=Number.ONE),
        Message("a", b"b", delay_level=Name.ONE),  # type: ignore[arg-type]
        Message("a", b"b", flag=Name.ONE),  # type: ignore[arg-type]
        Message("a", b"b", properties=[("c", "d")]),  # type: ignore[arg-type]
        Message("a", b"b", properties=""),  # type: ignore[arg-type]
    ],
    ids=[
        "a dict",
        "a type of its own",
        "a date as the topic",
        "a date as tags",
        "bytes as tags",
        "a body in steps",
        "a named number as the queue id",
        "a name as the delay level",
        "a name as the flag",
        "pairs as properties",
        "a text as properties",
    ],
)
def test_what_only_packs_alike_is_left(odd: Any) -> None:
    """Neither a dict, nor a type of others, nor one whose text or number is none, passes for a message."""
    good = Message("a", b"b", tags="c")
    assert columns_of_messages([good] * 2) is not None
    assert columns_of_messages([good, odd]) is None
    assert columns_of_messages([odd, good]) is None


@pytest.mark.parametrize(
    "fields",
    [{"keys": (datetime.date(2024, 1, 1),)}, {"properties": {"a": datetime.date(2024, 1, 1)}}],
    ids=str,
)
def test_texts_of_other_types_are_refused(fields: dict[str, Any]) -> None:
    """What msgspec packs as a text, and is none, is found out where keys and properties are joined."""
    with pytest.raises((TypeError, ValueError)):
        columns_of_messages([Message("a", b"b"), Message("a", b"b", **fields)])
