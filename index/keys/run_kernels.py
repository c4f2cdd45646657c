"""Compiled loops over sorted runs of hashes: the search for a key, and merging.

Runs are read at their addresses: the caller keeps their memory (run_table.py). Otherwise nothing outside the
given arrays is read, and nothing is written but what a kernel says it fills. The kernels release the GIL.
Import this module inside the function that first needs it. Plain twins: SortedRun.offsets, SortedRun.of_rows
of all rows, key_index.key_hash.
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
from mqstore.store.byte_kernels import borrowed, long_at, write_long
from mqstore.store.compiled import compiled
from mqstore.store.loops.kinds import BYTES, BYTES_OUT, INT64, LONG_ROWS, LONGS_OUT

__all__ = ["merge", "newest_offsets"]


@compiled
def _row_long(address, index, column, is_big_endian):  # type: ignore[no-untyped-def]
    return long_at(address + index * ROW_BYTES + column * COLUMN_BYTES, is_big_endian)


@compiled
def _first_row(address, low, high, column, value, is_big_endian):  # type: ignore[no-untyped-def]
    """The first of the rows low to high, which ascend by a column, that is not below `value` there."""
    while low < high:
        middle = (low + high) // 2
        if _row_long(address, middle, column, is_big_endian) < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _end_of_hash(address, first, count, code, is_big_endian):  # type: ignore[no-untyped-def]
    """Where the rows with this hash end, of which `first` is the first, if there are any.

    In steps that grow, for nearly all keys have few rows; then by bisection.
    """
    low, high, step = first, first, np.int64(1)
    while high < count and _row_long(address, high, HASH, is_big_endian) == code:
        low = high + 1
        high += step
        step *= 2
    high = min(high, count)
    while low < high:
        middle = (low + high) // 2
        if _row_long(address, middle, HASH, is_big_endian) == code:
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
    offsets from the least to the one below. offsets: int64, to be filled, the newest of a run first. If one
    run's might not fit: minus the room that they may need with those before.
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
        first = _first_row(address, np.int64(0), count, HASH, code, is_big_endian)
        stop = _end_of_hash(address, first, count, code, is_big_endian)
        stop = _first_row(address, first, stop, PHYSICAL_OFFSET, below_offset, is_big_endian)
        room = taken + min(limit - taken, stop - first)
        if room > len(offsets):
            return -room
        while stop > first and taken < limit:
            stop -= 1
            store_timestamp = _row_long(address, stop, STORE_TIMESTAMP, is_big_endian)
            offset = _row_long(address, stop, PHYSICAL_OFFSET, is_big_endian)
            if offset < least_offset:
                break
            if begin_ms <= store_timestamp <= end_ms:
                offsets[taken] = offset
                taken += 1
    return taken


@compiled(LONG_ROWS, LONGS_OUT, LONGS_OUT, BYTES_OUT)
def merge(table, heads, hashes, entries):  # type: ignore[no-untyped-def]
    """Fill `entries` with the rows of all runs, ascending by hash, then by run; their number.

    table: int64, of a RunTable, the oldest run first. heads, hashes: int64, one of each run, for the loop's
    own use. entries: uint8, with room for all rows, as LMDB has them.
    """
    table, heads, hashes, entries = borrowed((table, heads, hashes, entries))
    for run in range(len(table)):
        heads[run] = 0
        if table[run, COUNT] > 0:
            hashes[run] = _row_long(table[run, ADDRESS], np.int64(0), HASH, table[run, IS_BIG_ENDIAN] != 0)
    taken = np.int64(0)
    while True:
        first = np.int64(-1)
        for run in range(len(table)):
            if heads[run] < table[run, COUNT] and (first < 0 or hashes[run] < hashes[first]):
                first = np.int64(run)
        if first < 0:
            return taken
        address, head, is_big_endian = table[first, ADDRESS], heads[first], table[first, IS_BIG_ENDIAN] != 0
        for column in (HASH, STORE_TIMESTAMP, PHYSICAL_OFFSET):
            at = taken * ROW_BYTES + column * COLUMN_BYTES
            write_long(entries, at, _row_long(address, head, column, is_big_endian))
        taken += 1
        heads[first] = head + 1
        if head + 1 < table[first, COUNT]:
            hashes[first] = _row_long(address, head + 1, HASH, is_big_endian)
