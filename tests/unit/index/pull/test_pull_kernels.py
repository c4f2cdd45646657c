"""The compiled searches against plain Python, on entries and rows that may hold anything.

Method: a segment of real records, and queue entries of which some are blank, of another segment, or point
into the middle of a record; hypothesis draws them. The plain twin follows the rule as it is written in the
kernel's docstring, with `struct` and `StoredMessage`.
"""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore.index.pull import pull_kernels
from mqstore.index.pull.tag_filter import TagFilter
from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.java_hash import string_hash
from mqstore.store.record.record_format import HEADER_BYTES
from support.twins.plain_records import V1, V2, host_bytes, record

START_OFFSET = 1 << 30
TAGS = ("Aa", "BB", "", "other")


class Segment:
    """Records one behind the other, each stating where it lies."""

    def __init__(self, drawn: list[tuple[str, int, int, bool]]) -> None:
        data = bytearray()
        self.entries: list[tuple[int, int, int]] = []
        for tag, size, time, ipv6 in drawn:
            made = record(
                START_OFFSET + len(data),
                body=bytes(size),
                properties=f"KEYS\x01k\x02TAGS\x01{tag}\x02".encode(),
                magic=V2 if size % 2 else V1,
                born_host=host_bytes("2001:db8::1" if ipv6 else "10.0.0.1", 1),
                store_timestamp=time,
            )
            self.entries.append((START_OFFSET + len(data), len(made), string_hash(tag) if tag else 0))
            data += made
        self.data = bytes(data)
        self.array = np.frombuffer(self.data, np.uint8)


records = st.lists(
    st.tuples(st.sampled_from(TAGS), st.integers(0, 40), st.integers(0, 9), st.booleans()),
    min_size=1,
    max_size=12,
)
spoiled = st.lists(
    st.tuples(
        st.integers(0, 11),
        st.sampled_from(
            [(0, BLANK_SIZE, 0), (-5, 100, 0), (2**62, 100, 0), (START_OFFSET + 3, 120, -(2**40)), (0, 0, 0)]
        ),
    ),
    max_size=3,
)


def spoil(segment: Segment, drawn: list[tuple[int, tuple[int, int, int]]]) -> list[tuple[int, int, int]]:
    """The entries, some of them replaced."""
    entries = list(segment.entries)
    for at, entry in drawn:
        entries[at % len(entries)] = entry
    return entries


def packed(entries: list[tuple[int, int, int]]) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    return np.frombuffer(b"".join(ENTRY.pack(*entry) for entry in entries), np.uint8)


@pytest.mark.slow
@settings(max_examples=150)
@given(records, spoiled, st.sets(st.sampled_from(TAGS), max_size=2), st.integers(1, 6), st.integers(0, 900))
def test_tagged_records(
    drawn: list[tuple[str, int, int, bool]],
    replaced: list[tuple[int, tuple[int, int, int]]],
    wanted: set[str],
    max_count: int,
    max_bytes: int,
) -> None:
    """Which records, how many entries are done with, and how many bytes they are."""
    segment = Segment(drawn)
    entries = spoil(segment, replaced)
    tag_filter = TagFilter(frozenset(wanted))
    places = np.full((4, max_count), -1, np.int64)
    examined, found, taken_bytes = pull_kernels.locate_tagged(
        packed(entries),
        segment.array,
        START_OFFSET,
        len(segment.data),
        max_bytes,
        tag_filter.codes,
        tag_filter.encoded,
        tag_filter.encoded_stops,
        places,
    )
    messages: list[StoredMessage] = []
    done = 0
    for physical_offset, size, code in entries:
        message = whole(segment, physical_offset, size)
        is_ordinary = size >= 91 and 0 <= physical_offset - START_OFFSET <= len(segment.data) - size
        total = sum(each.store_size for each in messages)
        if not is_ordinary or (messages and (len(messages) >= max_count or total + size > max_bytes)):
            break
        if tag_filter.may_match(code):
            if message is None:
                break
            if tag_filter.matches(message.record):
                messages.append(message)
        done += 1
    assert (examined, found) == (done, len(messages))
    assert taken_bytes == sum(message.store_size for message in messages)
    assert [segment.data[start:stop] for start, stop in places[2:, :found].T.tolist()] == [
        message.body for message in messages
    ]
    assert [segment.data[start:stop] for start, stop in places[:2, :found].T.tolist()] == [
        bytes(message.record) for message in messages
    ]


