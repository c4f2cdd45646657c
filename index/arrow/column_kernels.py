"""Compiled loops that turn the bytes of a segment into columns: for Arrow, and through it for Spark.

`buffer` is a uint8 array that holds a piece of one segment; its first byte is at a record boundary.
`layout` is an int32 array of shape (LAYOUT_FIELDS, n): column i says where the parts of record i are in
`buffer`, and its sys flag. `walk` and `lay_out` fill it and check every length in it, so the other kernels
trust it and check nothing.
All numbers in `buffer` are big-endian. The caller makes the output arrays large enough: each kernel states
their sizes. The plain-Python twin is tests/support/twins/plain_records.py.

Imported only when a segment is read (compiling takes about a second, once per machine).
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mqstore.store.byte_kernels import (
    WORD_BYTES,
    borrowed,
    copy_bytes,
    hash_bytes,
    load_word,
    prefetch,
    read_int,
    read_long,
    same_bytes,
    trailing_zeros,
)
from mqstore.store.compiled import compiled, compiled_into_caller
from mqstore.store.loops.kinds import (
    BOOL,
    BYTES,
    BYTES_OUT,
    INT64,
    INT_ROWS_OUT,
    INTS,
    INTS_OUT,
    LONGS,
    LONGS_OUT,
    STRIDED_INT_ROWS,
)
from mqstore.store.record.properties_format import CRC32
from mqstore.store.record.record_format import (
    BLANK_MAGIC_CODE,
    BLANK_MIN_BYTES,
    CRC_PROPERTY_BYTES,
    FIXED_BYTES,
    MAGIC_CODE_POSITION,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    PHYSICAL_OFFSET_POSITION,
    SYS_FLAG_POSITION,
)
from mqstore.store.record.record_kernels import (
    begins_magic,
    behind_zeros,
    is_undamaged,
    record_layout,
)

__all__ = [
    "BODY_LENGTH",
    "BODY_START",
    "ENDING_BLANK",
    "ENDING_MORE",
    "ENDING_NOT_A_RECORD",
    "INLINE_BYTES",
    "LAYOUT_FIELDS",
    "MIN_RECORD_BYTES",
    "PIECE_ROOM",
    "POSITION",
    "PROPERTIES_LENGTH",
    "PROPERTIES_START",
    "SIZE",
    "SYS_FLAG",
    "TOPIC_LENGTH",
    "TOPIC_START",
    "are_texts",
    "count_pairs",
    "find_header",
    "find_values",
    "lay_out",
    "lay_out_gathered",
    "lend_bytes",
    "number_distinct",
    "split_pairs",
    "take_bytes",
    "take_int32",
    "take_int64",
    "total_length",
    "walk",
]

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Int = int | np.integer[Any]  # what numba makes of an int: it computes in the machine's own integers

# Rows of `layout`.
POSITION: Final = 0
SIZE: Final = 1
SYS_FLAG: Final = 2
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
PIECE_ROOM: Final = 16
"""Bytes that `take_bytes` needs behind the pieces: short pieces are copied with this length."""
_NAME_END: Final = 1  # properties: name 0x01 value 0x02
_PAIR_END: Final = 2
# The least first byte of a UTF-8 character of more than one, two, three bytes.
_LEADS: Final = (0xC0, 0xE0, 0xF0)
_RECORD_CRC: Final = np.uint64(int.from_bytes(CRC32.encode(), "little"))
assert len(CRC32) == WORD_BYTES
# Records are prefetched (first and last cache lines) this far ahead: enough to hide the memory's latency.
_AHEAD: Final = 8
_LINE_BYTES: Final = 64
_EACH_BYTE: Final = np.uint64(0x0101_0101_0101_0101)
_HIGH_BITS: Final = np.uint64(0x8080_8080_8080_8080)


@compiled_into_caller
def _lay_out(
    buffer: Bytes, at: Int, size: Int, base_offset: Int, check_crc: bool, layout: Int32s, n: Int
) -> bool:
    """Fill column n of `layout`; False if no record of this size is at `at`, or a damaged one.

    base_offset: the physical offset of the buffer's first byte. check_crc: a record with a wrong CRC, or a
    torn one, is damaged; the rule is that of recovery (record_kernels.py).
    """
    found = record_layout(buffer, at, at + size)
    total_size, body_at, body_length, topic_at, topic_length, properties_at, properties_length = found
    if total_size != size or (check_crc and not is_undamaged(buffer, at, base_offset, found)):
        return False
    layout[POSITION, n] = at
    layout[SIZE, n] = size
    layout[SYS_FLAG, n] = read_int(buffer, at + SYS_FLAG_POSITION)
    layout[BODY_START, n] = body_at
    layout[BODY_LENGTH, n] = body_length
    layout[TOPIC_START, n] = topic_at
    layout[TOPIC_LENGTH, n] = topic_length
    layout[PROPERTIES_START, n] = properties_at
    layout[PROPERTIES_LENGTH, n] = properties_length
    return True


@compiled_into_caller
def _claimed_size(buffer: Bytes, at: Int, length: Int, physical_offset: Int, room: Int) -> Int:
    """Size of the record with its header at `at`, which may end behind the buffer; -1 if there is none."""
    if read_int(buffer, at + MAGIC_CODE_POSITION) not in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2):
        return np.int64(-1)
    size = np.int64(read_int(buffer, at))
    if size < MIN_RECORD_BYTES or size > room - at:
        return np.int64(-1)
    has_offset = length - at >= _OFFSET_STOP
    if has_offset and read_long(buffer, at + PHYSICAL_OFFSET_POSITION) != physical_offset + at:
        return np.int64(-1)
    return size


@compiled(BYTES, INT64, INT64, INT64, BOOL, INT_ROWS_OUT)
def walk(
    buffer: Bytes, length: int, physical_offset: int, room: int, check_crc: bool, layout: Int32s
) -> tuple[int, int]:
    """Lay out the whole records in the first `length` bytes: (number of records, ending).

    `physical_offset` is that of the buffer's first byte, `room` the bytes from there to the segment's
    end. `layout` needs length // MIN_RECORD_BYTES columns. check_crc: a record with a wrong CRC, or a torn
    one, is not a record.
    """
    buffer, layout = borrowed((buffer, layout))
    at = np.int64(0)
    n = 0
    while length - at >= BLANK_MIN_BYTES:
        if read_int(buffer, at + MAGIC_CODE_POSITION) == BLANK_MAGIC_CODE:
            return n, ENDING_BLANK
        size = _claimed_size(buffer, at, length, physical_offset, room)
        if size < 0:
            return n, ENDING_NOT_A_RECORD
        if size > length - at:
            return n, ENDING_MORE
        if not _lay_out(buffer, at, size, physical_offset, check_crc, layout, n):
            return n, ENDING_NOT_A_RECORD
        n += 1
        at += size
    return n, ENDING_MORE


@compiled_into_caller
def _prefetch_record(buffer: Bytes, start: Int, stop: Int) -> None:
    """Prefetch the cache lines of a record's header, and of the end of its properties."""
    prefetch(buffer, start)
    prefetch(buffer, start + _LINE_BYTES)
    prefetch(buffer, stop - _LINE_BYTES)
    prefetch(buffer, stop - 1)


