"""Compiled loops that count what is in a segment: its parts, its topics and its queues.

The tables are arrays of the caller (segment_content.py), which live as long as the pass over one segment and
are made larger by it. A loop stops in front of the record for which a table has no room.

    names, name_ends    the topics' names one behind the other, and where each ends; name_ends[0] is 0
    queues              a row each, see QUEUE_FIELDS
    parts               a row each, see PART_FIELDS
    part_topics         for each part a flag for each of the first TOLD_TOPICS topics
    topic_slots, queue_slots    hash tables of row numbers, -1 where there is none: their size is a power of
                        two that is greater than the number of rows
    counts              how many there are of each, see COUNTS

Threads: one at a time works on one set of tables. The plain twin is tests/support/twins/plain_content.py.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mqstore.store.byte_kernels import borrowed, copy_bytes, hash_bytes, read_int, read_long, same_bytes
from mqstore.store.compiled import compiled, compiled_into_caller
from mqstore.store.loops.kinds import (
    BYTES,
    BYTES_OUT,
    FLAGS_OUT,
    INT64,
    INTS_OUT,
    LONG_ROWS,
    LONG_ROWS_OUT,
    LONGS,
    LONGS_OUT,
)
from mqstore.store.record.record_format import (
    QUEUE_ID_POSITION,
    QUEUE_OFFSET_POSITION,
    SYS_FLAG_POSITION,
)
from mqstore.store.record.record_kernels import record_layout, store_timestamp_at
from mqstore.store.record.sys_flag import TRANSACTION_PREPARED

__all__ = [
    "COUNTS",
    "PARTS",
    "PART_BEGIN",
    "PART_FIELDS",
    "PART_MAX_TIMESTAMP",
    "PART_MIN_TIMESTAMP",
    "PART_RECORDS",
    "PART_SIZE",
    "QUEUES",
    "QUEUE_FIELDS",
    "QUEUE_ID",
    "QUEUE_MAX_OFFSET",
    "QUEUE_MESSAGES",
    "QUEUE_MIN_OFFSET",
    "QUEUE_TOPIC",
    "TOLD_TOPICS",
    "TOPICS",
    "count_records",
    "place_queues",
    "place_topics",
]

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Int = int | np.integer[Any]

TOPICS: Final = 0
QUEUES: Final = 1
PARTS: Final = 2
COUNTS: Final = 3

QUEUE_TOPIC: Final = 0  # the row of its topic
QUEUE_ID: Final = 1
QUEUE_MESSAGES: Final = 2
QUEUE_MIN_OFFSET: Final = 3
QUEUE_MAX_OFFSET: Final = 4
QUEUE_FIELDS: Final = 5

PART_BEGIN: Final = 0  # position in the segment
PART_SIZE: Final = 1
PART_RECORDS: Final = 2
PART_MIN_TIMESTAMP: Final = 3
PART_MAX_TIMESTAMP: Final = 4
PART_FIELDS: Final = 5

TOLD_TOPICS: Final = 256

_NONE: Final = -1
_NO_ROOM: Final = -2
_SPREAD: Final = np.uint64(0x9E37_79B9_7F4A_7C15)


@compiled_into_caller
def _is_topic(names: Bytes, name_ends: Int64s, topic: Int, buffer: Bytes, start: Int, length: Int) -> bool:
    at = name_ends[topic]
    return bool(name_ends[topic + 1] - at == length and same_bytes(names, at, buffer, start, length))


@compiled_into_caller
def _slot_of_topic(
    names: Bytes, name_ends: Int64s, topic_slots: Int32s, buffer: Bytes, start: Int, length: Int
) -> Int:
    """The slot of the topic's row, or the free one where it belongs."""
    slot = hash_bytes(buffer, start, length) & (topic_slots.size - 1)
    while topic_slots[slot] >= 0 and not _is_topic(
        names, name_ends, np.int64(topic_slots[slot]), buffer, start, length
    ):
        slot = slot + 1 & (topic_slots.size - 1)
    return np.int64(slot)


