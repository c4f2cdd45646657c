"""Compiled search for a key in sorted runs of hashes.

Runs are read at their addresses: the caller keeps their memory (run_table.py). Otherwise nothing outside the
given arrays is read, and nothing is written but what a kernel says it fills. Callers hold no lock: the
kernels release the GIL. Import this module inside the function that first needs it. Plain twins:
SortedRun.offsets, key_index.key_hash.
"""

import numpy as np

from mqstore.index.keys.key_index_format import COLUMN_BYTES, HASH, PHYSICAL_OFFSET, STORE_TIMESTAMP
from mqstore.index.keys.key_index_format import ENTRY_BYTES as ROW_BYTES
from mqstore.index.keys.key_kernels import hash_of_text
from mqstore.index.keys.run_row import (
    ADDRESS,
    COUNT,
    GREATEST_TIMESTAMP,
    IS_BIG_ENDIAN,
    LEAST_TIMESTAMP,
    NEWEST_OFFSET,
    OLDEST_OFFSET,
)
from mqstore.store.byte_kernels import borrowed, long_at
from mqstore.store.compiled import compiled
from mqstore.store.loops.kinds import BYTES, INT64, LONG_ROWS, LONGS_OUT

__all__ = ["newest_offsets"]


@compiled
def _row_long(address, index, column, is_big_endian):  # type: ignore[no-untyped-def]
    return long_at(address + index * ROW_BYTES + column * COLUMN_BYTES, is_big_endian)


@compiled
def _first_row(address, count, code, is_big_endian):  # type: ignore[no-untyped-def]
    """The first of the rows, which ascend by hash, whose hash is not below `code`."""
    low, high = np.int64(0), count
    while low < high:
        middle = (low + high) // 2
        if _row_long(address, middle, HASH, is_big_endian) < code:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(LONG_ROWS, BYTES, INT64, INT64, INT64, INT64, INT64, LONGS_OUT)
def newest_offsets(  # type: ignore[no-untyped-def]
    table, text, begin_ms, end_ms, least_offset, below_offset, limit, offsets
):
    """Offsets of records with the hash of `text`, from the first run on until there are `limit`; how many.

    table: int64, of a RunTable, the newest run first. text: uint8, `topic#key`. Ranges: times both included,
    offsets from the least to the one below. offsets: int64, to be filled, those of a run ascending. If one
    run's do not fit: minus the room that they need with those before.
    """
    table, text, offsets = borrowed((table, text, offsets))
    code = hash_of_text(text)
    taken = np.int64(0)
    for run in range(len(table)):
        if taken >= limit or table[run, NEWEST_OFFSET] < least_offset:
            break
        if (
            table[run, OLDEST_OFFSET] >= below_offset
            or table[run, LEAST_TIMESTAMP] > end_ms
            or table[run, GREATEST_TIMESTAMP] < begin_ms
        ):
            continue
        address, count, is_big_endian = table[run, ADDRESS], table[run, COUNT], table[run, IS_BIG_ENDIAN] != 0
        first = _first_row(address, count, code, is_big_endian)
        stop = first
        while stop < count and _row_long(address, stop, HASH, is_big_endian) == code:
            stop += 1
        if taken + stop - first > len(offsets):
            return -(taken + stop - first)
        for index in range(first, stop):
            store_timestamp = _row_long(address, index, STORE_TIMESTAMP, is_big_endian)
            offset = _row_long(address, index, PHYSICAL_OFFSET, is_big_endian)
            if begin_ms <= store_timestamp <= end_ms and least_offset <= offset < below_offset:
                offsets[taken] = offset
                taken += 1
    return taken
