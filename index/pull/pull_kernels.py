"""Compiled lookups in a queue: its records, its records with wanted tags, and the entry of a store time.

Arrays: `entries` is uint8, packed queue entries; `data` uint8, one segment, whose first byte has physical
offset `start_offset` and whose bytes before `end` may be read. Nothing outside is read, whatever an entry
contains, and only arrays that are marked as filled are written.
A special entry (blank, of another segment, or with a record that does not match it) ends a loop: the caller
handles it in plain Python and continues. So the plain twin of each loop is beside its call:
offset_by_time.py, message_collector.py.
Callers hold no lock: the kernels release the GIL. Import this module inside the function that first needs it.
"""

import numpy as np

from mqstore.index.queue.consume_queue_format import ENTRY_BYTES, SIZE_POSITION, TAGS_CODE_POSITION
from mqstore.store.byte_kernels import borrowed, read_int, read_long, same_bytes
from mqstore.store.compiled import compiled
from mqstore.store.loops.kinds import BOOL, BYTES, INT64, INTS, LONG_ROWS_OUT, LONGS
from mqstore.store.record.properties_format import TAGS
from mqstore.store.record.property_kernels import find_property
from mqstore.store.record.record_format import (
    FIXED_BYTES,
    HEADER_BYTES,
    PHYSICAL_OFFSET_POSITION,
    SYS_FLAG_POSITION,
)
from mqstore.store.record.record_kernels import record_layout, store_timestamp_at
from mqstore.store.record.sys_flag import COMPRESSED, INNER_BATCH

__all__ = ["locate_records", "locate_tagged", "narrow_by_time"]

_TAGS = np.frombuffer(TAGS.encode(), np.uint8)
# A tags code below the least 32-bit integer is the address of an extension entry, not a hash.
_LEAST_HASH = -(2**31)


# -- by time ------------------------------------------------------------------------------------------


@compiled(BYTES, BYTES, INT64, INT64, INT64, BOOL, INT64, INT64)
def narrow_by_time(entries, data, start_offset, end, timestamp_ms, is_upper, low, high):  # type: ignore[no-untyped-def]
    """Bisect entries low to high (indexes in `entries`) by the store time of their records; (low, high).

    It searches the first entry stored at or after `timestamp_ms`; if `is_upper`, after it. It ends when low
    and high meet, or at a middle entry that is behind `entries` or whose record is not in this segment.
    """
    entries, data = borrowed((entries, data))
    count = len(entries) // ENTRY_BYTES
    while low < high:
        middle = (low + high) // 2
        if middle >= count:
            break
        at = read_long(entries, middle * ENTRY_BYTES) - start_offset
        if at < 0 or at > end - HEADER_BYTES:
            break
        store_timestamp = read_long(data, store_timestamp_at(data, at))
        if store_timestamp > timestamp_ms or (store_timestamp == timestamp_ms and not is_upper):
            high = middle
        else:
            low = middle + 1
    return low, high


# -- records of a queue -----------------------------------------------------------------------------------


