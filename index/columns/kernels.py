"""Compiled loops that turn the bytes of a segment into columns: for Arrow, and through it for Spark.

`buffer` is a uint8 array that holds a piece of one segment; its first byte is at a record boundary.
`layout` is an int32 array of shape (LAYOUT_FIELDS, n): column i says where the parts of record i are in
`buffer`. `walk` and `lay_out` fill it and check every length in it, so the other kernels trust it and check
nothing.
All numbers in `buffer` are big-endian. The caller makes the output arrays large enough: their sizes are
said at each kernel. The plain-Python twin is tests/support/plain_records.py.

Imported only when a segment is read (compiling takes about a second, once per machine).
"""

from typing import Any, Final

import numba
import numpy as np
import numpy.typing as npt

from mqstore.store.kernels import read_int, read_long, record_layout
from mqstore.store.properties_format import CRC32
from mqstore.store.record_format import (
    BLANK_MAGIC_CODE,
    FIXED_BYTES,
    IPV6_EXTRA_BYTES,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    PHYSICAL_OFFSET_POSITION,
    STORE_TIMESTAMP_POSITION,
)
from mqstore.store.sys_flag import BORN_HOST_V6

__all__ = [
    "BODY_LENGTH",
    "BODY_START",
    "ENDING_BLANK",
    "ENDING_MORE",
    "ENDING_NOT_A_RECORD",
    "INLINE_BYTES",
    "LAYOUT_FIELDS",
    "MIN_RECORD_BYTES",
    "POSITION",
    "PROPERTIES_LENGTH",
    "PROPERTIES_START",
    "SIZE",
    "STORE_TIMESTAMP_START",
    "TOPIC_LENGTH",
    "TOPIC_START",
    "count_pairs",
    "find_properties",
    "find_record",
    "lay_out",
    "lend_bytes",
    "split_pairs",
    "take_bytes",
    "take_int32",
    "take_int64",
    "walk",
]

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Int = int | np.integer[Any]  # what numba makes of an int: it computes in the machine's own integers

# Rows of `layout`.
POSITION: Final = 0
SIZE: Final = 1
STORE_TIMESTAMP_START: Final = 2
BODY_START: Final = 3
BODY_LENGTH: Final = 4
TOPIC_START: Final = 5
TOPIC_LENGTH: Final = 6
PROPERTIES_START: Final = 7
PROPERTIES_LENGTH: Final = 8
LAYOUT_FIELDS: Final = 9

# Why `walk` stopped.
ENDING_MORE: Final = 0  # the rest of the buffer is the beginning of a record, or nothing
ENDING_BLANK: Final = 1  # a BLANK record: the segment ends here
ENDING_NOT_A_RECORD: Final = 2  # zeros (never written), a torn record, or damage

MIN_RECORD_BYTES: Final = FIXED_BYTES
_OFFSET_STOP: Final = PHYSICAL_OFFSET_POSITION + 8
INLINE_BYTES: Final = 12  # Arrow keeps values up to this length in the view
_NAME_END: Final = 1  # properties: name 0x01 value 0x02
_PAIR_END: Final = 2
_RECORD_CRC: Final = np.frombuffer(CRC32.encode(), np.uint8)


@numba.njit(nogil=True, cache=True)
def _lay_out(buffer: Bytes, at: Int, size: Int, layout: Int32s, n: Int) -> bool:
    """Fill column n of `layout`; False when no record of this size is at `at`."""
    found = record_layout(buffer, at, at + size)
    total_size, body_at, body_length, topic_at, topic_length, properties_at, properties_length = found
    if total_size != size:
        return False
    has_born_v6 = read_int(buffer, at + 36) & BORN_HOST_V6
    layout[POSITION, n] = at
    layout[SIZE, n] = size
    layout[STORE_TIMESTAMP_START, n] = (
        at + STORE_TIMESTAMP_POSITION + (IPV6_EXTRA_BYTES if has_born_v6 else 0)
    )
    layout[BODY_START, n] = body_at
    layout[BODY_LENGTH, n] = body_length
    layout[TOPIC_START, n] = topic_at
    layout[TOPIC_LENGTH, n] = topic_length
    layout[PROPERTIES_START, n] = properties_at
    layout[PROPERTIES_LENGTH, n] = properties_length
    return True


