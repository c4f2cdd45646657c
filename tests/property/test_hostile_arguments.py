"""What compiled code does with arguments that no caller of ours would give: it answers, or raises.

Goal: no wrong byte and no SIGSEGV, whatever an entry, a place or a message says. Method: arguments at random,
from values at the edges, for the puts of producers (`SentPuts.put`) and for what a pull is made of
(`places_of`, `has_byte`, `messages_at`). What they answer is compared with plain Python.

These run where the machine code was built: .ci/wheel runs them on an installed wheel. They say most with
modules that were built with `-fsanitize=address,undefined`.
"""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqstore import Message, MessageStore
from mqstore.index.queue.consume_queue_format import ENTRY, ENTRY_BYTES
from mqstore.store.errors import StoreError
from mqstore.store.message.compiled_read import READS
from mqstore.store.message.stored_message import StoredMessage

pytestmark = pytest.mark.skipif(
    READS is None, reason="the machine code was not built here: .ci/wheel asks an installed wheel"
)
MESSAGES = 150
EDGES = [-(2**63), -(2**31), -1, 0, 1, 90, 2**31 - 1, 2**31, 2**63 - 1]
OFFSETS = st.sampled_from(EDGES) | st.integers(0, 60_000)
SIZES = st.sampled_from([0, -1, 2**31 - 1, -(2**31)]) | st.integers(0, 400)


class Text(str):
    __slots__ = ()


class Number(int):
    pass


TEXTS = st.sampled_from(
    ["orders", "", "o" * 300, "a\x01b", "a\x02b", "\ud800", "é" * 700, "x" * 2_047, "x" * 2_500, "orders\0"]
) | st.sampled_from([Text("orders"), b"orders", None, 3, "%RETRY%g", "SCHEDULE_TOPIC_XXXX"])
BODIES = st.sampled_from(
    [b"", b"b", b"x" * 5_120, b"x" * 5_121, bytearray(b"ab"), memoryview(b"abcdef")[::2], None, "text"]
)
QUEUES = st.sampled_from([*EDGES, 2**63, 1 << 70, Number(0), True, 0.0, None, "0"])
SENT_ORDER = Message("orders", b"b")
SENT = st.sampled_from(
    [
        SENT_ORDER,
        Message("orders", b"b", keys=["a", 3]),  # type: ignore[list-item]
        Message("orders", b"b", delay_level=3),
        Message("orders", b"b", properties={"a": "b"}),
        Message("orders", b"b", sys_flag=1 << 70),
        Message("orders", b"b", born_host=(b"1", 2)),  # type: ignore[arg-type]
        None,
        "a text",
    ]
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessageStore]:
    with MessageStore.open(tmp_path_factory.mktemp("hostile") / "data") as store:
        for number in range(MESSAGES):
            store.put_message(Message("orders", b"x" * (number % 70), queue_id=0))
        yield store


@settings(max_examples=400, deadline=None)
@example(SENT_ORDER, "orders", b"b", 0, "K" * 32)
@given(message=SENT, topic=TEXTS, body=BODIES, queue_id=QUEUES, unique_key=TEXTS)
def test_a_put_of_a_producer(
    store: MessageStore, message: Any, topic: Any, body: Any, queue_id: Any, unique_key: Any
) -> None:
    """It stores what it was told, or changes nothing."""
    puts = store.sent_puts()
    assert puts is not None
    before = store.commit_log.max_offset
    try:
        result = puts.put(message, topic, body, queue_id, unique_key)
    except (StoreError, TypeError):
        result = None
    if result is None:
        assert store.commit_log.max_offset == before
        return
    stored = store.look_message_by_offset(result.physical_offset)
    assert stored is not None
    assert (stored.body, stored.properties["UNIQ_KEY"]) == (bytes(body), unique_key)


@settings(max_examples=400, deadline=None)
@given(
    count=st.integers(0, MESSAGES),
    changed=st.lists(st.tuples(st.integers(0, MESSAGES - 1), OFFSETS, SIZES), max_size=4),
    cut=st.integers(0, 3),
    rows=st.integers(0, 70),
    max_bytes=OFFSETS,
)
def test_the_places_of_entries(
    store: MessageStore,
    count: int,
    changed: list[tuple[int, int, int]],
    cut: int,
    rows: int,
    max_bytes: int,
) -> None:
    """Within the bytes of their segment, no more than there is room for, and messages can be made of them."""
    assert READS is not None
    store.get_max_offset_in_queue("orders", 0)
    queue, reader = store.consume_queues.find("orders", 0), store.commit_log.direct_reader
    assert queue is not None
    assert reader is not None
    entries = bytearray(queue.view_from(0, count))
    for index, physical_offset, size in changed:
        if index < count:
            ENTRY.pack_into(entries, index * ENTRY_BYTES, physical_offset, size, 0)
    places = np.empty((4, rows), np.int64)
    view, found, total_bytes = reader.places_of(entries[: len(entries) - cut], places, max_bytes)
    assert 0 <= found <= min(rows, count)
    messages = READS.messages_at(StoredMessage, view, places, found) if found else []
    for message in messages:
        assert 0 <= message.start < message.stop <= len(view)
        assert message.topic == "orders"
    assert total_bytes == sum(message.stop - message.start for message in messages)


@settings(max_examples=400, deadline=None)
@given(
    data=st.binary(max_size=300),
    starts=st.lists(OFFSETS | st.integers(-10, 300), max_size=5),
    position=st.sampled_from(EDGES) | st.integers(0, 300),
    value=st.sampled_from([0, 1, 255, 256, -1]),
)
def test_a_byte_of_records(data: bytes, starts: list[int], position: int, value: int) -> None:
    """Only where there is one. Messages at such places have fields, or raise."""
    assert READS is not None
    places = np.array([starts, [0] * len(starts), starts, [2**63 - 1] * len(starts)], np.int64)
    expected = any(
        0 <= start < len(data) and 0 <= start + position < len(data) and data[start + position] == value
        for start in starts
        if position >= 0
    )
    assert READS.has_byte(data, places, position, value) == expected
    for message in READS.messages_at(StoredMessage, memoryview(data), places, len(starts)):
        for name in ("body", "queue_id", "queue_offset", "physical_offset", "topic", "properties"):
            try:
                getattr(message, name)
            except (StoreError, ValueError, IndexError, struct.error):
                continue


@pytest.mark.parametrize(
    "places",
    [
        np.empty((3, 2), np.int64),
        np.empty((4, 2), np.int32),
        np.empty(8, np.int64),
        bytes(64),
        None,
    ],
    ids=["three rows", "32 bits", "one row", "bytes", "None"],
)
def test_places_of_another_shape_are_refused(store: MessageStore, places: Any) -> None:
    """By all who take them."""
    assert READS is not None
    reader = store.commit_log.direct_reader
    assert reader is not None
    with pytest.raises((ValueError, TypeError, BufferError)):
        READS.has_byte(b"abc", places, 0, 0)
    with pytest.raises((ValueError, TypeError, BufferError)):
        READS.messages_at(StoredMessage, memoryview(b"abc"), places, 1)
    with pytest.raises((ValueError, TypeError, BufferError)):
        reader.places_of(bytes(20), places, 1)


@pytest.mark.parametrize("count", [-1, 2, 2**62, -(2**63)])
def test_more_messages_than_places_are_refused(count: int) -> None:
    """And fewer than none."""
    assert READS is not None
    with pytest.raises(ValueError, match="messages"):
        READS.messages_at(StoredMessage, memoryview(b""), np.empty((4, 1), np.int64), count)
