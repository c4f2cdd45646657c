"""Compiled insertion of keys into RocketMQ's index files.

Arrays as each function says; nothing is written but those that the caller gives to be filled. Callers hold no
lock: the kernels release the GIL. Import this module inside the function that first needs it.
Source: IndexFile#putKey. The plain twin is tests/support/twins/plain_index_files.py.
"""

import numpy as np

from mqstore.index.index_file import index_file_format
from mqstore.index.queue.entry_kernels import write_big_endian
from mqstore.store.compiled import compiled
from mqstore.store.record.record_kernels import read_int

__all__ = ["index_slots", "insert_index_entries"]

_INDEX_ENTRY_BYTES = index_file_format.ENTRY_BYTES
_SLOT_BYTES = index_file_format.SLOT_BYTES
_MAX_INT = 0x7FFF_FFFF

_GROUP_SHIFT = index_file_format.GROUP_SHIFT


@compiled
def _seconds_since(begin_ms, store_timestamp):  # type: ignore[no-untyped-def]
    if begin_ms <= 0 or store_timestamp < begin_ms:
        return np.int64(0)
    return min((store_timestamp - begin_ms) // 1000, np.int64(_MAX_INT))


@compiled
def insert_index_entries(rows, header, slots, touched, entries):  # type: ignore[no-untyped-def]
    """Insert keys into an index file of RocketMQ, as IndexFile#putKey does one by one.

    rows: int64[n, 3], of java_key_entries; the caller has seen to it that so many entries fit the file.
    header: int64[6], the fields of index_file_format.IndexHeader, brought up to date. slots: uint8, the slots
    as they are on disk, changed. touched: uint8[number of slots >> GROUP_SHIFT, rounded up], 1 where slots
    were changed. entries: uint8[20 * n], filled with the entries to append.
    """
    slot_count = len(slots) // _SLOT_BYTES
    for row in range(len(rows)):
        code, store_timestamp, physical_offset = rows[row, 0], rows[row, 1], rows[row, 2]
        number = header[5]
        slot = code % slot_count
        slot_at = slot * _SLOT_BYTES
        previous = read_int(slots, slot_at)
        if previous <= 0 or previous >= number:
            previous = np.int64(0)
            header[4] += 1
        at = row * _INDEX_ENTRY_BYTES
        write_big_endian(entries, at, code, 4)
        write_big_endian(entries, at + 4, physical_offset, 8)
        # Of the first entry, too, from the begin time that the header has so far: that of the file before.
        write_big_endian(entries, at + 12, _seconds_since(header[0], store_timestamp), 4)
        write_big_endian(entries, at + 16, previous, 4)
        write_big_endian(slots, slot_at, number, _SLOT_BYTES)
        touched[slot >> _GROUP_SHIFT] = 1
        if number <= 1:
            header[0] = store_timestamp
            header[2] = physical_offset
        header[1] = store_timestamp
        header[3] = physical_offset
        header[5] = number + 1


@compiled
def index_slots(entries, index_count, slots):  # type: ignore[no-untyped-def]
    """Fill `slots`, all zero, as inserting entries 1 to index_count - 1 did; returns how many are in use.

    entries: uint8, from entry 0 on. Both arrays as on disk.
    """
    slot_count = len(slots) // _SLOT_BYTES
    used = 0
    for number in range(1, index_count):
        slot_at = read_int(entries, number * _INDEX_ENTRY_BYTES) % slot_count * _SLOT_BYTES
        if read_int(slots, slot_at) == 0:
            used += 1
        write_big_endian(slots, slot_at, number, _SLOT_BYTES)
    return used