@compiled_into_caller
def _slot_of_queue(queues: Int64s, queue_slots: Int32s, topic: Int, queue_id: Int) -> Int:
    """The slot of the queue's row, or the free one where it belongs."""
    key = (np.uint64(topic) << np.uint64(32) | np.uint64(np.uint32(queue_id))) * _SPREAD
    slot = np.int64(key >> np.uint64(32)) & (queue_slots.size - 1)
    while queue_slots[slot] >= 0:
        row = queue_slots[slot]
        if queues[row, QUEUE_TOPIC] == topic and queues[row, QUEUE_ID] == queue_id:
            return slot
        slot = slot + 1 & (queue_slots.size - 1)
    return slot


@compiled(BYTES, LONGS, INT64, INTS_OUT)
def place_topics(names: Bytes, name_ends: Int64s, count: int, topic_slots: Int32s) -> None:
    """Fill a new hash table, which contains -1, with the rows of the first `count` topics."""
    for topic in range(count):
        start = name_ends[topic]
        length = name_ends[topic + 1] - start
        topic_slots[_slot_of_topic(names, name_ends, topic_slots, names, start, length)] = topic


@compiled(LONG_ROWS, INT64, INTS_OUT)
def place_queues(queues: Int64s, count: int, queue_slots: Int32s) -> None:
    """Fill a new hash table, which contains -1, with the rows of the first `count` queues."""
    for row in range(count):
        queue_slots[_slot_of_queue(queues, queue_slots, queues[row, QUEUE_TOPIC], queues[row, QUEUE_ID])] = (
            row
        )


@compiled_into_caller
def _topic_of(
    buffer: Bytes,
    start: Int,
    length: Int,
    names: Bytes,
    name_ends: Int64s,
    topic_slots: Int32s,
    counts: Int64s,
) -> Int:
    """The row of a topic, which is added if it is new; _NO_ROOM if there is none for it."""
    slot = _slot_of_topic(names, name_ends, topic_slots, buffer, start, length)
    if topic_slots[slot] >= 0:
        return np.int64(topic_slots[slot])
    topic = counts[TOPICS]
    end = name_ends[topic]
    if topic + 1 >= name_ends.size or end + length > names.size:
        return np.int64(_NO_ROOM)
    copy_bytes(names, end, buffer, start, length)
    name_ends[topic + 1] = end + length
    topic_slots[slot] = topic
    counts[TOPICS] = topic + 1
    return np.int64(topic)


@compiled_into_caller
def _queue_of(topic: Int, queue_id: Int, queues: Int64s, queue_slots: Int32s, counts: Int64s) -> Int:
    """The row of a queue, which is added without messages if it is new; _NO_ROOM if there is none for it."""
    slot = _slot_of_queue(queues, queue_slots, topic, queue_id)
    if queue_slots[slot] >= 0:
        return np.int64(queue_slots[slot])
    row = counts[QUEUES]
    if row >= len(queues):
        return np.int64(_NO_ROOM)
    queues[row, QUEUE_TOPIC] = topic
    queues[row, QUEUE_ID] = queue_id
    queues[row, QUEUE_MESSAGES] = 0
    queue_slots[slot] = row
    counts[QUEUES] = row + 1
    return np.int64(row)


@compiled_into_caller
def _count_in_queue(queues: Int64s, row: Int, queue_offset: Int) -> None:
    if queues[row, QUEUE_MESSAGES] == 0 or queue_offset < queues[row, QUEUE_MIN_OFFSET]:
        queues[row, QUEUE_MIN_OFFSET] = queue_offset
    if queues[row, QUEUE_MESSAGES] == 0 or queue_offset > queues[row, QUEUE_MAX_OFFSET]:
        queues[row, QUEUE_MAX_OFFSET] = queue_offset
    queues[row, QUEUE_MESSAGES] += 1