@compiled(BYTES, INT64, INT64, LONGS, INTS, INT_ROWS_OUT)
def lay_out(
    buffer: Bytes, end: int, start_offset: int, physical_offsets: Int64s, sizes: Int32s, layout: Int32s
) -> int:
    """Lay out the records that queue entries point at, up to the first missing one; returns how many.

    `buffer` is a whole segment, `start_offset` the physical offset of its first byte, `end` how much of it
    may be read. `layout` needs as many columns as there are `physical_offsets`, and `sizes`.
    """
    buffer, physical_offsets, sizes, layout = borrowed((buffer, physical_offsets, sizes, layout))
    count = physical_offsets.size
    for n in range(count):
        if n + _AHEAD < count:
            ahead = physical_offsets[n + _AHEAD] - start_offset
            _prefetch_record(buffer, ahead, ahead + sizes[n + _AHEAD])
        at = physical_offsets[n] - start_offset
        size = np.int64(sizes[n])
        # An entry may contain any number, and a sum may overflow.
        if at < 0 or size < MIN_RECORD_BYTES or size > end - at:
            return n
        if read_long(buffer, at + PHYSICAL_OFFSET_POSITION) != physical_offsets[n]:
            return n
        if not _lay_out(buffer, at, size, start_offset, False, layout, n):
            return n
    return count


@compiled(BYTES, LONGS, LONGS, INTS, BOOL, INT_ROWS_OUT)
def lay_out_gathered(
    buffer: Bytes, places: Int64s, physical_offsets: Int64s, sizes: Int32s, check_crc: bool, layout: Int32s
) -> int:
    """As `lay_out`, for records that lie at `places` of the buffer; -1 for one that is not there.

    check_crc: a record with a wrong CRC, or a torn one, counts as missing.
    """
    buffer, places, physical_offsets = borrowed((buffer, places, physical_offsets))
    sizes, layout = borrowed((sizes, layout))
    for n in range(physical_offsets.size):
        at = places[n]
        size = np.int64(sizes[n])
        if at < 0 or size < MIN_RECORD_BYTES or size > buffer.size - at:
            return n
        if read_long(buffer, at + PHYSICAL_OFFSET_POSITION) != physical_offsets[n]:
            return n
        if not _lay_out(buffer, at, size, physical_offsets[n] - at, check_crc, layout, n):
            return n
    return physical_offsets.size