def whole(segment: Segment, physical_offset: int, size: int) -> StoredMessage | None:
    """The record of an entry, if it is one."""
    known = {entry[:2] for entry in segment.entries}
    if (physical_offset, size) not in known:
        return None
    at = physical_offset - START_OFFSET
    return StoredMessage.of(memoryview(segment.data)[at : at + size])


@pytest.mark.slow
@settings(max_examples=150)
@given(records, spoiled, st.integers(-1, 10), st.booleans(), st.integers(0, 3))
def test_narrowing_by_time(
    drawn: list[tuple[str, int, int, bool]],
    replaced: list[tuple[int, tuple[int, int, int]]],
    timestamp_ms: int,
    is_upper: bool,
    behind: int,
) -> None:
    """The same steps, and the same end of them."""
    segment = Segment(drawn)
    entries = spoil(segment, replaced)
    low, high = 0, len(entries) + behind
    narrowed = pull_kernels.narrow_by_time(
        packed(entries), segment.array, START_OFFSET, len(segment.data), timestamp_ms, is_upper, low, high
    )
    while low < high:
        middle = (low + high) // 2
        if middle >= len(entries):
            break
        at = entries[middle][0] - START_OFFSET
        if not 0 <= at <= len(segment.data) - HEADER_BYTES:
            break
        sys_flag = struct.unpack_from(">i", segment.data, at + 36)[0]
        (time,) = struct.unpack_from(">q", segment.data, at + (68 if sys_flag & 16 else 56))
        if time > timestamp_ms or (time == timestamp_ms and not is_upper):
            high = middle
        else:
            low = middle + 1
    assert narrowed == (low, high)


GAPS = st.sampled_from([0, 0, 0, 1, 1, 7, 1_000, 2**40])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(GAPS, st.integers(1, 200)), min_size=1, max_size=12),
    st.integers(-5, 3_000),
    st.integers(-1, 1),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 3_000), st.sampled_from([-(2**63), -1, 0, 2**62])), max_size=3),
)
def test_many_entries_are_narrowed_to_the_one_of_a_time(
    runs: list[tuple[int, int]], asked: int, near: int, is_upper: bool, spoiled_at: list[tuple[int, int]]
) -> None:
    """At any rate, however uneven, as bisection finds it. An entry of nowhere may end the search early.

    Then what is left still holds the answer.
    """
    times = np.cumsum(np.repeat([gap for gap, _ in runs], [count for _, count in runs]))
    data = np.zeros(len(times) * HEADER_BYTES, np.uint8)
    stored = data.reshape(-1, HEADER_BYTES)[:, 56:64]
    stored[:] = times.astype(">i8").view(np.uint8).reshape(-1, 8)
    entries = [(START_OFFSET + at * HEADER_BYTES, HEADER_BYTES, 0) for at in range(len(times))]
    is_spoiled = False
    for at, physical_offset in spoiled_at:
        if at < len(entries):
            entries[at] = physical_offset, 1, 0
            is_spoiled = True
    timestamp_ms = int(times[asked % len(times)]) + near
    low, high = pull_kernels.narrow_by_time(
        packed(entries), data, START_OFFSET, len(data), timestamp_ms, is_upper, 0, len(entries)
    )
    expected = int(np.searchsorted(times, timestamp_ms, "right" if is_upper else "left"))
    if is_spoiled:
        assert 0 <= low <= expected <= high <= len(entries)
    else:
        assert low == high == expected


LONGS = st.sampled_from([-(2**63), -1, 0, 5, 2**63 - 1])
