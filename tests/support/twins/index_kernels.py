"""Plain twins of index/queue/entry_kernels.py: the same rules with bytes, patterns and Python integers."""

import re
import struct
from typing import NamedTuple

__all__ = [
    "QueueEnd",
    "QueueEntry",
    "Walked",
    "append_runs",
    "consume_queue_entries",
    "find_property",
    "java_hash",
    "locate_records",
    "record_layout",
    "walk",
]

_MAGIC_V1 = bytes.fromhex("DAA320A7")
_MAGIC_V2 = bytes.fromhex("DAA320AB")
_MAGIC_BLANK = bytes.fromhex("CBD43194")
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


class QueueEntry(NamedTuple):
    """One entry and the queue that it belongs to."""

    topic: bytes
    queue_id: int
    queue_offset: int
    entry: bytes


class Walked(NamedTuple):
    """What a walk over a chunk found."""

    entries: list[QueueEntry]
    consumed: int
    at_blank: bool
    last_store_timestamp: int


def record_layout(data: bytes, at: int, end: int) -> tuple[int, int, int, int, int]:
    """(total size, topic position, its length, properties position, their length), or zeros."""
    record = data[at:end]
    if record[4:8] == _MAGIC_BLANK and _int(record, 0) >= 8:
        return -_int(record, 0), 0, 0, 0, 0
    if record[4:8] not in (_MAGIC_V1, _MAGIC_V2) or not 91 <= _int(record, 0) <= len(record):
        return 0, 0, 0, 0, 0
    total = _int(record, 0)
    record = record[:total]
    sys_flag = _int(record, 36)
    body_at = 88 + (12 if sys_flag & 0x10 else 0) + (12 if sys_flag & 0x20 else 0)
    lengths = ">b" if record[4:8] == _MAGIC_V1 else ">h"
    try:
        topic_at = body_at + _natural(record, ">i", body_at - 4) + struct.calcsize(lengths)
        topic_length = _natural(record, lengths, topic_at - struct.calcsize(lengths))
        properties_at = topic_at + topic_length + 2
        properties_length = _natural(record, ">h", properties_at - 2)
    except (struct.error, ValueError):
        return 0, 0, 0, 0, 0
    if properties_at + properties_length != total:
        return 0, 0, 0, 0, 0
    return total, at + topic_at, topic_length, at + properties_at, properties_length


def find_property(data: bytes, at: int, length: int, name: bytes) -> bytes:
    """The value of a property, b"" when there is none."""
    value = b""
    for chunk in data[at : at + length].split(b"\x02"):
        found, separator, rest = chunk.partition(b"\x01")
        if separator and rest and found == name:
            value = rest
    return value


def java_hash(text: bytes) -> int:
    """Java's new String(text, UTF_8).hashCode()."""
    decoded = _ENCODED_SURROGATE.sub("\ufffd".encode(), text).decode("utf-8", "replace")
    units = decoded.encode("utf-16-be")
    code = 0
    for (unit,) in struct.iter_unpack(">H", units):
        code = (31 * code + unit) % 2**32
    return code - 2**32 if code >= 2**31 else code


def consume_queue_entries(data: bytes, base_offset: int, delay_tables: list[list[int]]) -> Walked:
    """The entries of all whole records, in the order of the log."""
    entries = []
    consumed, last_store_timestamp, at_blank = 0, -1, False
    for at, total, topic, properties in walk(data, base_offset):
        if total < 0:
            at_blank = True
            break
        record = data[at : at + total]
        sys_flag = _int(record, 36)
        last_store_timestamp = _long(record, 68 if sys_flag & 0x10 else 56)
        if sys_flag & 0xC in (0, 0x8):
            delays = _delays_at(base_offset + at, delay_tables)
            code = _tags_code(topic, properties, last_store_timestamp, delays)
            entry = struct.pack(">qiq", base_offset + at, total, code)
            entries.append(QueueEntry(topic, _int(record, 12), _long(record, 20), entry))
        consumed = at + total
    return Walked(entries, consumed, at_blank, last_store_timestamp)


class QueueEnd(NamedTuple):
    """A row of the table of ends, with the file itself instead of its address."""

    file: bytearray | None
    first_offset: int
    room_end: int
    max_offset: int
    max_physical_offset: int