@compiled(BYTES, INTS, INTS, INT64, INTS_OUT)
def lend_bytes(buffer: Bytes, starts: Int32s, lengths: Int32s, buffer_index: Int, views: Int32s) -> None:
    """Fill Arrow's views of binary data that stays in `buffer`: 4 ints a value, 4 * starts.size in all.

    A view contains values of up to 12 bytes; for longer ones length, first 4 bytes, buffer index, position.
    """
    buffer, starts, lengths, views = borrowed((buffer, starts, lengths, views))
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


@compiled(BYTES, INT64, INT64, INT64)
def find_header(buffer: Bytes, length: int, physical_offset: int, room: int) -> Int:
    """Position of the first record header in `buffer` that carries its own physical offset, or -1.

    The record may end behind the buffer, so no CRC is checked: record_kernels.find_record does that for
    complete records.
    """
    (buffer,) = borrowed((buffer,))
    at: Int = behind_zeros(buffer, np.int64(0), length)
    while at <= length - _OFFSET_STOP:
        if begins_magic(buffer, at) and _claimed_size(buffer, at, length, physical_offset, room) >= 0:
            return at
        at = behind_zeros(buffer, at + 1, length)
    return np.int64(-1)


@compiled(BYTES, INTS, INT64, INTS_OUT)
def take_int32(buffer: Bytes, starts: Int32s, distance: int, values: Int32s) -> None:
    """Read the int at that distance from each start. `values` is as long as `starts`."""
    buffer, starts, values = borrowed((buffer, starts, values))
    for n in range(starts.size):
        values[n] = read_int(buffer, starts[n] + distance)


@compiled(BYTES, INTS, INT64, LONGS_OUT)
def take_int64(buffer: Bytes, starts: Int32s, distance: int, values: Int64s) -> None:
    """Read the long at that distance from each start. `values` is as long as `starts`."""
    buffer, starts, values = borrowed((buffer, starts, values))
    for n in range(starts.size):
        values[n] = read_long(buffer, starts[n] + distance)


@compiled(INTS)
def total_length(lengths: Int32s) -> tuple[Int, bool]:
    """(the sum of the lengths, of which a negative one counts as 0; whether one is negative)."""
    total, least = np.int64(0), np.int32(0)
    for n in range(lengths.size):
        total += max(lengths[n], np.int32(0))
        least = min(least, lengths[n])
    return total, bool(least < 0)


@compiled(BYTES, INTS, INTS, INTS_OUT, BYTES_OUT)
def take_bytes(buffer: Bytes, starts: Int32s, lengths: Int32s, offsets: Int32s, data: Bytes) -> None:
    """Copy the pieces one after another into `data`; `offsets` (one longer) gets where each begins.

    `data` needs `total_length` of the lengths, and PIECE_ROOM more. A negative length counts as 0.
    """
    buffer, starts, lengths, offsets, data = borrowed((buffer, starts, lengths, offsets, data))
    end = np.int64(0)
    offsets[0] = 0
    last = buffer.size - PIECE_ROOM
    for n in range(starts.size):
        start = np.int64(starts[n])
        length = np.int64(max(lengths[n], 0))
        if length <= PIECE_ROOM and start <= last:
            # The next piece overwrites the excess bytes.
            copy_bytes(data, end, buffer, start, PIECE_ROOM)
        else:
            copy_bytes(data, end, buffer, start, length)
        end += length
        offsets[n + 1] = end


@compiled_into_caller
def _is_no_utf8(byte: np.uint8, one: np.uint8, two: np.uint8, three: np.uint8) -> bool:
    """Whether UTF-8 does not allow `byte` after the three bytes before it; `one` is the nearest.

    It has no branch, so that the processor handles many bytes at once.
    """
    is_wanted = (one >= 0xC0) | (two >= 0xE0) | (three >= 0xF0)
    is_never = (byte == 0xC0) | (byte == 0xC1) | (byte > 0xF4)
    # Overlong; a UTF-16 surrogate; beyond the last character.
    is_too_long = (one == 0xE0) & (byte < 0xA0) | (one == 0xF0) & (byte < 0x90)
    is_too_high = (one == 0xED) & (byte > 0x9F) | (one == 0xF4) & (byte > 0x8F)
    return bool((is_wanted != _continues(byte)) | is_never | is_too_long | is_too_high)