@numba.njit(nogil=True, cache=True)
def walk(buffer: Bytes, length: int, physical_offset: int, room: int, layout: Int32s) -> tuple[int, int]:
    """Lay out the whole records in the first `length` bytes: (number of records, ending).

    `physical_offset` is that of the buffer's first byte, `room` the bytes from there to the segment's
    end. `layout` needs length // MIN_RECORD_BYTES columns.
    """
    at = np.int64(0)
    n = 0
    while length - at >= 8:
        magic = read_int(buffer, at + 4)
        if magic == BLANK_MAGIC_CODE:
            return n, ENDING_BLANK
        size = np.int64(read_int(buffer, at))
        if magic not in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2):
            return n, ENDING_NOT_A_RECORD
        if size < MIN_RECORD_BYTES or size > room - at:
            return n, ENDING_NOT_A_RECORD
        if length - at >= _OFFSET_STOP and read_long(buffer, at + 28) != physical_offset + at:
            return n, ENDING_NOT_A_RECORD
        if size > length - at:
            return n, ENDING_MORE
        if not _lay_out(buffer, at, size, layout, n):
            return n, ENDING_NOT_A_RECORD
        n += 1
        at += size
    return n, ENDING_MORE


@numba.njit(nogil=True, cache=True)
def lay_out(
    buffer: Bytes, end: int, start_offset: int, physical_offsets: Int64s, sizes: Int32s, layout: Int32s
) -> int:
    """Lay out the records that queue entries point at; how many, up to the first that is not there.

    `buffer` is a whole segment, `start_offset` the physical offset of its first byte, `end` how much of it
    may be read. `layout` needs as many columns as there are `physical_offsets`, and `sizes`.
    """
    for n in range(physical_offsets.size):
        at = physical_offsets[n] - start_offset
        size = np.int64(sizes[n])
        # Any number may stand in an entry, and a sum may wrap round.
        if at < 0 or size < MIN_RECORD_BYTES or size > end - at:
            return n
        if read_long(buffer, at + PHYSICAL_OFFSET_POSITION) != physical_offsets[n]:
            return n
        if not _lay_out(buffer, at, size, layout, n):
            return n
    return physical_offsets.size


@numba.njit(nogil=True, cache=True)
def lend_bytes(buffer: Bytes, starts: Int32s, lengths: Int32s, buffer_index: Int, views: Int32s) -> None:
    """Fill Arrow's views of binary data that stays in `buffer`: 4 ints a value, 4 * starts.size in all.

    Up to 12 bytes lie in the view itself; longer ones as length, first 4 bytes, buffer index, position.
    """
    inline = views.view(np.uint8)
    for n in range(starts.size):
        start = np.int64(starts[n])
        length = np.int64(lengths[n])
        views[4 * n] = length
        if length <= INLINE_BYTES:
            views[4 * n + 1] = views[4 * n + 2] = views[4 * n + 3] = 0
            for at in range(length):
                inline[16 * n + 4 + at] = buffer[start + at]
        else:
            for at in range(4):
                inline[16 * n + 4 + at] = buffer[start + at]
            views[4 * n + 2] = buffer_index
            views[4 * n + 3] = start


@numba.njit(nogil=True, cache=True)
def find_record(buffer: Bytes, length: int, physical_offset: int, room: int) -> int:
    """Position of the first record header in `buffer` that carries its own physical offset, or -1."""
    for at in range(length - _OFFSET_STOP + 1):
        if buffer[at + 4] != 0xDA or buffer[at + 5] != 0xA3:
            continue
        magic = read_int(buffer, at + 4)
        if magic not in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2):
            continue
        size = read_int(buffer, at)
        if MIN_RECORD_BYTES <= size <= room - at and read_long(buffer, at + 28) == physical_offset + at:
            return at
    return -1


@numba.njit(nogil=True, cache=True)
def take_int32(buffer: Bytes, starts: Int32s, values: Int32s) -> None:
    """Read the int at each start. `values` is as long as `starts`."""
    for n in range(starts.size):
        values[n] = read_int(buffer, starts[n])


@numba.njit(nogil=True, cache=True)
def take_int64(buffer: Bytes, starts: Int32s, values: Int64s) -> None:
    """Read the long at each start. `values` is as long as `starts`."""
    for n in range(starts.size):
        values[n] = read_long(buffer, starts[n])


@numba.njit(nogil=True, cache=True)
def take_bytes(buffer: Bytes, starts: Int32s, lengths: Int32s, offsets: Int32s, data: Bytes) -> None:
    """Copy the pieces one after another into `data`; `offsets` (one longer) says where each begins.

    `data` needs the sum of `lengths`. A negative length counts as 0.
    """
    end = np.int64(0)
    offsets[0] = 0
    for n in range(starts.size):
        start = np.int64(starts[n])
        length = np.int64(max(lengths[n], 0))
        source = buffer[start : start + length]
        target = data[end : end + length]
        for at in range(length):  # ten times as fast as target[:] = source
            target[at] = source[at]
        end += length
        offsets[n + 1] = end