Run = tuple[bytes, int, int, list[bytes]]


def append_runs(
    runs: list[Run], ends: dict[tuple[bytes, int], QueueEnd]
) -> tuple[dict[tuple[bytes, int], tuple[int, int]], list[int]]:
    """Write what is ordinary. A run: topic, queue id, queue offset of its first entry, its entries.

    Returns the new max offset and max physical offset of the queues written to, and the runs that were not.
    """
    appended: dict[tuple[bytes, int], tuple[int, int]] = {}
    left: list[int] = []
    seen: set[tuple[bytes, int]] = set()
    for index, (topic, queue_id, queue_offset, entries) in enumerate(runs):
        queue = (topic, queue_id)
        end = ends.get(queue)
        is_first = queue not in seen
        seen.add(queue)
        stop = queue_offset + len(entries)
        if (
            not is_first
            or end is None
            or end.file is None
            or queue_offset != end.max_offset
            or not end.first_offset <= queue_offset <= stop <= end.room_end
            or _long(entries[0], 0) < end.max_physical_offset
        ):
            left.append(index)
            continue
        at = (queue_offset - end.first_offset) * 20
        end.file[at : at + 20 * len(entries)] = b"".join(entries)
        appended[queue] = stop, _long(entries[-1], 0) + _int(entries[-1], 8)
    return appended, left


def locate_records(
    entries: bytes, data: bytes, start_offset: int, end: int, max_count: int, max_bytes: int
) -> tuple[list[tuple[int, int, int, int]], int]:
    """Record start and stop, body start and stop of the first entries with nothing special; their bytes."""
    places: list[tuple[int, int, int, int]] = []
    taken_bytes = 0
    for physical_offset, size, _ in list(struct.iter_unpack(">qiq", entries))[:max_count]:
        at = physical_offset - start_offset
        record = data[at : at + size] if at >= 0 and size >= 91 and at + size <= end else b""
        total, *_ = record_layout(record, 0, size)
        if not record or total != size or _long(record, 28) != physical_offset:
            break
        if _int(record, 36) & 0x80:
            break
        if places and taken_bytes + size > max_bytes:
            break
        body_at = 88 + (12 if _int(record, 36) & 0x10 else 0) + (12 if _int(record, 36) & 0x20 else 0)
        body_stop = at + body_at + _int(record, body_at - 4)
        # What is compressed is not lent.
        body_start = -1 if _int(record, 36) & 1 else at + body_at
        places.append((at, at + size, body_start, body_stop))
        taken_bytes += size
    return places, taken_bytes


def walk(data: bytes, base_offset: int) -> list[tuple[int, int, bytes, bytes]]:
    """(position, total size, topic, properties) of the whole records; a BLANK, if any, ends it."""
    found = []
    at = 0
    while True:
        total, topic_at, topic_length, properties_at, properties_length = record_layout(data, at, len(data))
        if total > 0 and _long(data, at + 28) != base_offset + at:
            total = 0
        if total == 0:
            return found
        topic = data[topic_at : topic_at + topic_length]
        found.append((at, total, topic, data[properties_at : properties_at + properties_length]))
        if total < 0:
            return found
        at += total


def _delays_at(physical_offset: int, delay_tables: list[list[int]]) -> list[int]:
    """The delays by level, of the last table that holds from here or before; else of the first."""
    held = [table for table in delay_tables if table[0] <= physical_offset]
    return (held or delay_tables[:1])[-1]


def _tags_code(topic: bytes, properties: bytes, store_timestamp: int, delay_ms_by_level: list[int]) -> int:
    delay = find_property(properties, 0, len(properties), b"DELAY")
    if topic == b"SCHEDULE_TOPIC_XXXX" and re.fullmatch(rb"\+?[0-9]+", delay) and int(delay) < 2**31:
        level = min(int(delay), len(delay_ms_by_level) - 1)
        if level > 0:
            delay_ms = delay_ms_by_level[level]
            return store_timestamp + (delay_ms if delay_ms >= 0 else 1000)
    return java_hash(find_property(properties, 0, len(properties), b"TAGS"))


def _int(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def _long(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def _natural(data: bytes, code: str, at: int) -> int:
    (value,) = struct.unpack_from(code, data, at)
    if value < 0:
        raise ValueError(value)
    return int(value)