@compiled_into_caller
def _continues(byte: np.uint8) -> bool:
    return bool((byte >= 0x80) & (byte < 0xC0))


@compiled(BYTES, INT64, INTS)
def are_texts(data: Bytes, size_bytes: int, offsets: Int32s) -> bool:
    """Whether each of the consecutive pieces in the first `size_bytes` bytes of `data` is valid UTF-8.

    `offsets` contains where each begins, and is one longer, as `take_bytes` fills it.
    """
    data, offsets = borrowed((data, offsets))
    bits = np.uint64(0)
    whole_words = size_bytes // WORD_BYTES
    for n in range(whole_words):
        bits |= load_word(data, n * WORD_BYTES)
    for at in range(whole_words * WORD_BYTES, size_bytes):
        bits |= np.uint64(data[at])
    if bits & _HIGH_BITS == 0:
        return True
    none = np.uint8(0)
    is_bad = False
    for at in range(min(3, size_bytes)):
        one = data[at - 1] if at > 0 else none
        two = data[at - 2] if at > 1 else none
        is_bad |= _is_no_utf8(data[at], one, two, none)
    # Four views: an index that might be below 0 would have to be checked.
    bytes_, ones, twos, threes = data[3:size_bytes], data[2:], data[1:], data
    for at in range(bytes_.size):
        is_bad |= _is_no_utf8(bytes_[at], ones[at], twos[at], threes[at])
    # The last character may be cut off, and so may any character where the next piece begins.
    for back in range(1, min(3, size_bytes) + 1):
        is_bad |= data[size_bytes - back] >= _LEADS[back - 1]
    for n in range(offsets.size - 1):
        is_bad |= offsets[n] < size_bytes and _continues(data[offsets[n]])
    return not is_bad


@compiled_into_caller
def _is_piece(buffer: Bytes, start: Int, length: Int, starts: Int32s, lengths: Int32s, other: Int) -> bool:
    return bool(
        length == lengths[other] and same_bytes(buffer, start, buffer, np.int64(starts[other]), length)
    )


@compiled(BYTES, INTS, INTS, INTS_OUT, INTS_OUT, INTS_OUT)
def number_distinct(
    buffer: Bytes, starts: Int32s, lengths: Int32s, slots: Int32s, numbers: Int32s, firsts: Int32s
) -> Int:
    """Number the distinct pieces in order of first occurrence; returns how many there are.

    numbers: filled with the number of each piece. firsts: filled with the index of the first piece of each
    number. Both are as long as `starts`. slots: filled with -1; its size is a power of two that is greater
    than that of `starts`.
    """
    buffer, starts, lengths, slots, numbers, firsts = borrowed(
        (buffer, starts, lengths, slots, numbers, firsts)
    )
    count = np.int64(0)
    number = np.int64(0)
    for n in range(starts.size):
        start = np.int64(starts[n])
        length = np.int64(lengths[n])
        # Most pieces equal the one before them.
        if n == 0 or not _is_piece(buffer, start, length, starts, lengths, firsts[number]):
            slot = hash_bytes(buffer, start, length) & (slots.size - 1)
            while slots[slot] >= 0 and not _is_piece(
                buffer, start, length, starts, lengths, firsts[slots[slot]]
            ):
                slot = slot + 1 & (slots.size - 1)
            if slots[slot] < 0:
                slots[slot] = count
                firsts[count] = n
                count += 1
            number = np.int64(slots[slot])
        numbers[n] = number
    return count


@compiled(BYTES, INTS, INTS)
def count_pairs(buffer: Bytes, starts: Int32s, lengths: Int32s) -> int:
    """The most pairs that the properties strings can contain: in each, one more than its 0x02 bytes."""
    buffer, starts, lengths = borrowed((buffer, starts, lengths))
    count = starts.size
    for n in range(starts.size):
        start = np.int64(starts[n])
        for byte in buffer[start : start + lengths[n]]:
            count += byte == _PAIR_END
    return count


@compiled_into_caller
def _marks_of(word: np.uint64) -> np.uint64:
    """Not 0 if a byte is 0x01 or 0x02; the lowest set bit is then the high bit of the first such byte."""
    one, two = word ^ _EACH_BYTE, word ^ (_EACH_BYTE << np.uint64(1))
    return ((one - _EACH_BYTE) & ~one | (two - _EACH_BYTE) & ~two) & _HIGH_BITS


