"""Compiled insertion of keys into RocketMQ's index files.

Arrays as each function says; nothing is written but those that the caller gives to be filled. Callers hold no
lock: the kernels release the GIL. Import this module inside the function that first needs it.
Source: IndexFile#putKey. The plain twin is tests/support/twins/plain_index_files.py.
"""

import numpy as np

from mqstore.index.index_file.index_file_format import (
    ENTRY_BYTES,
    GROUP_SHIFT,
    NO_ENTRY,
    PHYSICAL_OFFSET_POSITION,
    PREVIOUS_ENTRY_POSITION,
    SLOT_BYTES,
    TIME_DIFFERENCE_POSITION,
    IndexHeader,
)
from mqstore.index.keys.key_index_format import HASH, PHYSICAL_OFFSET, STORE_TIMESTAMP
from mqstore.store.byte_kernels import read_int, write_int, write_long
from mqstore.store.compiled import compiled
from mqstore.store.loops.kinds import BYTES, BYTES_OUT, INT64, LONG_ROWS, LONGS_OUT

__all__ = ["index_slots", "insert_index_entries"]

_MAX_INT = 0x7FFF_FFFF
# Columns of `header`.
_BEGIN_TIMESTAMP, _END_TIMESTAMP, _BEGIN_OFFSET, _END_OFFSET, _SLOTS_USED, _INDEX_COUNT = range(
    len(IndexHeader._fields)
)


@compiled
def _seconds_since(begin_ms, store_timestamp):  # type: ignore[no-untyped-def]
    if begin_ms <= 0 or store_timestamp < begin_ms:
        return np.int64(0)
    return min((store_timestamp - begin_ms) // 1000, np.int64(_MAX_INT))


@compiled(LONG_ROWS, LONGS_OUT, BYTES_OUT, BYTES_OUT, BYTES_OUT)
def insert_index_entries(rows, header, slots, touched, entries):  # type: ignore[no-untyped-def]
    """Insert keys into an index file of RocketMQ, as IndexFile#putKey does one by one.

    rows: int64[n, 3], of java_key_entries; the caller makes sure that they fit the file.
    header: int64[6], the fields of index_file_format.IndexHeader, brought up to date. slots: uint8, the slots
    as they are on disk, changed. touched: uint8[number of slots >> GROUP_SHIFT, rounded up], 1 where slots
    were changed. entries: uint8[20 * n], filled with the entries to append.
    """
    slot_count = len(slots) // SLOT_BYTES
    for row in range(len(rows)):
        code, store_timestamp, physical_offset = (
            rows[row, HASH],
            rows[row, STORE_TIMESTAMP],
            rows[row, PHYSICAL_OFFSET],
        )
        number = header[_INDEX_COUNT]
        slot = code % slot_count
        slot_at = slot * SLOT_BYTES
        previous = read_int(slots, slot_at)
        if previous <= 0 or previous >= number:
            previous = np.int64(NO_ENTRY)
            header[_SLOTS_USED] += 1
        at = row * ENTRY_BYTES
        write_int(entries, at, code)
        write_long(entries, at + PHYSICAL_OFFSET_POSITION, physical_offset)
        # For the first entry, too: then the header's begin time is still that of the file before.
        seconds = _seconds_since(header[_BEGIN_TIMESTAMP], store_timestamp)
        write_int(entries, at + TIME_DIFFERENCE_POSITION, seconds)
        write_int(entries, at + PREVIOUS_ENTRY_POSITION, previous)
        write_int(slots, slot_at, number)
        touched[slot >> GROUP_SHIFT] = 1
        if number <= 1:
            header[_BEGIN_TIMESTAMP] = store_timestamp
            header[_BEGIN_OFFSET] = physical_offset
        header[_END_TIMESTAMP] = store_timestamp
        header[_END_OFFSET] = physical_offset
        header[_INDEX_COUNT] = number + 1


@compiled(BYTES, INT64, BYTES_OUT)
def index_slots(entries, index_count, slots):  # type: ignore[no-untyped-def]
    """Fill `slots`, all zero, as inserting entries 1 to index_count - 1 did; returns how many are in use.

    entries: uint8, from entry 0 on. Both arrays as on disk.
    """
    slot_count = len(slots) // SLOT_BYTES
    used = 0
    for number in range(1, index_count):
        slot_at = read_int(entries, number * ENTRY_BYTES) % slot_count * SLOT_BYTES
        if read_int(slots, slot_at) == 0:
            used += 1
        write_int(slots, slot_at, number)
    return used