@compiled(BYTES, BYTES, INT64, INT64, INT64, LONG_ROWS_OUT)
def locate_records(entries, data, start_offset, end, max_bytes, places):  # type: ignore[no-untyped-def]
    """Find the records of consecutive queue entries in one segment; (how many, their total bytes).

    entries: uint8, packed, of which at most places.shape[1] are read. data: the segment, whose first byte
    has physical offset `start_offset`; its bytes before `end` may be read. max_bytes: limit of the records'
    total size; the first is taken whatever its size. places: int64[4, n], filled with positions in `data`:
    record start, record stop, body start, body stop; body start is -1 if the body is compressed and must be
    decompressed first.

    Ends before the first special entry: blank, of another segment, of an inner batch, or with a record that
    is incomplete or states another size or physical offset.
    """
    entries, data, places = borrowed((entries, data, places))
    taken_bytes = np.int64(0)
    count = min(len(entries) // ENTRY_BYTES, places.shape[1])
    for index in range(count):
        physical_offset = read_long(entries, index * ENTRY_BYTES)
        size = read_int(entries, index * ENTRY_BYTES + SIZE_POSITION)
        at = physical_offset - start_offset
        # An entry may contain any number, and a sum may overflow.
        if at < 0 or size < FIXED_BYTES or size > end - at or (index and taken_bytes + size > max_bytes):
            return index, taken_bytes
        total_size, body_at, body_length, _, _, _, _ = record_layout(data, at, at + size)
        if total_size != size or read_long(data, at + PHYSICAL_OFFSET_POSITION) != physical_offset:
            return index, taken_bytes
        if read_int(data, at + SYS_FLAG_POSITION) & INNER_BATCH:
            return index, taken_bytes
        places[0, index] = at
        places[1, index] = at + size
        places[2, index] = -1 if read_int(data, at + SYS_FLAG_POSITION) & COMPRESSED else body_at
        places[3, index] = body_at + body_length
        taken_bytes += size
    return count, taken_bytes


# -- by tag -------------------------------------------------------------------------------------------


@compiled
def _is_code_wanted(tags_code, codes):  # type: ignore[no-untyped-def]
    if tags_code < _LEAST_HASH:
        return True
    low = np.int32(tags_code)
    for code in codes:
        if code == low:
            return True
    return False


@compiled
def _is_tag_wanted(data, properties_at, properties_length, tags, tag_stops):  # type: ignore[no-untyped-def]
    value_at, value_length = find_property(data, properties_at, properties_length, _TAGS)
    if value_length == 0:
        return False
    start = np.int64(0)
    for stop in tag_stops:
        if stop - start == value_length and same_bytes(data, value_at, tags, start, value_length):
            return True
        start = stop
    return False


@compiled(BYTES, BYTES, INT64, INT64, INT64, INTS, BYTES, LONGS, LONG_ROWS_OUT)
def locate_tagged(entries, data, start_offset, end, max_bytes, codes, tags, tag_stops, places):  # type: ignore[no-untyped-def]
    """As `locate_records`, for records with a wanted tag: (entries processed, found, bytes).

    codes: int32, the hashes of the wanted tags. tags: uint8, the tags concatenated; tag_stops: int64, where
    each ends. The hash in the entry is checked first; the record is read only if the hash matches.
    """
    entries, data, codes, tags, tag_stops, places = borrowed((entries, data, codes, tags, tag_stops, places))
    taken_bytes, found = np.int64(0), 0
    for index in range(len(entries) // ENTRY_BYTES):
        physical_offset = read_long(entries, index * ENTRY_BYTES)
        size = read_int(entries, index * ENTRY_BYTES + SIZE_POSITION)
        at = physical_offset - start_offset
        # An entry may contain any number, and a sum may overflow.
        if at < 0 or size < FIXED_BYTES or size > end - at:
            return index, found, taken_bytes
        if found and (found >= places.shape[1] or taken_bytes + size > max_bytes):
            return index, found, taken_bytes
        if not _is_code_wanted(read_long(entries, index * ENTRY_BYTES + TAGS_CODE_POSITION), codes):
            continue
        layout = record_layout(data, at, at + size)
        total_size, body_at, body_length = layout[0], layout[1], layout[2]
        if total_size != size or read_long(data, at + PHYSICAL_OFFSET_POSITION) != physical_offset:
            return index, found, taken_bytes
        if read_int(data, at + SYS_FLAG_POSITION) & INNER_BATCH:
            return index, found, taken_bytes
        if not _is_tag_wanted(data, layout[5], layout[6], tags, tag_stops):
            continue
        places[0, found] = at
        places[1, found] = at + size
        places[2, found] = -1 if read_int(data, at + SYS_FLAG_POSITION) & COMPRESSED else body_at
        places[3, found] = body_at + body_length
        taken_bytes += size
        found += 1
    return len(entries) // ENTRY_BYTES, found, taken_bytes