@compiled_into_caller
def _next_mark(buffer: Bytes, at: Int, stop: Int) -> Int:
    """The position of the first 0x01 or 0x02 from `at` on, or `stop`."""
    while at < stop:
        if at + WORD_BYTES <= buffer.size:
            marks = _marks_of(load_word(buffer, at))
            if marks:
                found: Int = at + (trailing_zeros(marks) >> 3)
                return min(found, stop)
            at += WORD_BYTES
        elif buffer[at] == _NAME_END or buffer[at] == _PAIR_END:
            return at
        else:
            at += 1
    return stop


@compiled_into_caller
def _is_crc_ending(buffer: Bytes, at: Int, stop: Int) -> bool:
    """Whether only the record's CRC follows, as at the end of nearly all records. It needs no walk."""
    if stop - at != CRC_PROPERTY_BYTES or load_word(buffer, at) != _RECORD_CRC:
        return False
    # The value lies between the marks; its ten bytes are tested as two overlapping words.
    value_at = at + WORD_BYTES + 1
    marks = _marks_of(load_word(buffer, value_at)) | _marks_of(load_word(buffer, value_at + 2))
    return bool(marks == 0 and buffer[value_at - 1] == _NAME_END and buffer[stop - 1] == _PAIR_END)


@compiled_into_caller
def _is_record_crc(buffer: Bytes, start: Int, stop: Int) -> bool:
    return bool(stop - start == WORD_BYTES and load_word(buffer, start) == _RECORD_CRC)


@compiled_into_caller
def _put_pair(
    buffer: Bytes, pairs: Int32s, first: Int, count: Int, start: Int, separator: Int, end: Int
) -> Int:
    """Add a pair to those that begin at `first`, or replace the one of the same name; the new count."""
    size = separator - start
    slot = first
    while slot < count and not (
        pairs[1, slot] == size and same_bytes(buffer, np.int64(pairs[0, slot]), buffer, start, size)
    ):
        slot += 1
    pairs[0, slot] = start
    pairs[1, slot] = size
    pairs[2, slot] = separator + 1
    pairs[3, slot] = end - separator - 1
    return max(count, slot + 1)


@compiled(BYTES, INTS, INTS, INTS_OUT, INT_ROWS_OUT)
def split_pairs(buffer: Bytes, starts: Int32s, lengths: Int32s, first_pairs: Int32s, pairs: Int32s) -> Int:
    """Split each properties string into its pairs; of equal names the last counts. Returns their number.

    Pairs of record n are columns first_pairs[n] to first_pairs[n + 1] of `pairs`, whose rows are name
    start, name length, value start, value length. `first_pairs` is one longer than `starts`; `pairs` has
    room for as many as there can be (`count_pairs`). A chunk without a name, a 0x01 and a value is not a
    pair; it is left out, and so is the record's own CRC.
    """
    buffer, starts, lengths, first_pairs, pairs = borrowed((buffer, starts, lengths, first_pairs, pairs))
    count = np.int64(0)
    first_pairs[0] = 0
    for n in range(starts.size):
        at = np.int64(starts[n])
        stop = at + lengths[n]
        first = count
        while at < stop and not _is_crc_ending(buffer, at, stop):
            separator = end = _next_mark(buffer, at, stop)
            if end < stop and buffer[end] == _NAME_END:
                # A value may hold the mark that ends a name.
                while end < stop and buffer[end] == _NAME_END:
                    end = _next_mark(buffer, end + 1, stop)
                if at < separator < end - 1 and not _is_record_crc(buffer, at, separator):
                    count = _put_pair(buffer, pairs, first, count, at, separator, end)
            at = end + 1
        first_pairs[n + 1] = count
    return count


@compiled(BYTES, INTS, STRIDED_INT_ROWS, BYTES, INTS_OUT, INTS_OUT)
def find_values(
    buffer: Bytes,
    first_pairs: Int32s,
    pairs: Int32s,
    name: Bytes,
    value_starts: Int32s,
    value_lengths: Int32s,
) -> None:
    """Find each record's value of the property `name` in the pairs of `split_pairs`; length -1: none.

    The outputs are as long as there are records.
    """
    buffer, first_pairs, pairs, name = borrowed((buffer, first_pairs, pairs, name))
    for n in range(first_pairs.size - 1):
        value_starts[n] = 0
        value_lengths[n] = -1
        for slot in range(first_pairs[n], first_pairs[n + 1]):
            if pairs[1, slot] == name.size and same_bytes(
                buffer, np.int64(pairs[0, slot]), name, 0, name.size
            ):
                value_starts[n] = pairs[2, slot]
                value_lengths[n] = pairs[3, slot]