@numba.njit(nogil=True, cache=True)
def count_pairs(buffer: Bytes, starts: Int32s, lengths: Int32s) -> int:
    """How many pairs the properties strings can hold at most: one more than separators, in each."""
    count = starts.size
    for n in range(starts.size):
        start = np.int64(starts[n])
        for byte in buffer[start : start + lengths[n]]:
            count += byte == _PAIR_END
    return count


@numba.njit(nogil=True, cache=True)
def split_pairs(buffer: Bytes, starts: Int32s, lengths: Int32s, first_pairs: Int32s, pairs: Int32s) -> Int:
    """Split each properties string into its pairs; of equal names the last counts. Returns their number.

    Pairs of record n are columns first_pairs[n] to first_pairs[n + 1] of `pairs`, whose rows are name
    start, name length, value start, value length. `first_pairs` is one longer than `starts`; `pairs`
    has `count_pairs` columns. A chunk without a name, a 0x01 and a value is no pair and left out, and so is
    the record's own CRC.
    """
    count: Int = 0
    first_pairs[0] = 0
    for n in range(starts.size):
        start = np.int64(starts[n])
        text = buffer[start : start + lengths[n]]
        chunk_start = 0
        separator = -1
        for at in range(text.size + 1):
            byte = text[at] if at < text.size else _PAIR_END
            if byte == _NAME_END and separator < 0:
                separator = at
            elif byte == _PAIR_END:
                if chunk_start < separator < at - 1 and not _is_record_crc(text[chunk_start:separator]):
                    first = start + chunk_start
                    count = _put_pair(
                        buffer, pairs, first_pairs[n], count, first, start + separator, start + at
                    )
                chunk_start = at + 1
                separator = -1
        first_pairs[n + 1] = count
    return count


@numba.njit(nogil=True, cache=True)
def _is_record_crc(name: Bytes) -> bool:
    if name.size != _RECORD_CRC.size:
        return False
    for at in range(name.size):
        if name[at] != _RECORD_CRC[at]:
            return False
    return True


@numba.njit(nogil=True, cache=True)
def _put_pair(
    buffer: Bytes, pairs: Int32s, first: Int, count: Int, start: Int, separator: Int, end: Int
) -> Int:
    """Put a pair of the record whose pairs begin at `first`, over one of the same name; the new count."""
    name = buffer[start:separator]
    slot = first
    while slot < count and not _has_name(buffer, pairs, slot, name):
        slot += 1
    pairs[0, slot] = start
    pairs[1, slot] = name.size
    pairs[2, slot] = separator + 1
    pairs[3, slot] = end - separator - 1
    return max(count, slot + 1)


@numba.njit(nogil=True, cache=True)
def _has_name(buffer: Bytes, pairs: Int32s, slot: Int, name: Bytes) -> bool:
    if pairs[1, slot] != name.size:
        return False
    start = np.int64(pairs[0, slot])
    other = buffer[start : start + name.size]
    for at in range(name.size):
        if other[at] != name[at]:
            return False
    return True


@numba.njit(nogil=True, cache=True)
def find_properties(
    buffer: Bytes,
    starts: Int32s,
    lengths: Int32s,
    names: Bytes,
    name_offsets: Int64s,
    value_starts: Int32s,
    value_lengths: Int32s,
) -> None:
    """Find the values of some properties in each properties string, in one walk; length -1 for none.

    By the rules of `split_pairs`, but without splitting. Name k is the bytes of `names` from name_offsets[k]
    to name_offsets[k + 1]; outputs have a row for each name, as long as `starts`.
    """
    one = np.uint64(1)  # unsigned positions need no look at their sign
    for n in range(starts.size):
        for k in range(name_offsets.size - 1):
            value_starts[k, n] = 0
            value_lengths[k, n] = -1
        at = np.uint64(starts[n])
        stop = at + np.uint64(lengths[n])
        while at < stop:
            end = at
            while end < stop and buffer[end] > _PAIR_END:
                end += one
            value_at = end + one
            if end < stop and buffer[end] == _NAME_END:
                end = value_at
                while end < stop and buffer[end] != _PAIR_END:
                    end += one
                k = _number_of(buffer, at, value_at - one, names, name_offsets) if end > value_at else -1
                if k >= 0:
                    value_starts[k, n] = value_at
                    value_lengths[k, n] = end - value_at
            at = end + one


@numba.njit(nogil=True, cache=True)
def _number_of(buffer: Bytes, start: Int, stop: Int, names: Bytes, name_offsets: Int64s) -> int:
    """Which of the names buffer[start:stop] is, or -1."""
    for k in range(name_offsets.size - 1):
        first = name_offsets[k]
        size = name_offsets[k + 1] - first
        if size != np.int64(stop - start):
            continue
        matched = 0
        while matched < size and buffer[start + np.uint64(matched)] == names[first + matched]:
            matched += 1
        if matched == size:
            return k
    return -1
