"""Compiled search for a key in a sorted run of hashes.

Nothing outside the given arrays is read, and nothing is written but what a kernel says it fills. Callers hold
no lock: the kernels release the GIL. Import this module inside the function that first needs it.
The plain twin is beside its call: sorted_run.py.
"""

import numpy as np

from mqstore.index.keys.key_index_format import COLUMN_BYTES, HASH, PHYSICAL_OFFSET, STORE_TIMESTAMP
from mqstore.index.keys.key_index_format import ENTRY_BYTES as ROW_BYTES
from mqstore.store.byte_kernels import borrowed, load_word, read_long
from mqstore.store.compiled import compiled
from mqstore.store.loops.kinds import BOOL, BYTES, INT64, LONGS_OUT

__all__ = ["run_offsets"]


@compiled
def _row_long(rows, index, column, is_big_endian):  # type: ignore[no-untyped-def]
    at = index * ROW_BYTES + column * COLUMN_BYTES
    if is_big_endian:
        return read_long(rows, at)
    return np.int64(load_word(rows, at))


@compiled
def _first_row(rows, count, code, is_big_endian):  # type: ignore[no-untyped-def]
    """The first of the rows, which ascend by hash, whose hash is not below `code`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if _row_long(rows, middle, HASH, is_big_endian) < code:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(BYTES, BOOL, INT64, INT64, INT64, INT64, INT64, LONGS_OUT)
def run_offsets(  # type: ignore[no-untyped-def]
    rows, is_big_endian, code, begin_ms, end_ms, least_offset, below_offset, offsets
):
    """Offsets of the records with hash `code` in the ranges of time (both included) and of offset; how many.

    rows: uint8, the rows of a key run (sorted_run.py), their longs big-endian or little. offsets: int64, to
    be filled. If not all with this hash fit into it: their number, negative.
    """
    rows, offsets = borrowed((rows, offsets))
    count = len(rows) // ROW_BYTES
    first = _first_row(rows, count, code, is_big_endian)
    stop = first
    while stop < count and _row_long(rows, stop, HASH, is_big_endian) == code:
        stop += 1
    if stop - first > len(offsets):
        return first - stop
    taken = 0
    for index in range(first, stop):
        store_timestamp = _row_long(rows, index, STORE_TIMESTAMP, is_big_endian)
        offset = _row_long(rows, index, PHYSICAL_OFFSET, is_big_endian)
        if begin_ms <= store_timestamp <= end_ms and least_offset <= offset < below_offset:
            offsets[taken] = offset
            taken += 1
    return taken