@compiled_into_caller
def _part_of(position: Int, part_bytes: Int, timestamp: Int, parts: Int64s, counts: Int64s) -> Int:
    """The row of the part to which a record belongs: a new one at the first record behind a boundary."""
    part = counts[PARTS] - 1
    if part < 0 or parts[part, PART_BEGIN] // part_bytes != position // part_bytes:
        part += 1
        counts[PARTS] = part + 1
        parts[part, PART_BEGIN] = position
        parts[part, PART_SIZE] = 0
        parts[part, PART_RECORDS] = 0
        parts[part, PART_MIN_TIMESTAMP] = timestamp
        parts[part, PART_MAX_TIMESTAMP] = timestamp
    return np.int64(part)


@compiled_into_caller
def _count_in_part(parts: Int64s, part: Int, size: Int, timestamp: Int) -> None:
    parts[part, PART_SIZE] += size
    parts[part, PART_RECORDS] += 1
    parts[part, PART_MIN_TIMESTAMP] = min(parts[part, PART_MIN_TIMESTAMP], timestamp)
    parts[part, PART_MAX_TIMESTAMP] = max(parts[part, PART_MAX_TIMESTAMP], timestamp)


@compiled(
    BYTES,
    INT64,
    INT64,
    INT64,
    BYTES_OUT,
    LONGS_OUT,
    INTS_OUT,
    LONG_ROWS_OUT,
    INTS_OUT,
    LONG_ROWS_OUT,
    FLAGS_OUT,
    LONGS_OUT,
)
def count_records(
    buffer: Bytes,
    start: int,
    position: int,
    part_bytes: int,
    names: Bytes,
    name_ends: Int64s,
    topic_slots: Int32s,
    queues: Int64s,
    queue_slots: Int32s,
    parts: Int64s,
    part_topics: Flags,
    counts: Int64s,
) -> Int:
    """Count the records in `buffer` from `start` on: where it stopped, the buffer's end or a full table.

    buffer: whole records, whose lengths were checked. position: of the buffer's first byte in its segment.
    A part begins with the first record behind each multiple of `part_bytes`; `parts` has a row for each
    multiple in a segment. Half messages are records of a part, and are in no queue.
    """
    buffer, names, name_ends, topic_slots = borrowed((buffer, names, name_ends, topic_slots))
    queues, queue_slots, parts, counts = borrowed((queues, queue_slots, parts, counts))
    part_topics = borrowed((part_topics,))[0]
    at = np.int64(start)
    topic = np.int64(_NONE)
    row = np.int64(_NONE)
    while at < buffer.size:
        size, _, _, topic_at, topic_length, _, _ = record_layout(buffer, at, buffer.size)
        if size <= 0:
            return at
        is_message = read_int(buffer, at + SYS_FLAG_POSITION) & TRANSACTION_PREPARED == 0
        if is_message:
            # Most messages are of the topic before them.
            if topic < 0 or not _is_topic(names, name_ends, topic, buffer, topic_at, topic_length):
                topic = _topic_of(buffer, topic_at, topic_length, names, name_ends, topic_slots, counts)
                if topic < 0:
                    return at
                row = np.int64(_NONE)
            queue_id = read_int(buffer, at + QUEUE_ID_POSITION)
            if row < 0 or queues[row, QUEUE_ID] != queue_id:
                row = _queue_of(topic, queue_id, queues, queue_slots, counts)
                if row < 0:
                    return at
            _count_in_queue(queues, row, read_long(buffer, at + QUEUE_OFFSET_POSITION))
        timestamp = read_long(buffer, store_timestamp_at(buffer, at))
        part = _part_of(position + at, part_bytes, timestamp, parts, counts)
        _count_in_part(parts, part, size, timestamp)
        if is_message and topic < TOLD_TOPICS:
            part_topics[part * TOLD_TOPICS + topic] = True
        at += size
    return at
