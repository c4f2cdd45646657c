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
from mqstore.store.byte_kernels import borrowed, prefetch, read_int, read_long, same_bytes
from mqstore.store.compiled import compiled, compiled_into_caller
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
_UNKNOWN, _EARLIER, _LATER = -1, 0, 1
# Below so many entries a bisection is as quick as a guess.
_GUESSED_FROM = 64
_FIRST_STEP = 16
_LINE_BYTES = 64
# So many records are fetched from memory at the same time.
_RECORDS_AHEAD = 8


# -- by time ------------------------------------------------------------------------------------------


@compiled_into_caller
def _compare_stored(entries, data, start_offset, end, timestamp_ms, is_upper, index):  # type: ignore[no-untyped-def]
    """(_LATER if an entry was stored at or after a time, else _EARLIER; its time).

    If `is_upper`, only an entry after that time is later.
    (_UNKNOWN, 0) for an entry that is behind `entries` or whose record is not in this segment.
    """
    if index >= len(entries) // ENTRY_BYTES:
        return _UNKNOWN, np.int64(0)
    at = read_long(entries, index * ENTRY_BYTES) - start_offset
    if at < 0 or at > end - HEADER_BYTES:
        return _UNKNOWN, np.int64(0)
    stored = read_long(data, store_timestamp_at(data, at))
    is_later = stored > timestamp_ms or (stored == timestamp_ms and not is_upper)
    return _LATER if is_later else _EARLIER, stored


@compiled_into_caller
def _guessed(entries, data, start_offset, end, timestamp_ms, is_upper, low, high):  # type: ignore[no-untyped-def]
    """Narrow low and high around where the entry is if messages came at an even rate; (low, high).

    Each step of a bisection waits for memory twice. A good guess saves most of the steps, and a bad one adds
    a few: its distance from the answer is found in steps that grow.
    """
    is_later, first = _compare_stored(entries, data, start_offset, end, timestamp_ms, is_upper, low)
    if is_later != _EARLIER:
        return low, high
    is_later, last = _compare_stored(entries, data, start_offset, end, timestamp_ms, is_upper, high - 1)
    # Two large times may differ, and be the same number here.
    span = np.float64(last) - np.float64(first)
    if is_later != _LATER or span <= 0:
        return low, high
    share = (np.float64(timestamp_ms) - np.float64(first)) / span
    index = min(low + np.int64(share * np.float64(high - 1 - low)), high - 1)
    is_later, _ = _compare_stored(entries, data, start_offset, end, timestamp_ms, is_upper, index)
    direction = is_later
    step = np.int64(-_FIRST_STEP if is_later == _LATER else _FIRST_STEP)
    while is_later != _UNKNOWN:
        if is_later == _LATER:
            high = index
        else:
            low = index + 1
        index += step
        step *= 4
        if is_later != direction or not low <= index < high:
            break
        is_later, _ = _compare_stored(entries, data, start_offset, end, timestamp_ms, is_upper, index)
    return low, high


@compiled(BYTES, BYTES, INT64, INT64, INT64, BOOL, INT64, INT64)
def narrow_by_time(entries, data, start_offset, end, timestamp_ms, is_upper, low, high):  # type: ignore[no-untyped-def]
    """Narrow entries low to high (indexes in `entries`) by the store time of their records; (low, high).

    It searches the first entry stored at or after `timestamp_ms`; if `is_upper`, after it. It ends when low
    and high meet, or at a middle entry that is behind `entries` or whose record is not in this segment.
    Where times go back, it finds one of the places where they pass `timestamp_ms`.
    """
    entries, data = borrowed((entries, data))
    if high - low > _GUESSED_FROM:
        low, high = _guessed(entries, data, start_offset, end, timestamp_ms, is_upper, low, high)
    while low < high:
        middle = (low + high) // 2
        is_later, _ = _compare_stored(entries, data, start_offset, end, timestamp_ms, is_upper, middle)
        if is_later == _UNKNOWN:
            break
        if is_later == _LATER:
            high = middle
        else:
            low = middle + 1
    return low, high


# -- records of a queue -----------------------------------------------------------------------------------


@compiled_into_caller
def _fetch_ahead(entries, index, count, data, start_offset):  # type: ignore[no-untyped-def]
    """Start to fetch what a loop over records will read of the record of an entry."""
    if index < count:
        at = read_long(entries, index * ENTRY_BYTES) - start_offset
        prefetch(data, at)
        prefetch(data, at + _LINE_BYTES)
        # Topic and properties of most records.
        prefetch(data, at + read_int(entries, index * ENTRY_BYTES + SIZE_POSITION) - _LINE_BYTES)


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
    for index in range(_RECORDS_AHEAD):
        _fetch_ahead(entries, index, count, data, start_offset)
    for index in range(count):
        _fetch_ahead(entries, index + _RECORDS_AHEAD, count, data, start_offset)
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
