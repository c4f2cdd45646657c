"""Compiled loops over the bytes of the commit log: where records end, and whether they are whole.

Arrays: `data` is uint8, C-contiguous, one segment or a part of it; positions are int64 within it. A kernel
never reads at or beyond `end`, which must not exceed len(data); it writes nothing.
Callers hold no lock: the kernels release the GIL. Import this module inside the function that first needs
it; compiled code is cached on disk. CRCs: store/checksum/crc32_kernels.py. The plain twins are in
tests/support/twins/record_scan.py.
Source of the rules: CommitLog#checkMessageAndReturnSize; layout: record_format.py.
"""

import numpy as np

from mqstore.store.byte_kernels import WORD_BYTES, borrowed, load_word, matches, read_int, read_long
from mqstore.store.checksum.crc32_kernels import crc32
from mqstore.store.compiled import compiled, compiled_into_caller
from mqstore.store.loops.kinds import BYTES, INT64
from mqstore.store.record.properties_format import CRC32, MAX_PROPERTIES_BYTES
from mqstore.store.record.record_format import (
    BLANK_MAGIC_CODE,
    BLANK_MIN_BYTES,
    BODY_CRC_POSITION,
    BODY_LENGTH_BEFORE_BODY,
    CRC_DIGITS,
    CRC_PROPERTY_BYTES,
    FIXED_BYTES,
    HEADER_BYTES,
    IPV6_EXTRA_BYTES,
    MAGIC_CODE_POSITION,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    PHYSICAL_OFFSET_POSITION,
    PROPERTIES_LENGTH_BYTES,
    STORE_TIMESTAMP_POSITION,
    SYS_FLAG_POSITION,
)
from mqstore.store.record.sys_flag import BORN_HOST_V6, STORE_HOST_V6

__all__ = [
    "BLANK_FOUND",
    "END_OF_DATA",
    "NO_LAYOUT",
    "NO_RECORD",
    "begins_magic",
    "behind_zeros",
    "body_position",
    "find_record",
    "is_undamaged",
    "record_layout",
    "scan",
    "store_timestamp_at",
    "whole_record_size",
]

NO_LAYOUT = 0
"""The total size that `record_layout` returns where no record begins."""

# Why a scan stopped.
END_OF_DATA = 0
BLANK_FOUND = 1
NO_RECORD = 2

_CRC_NAME = np.frombuffer(CRC32.encode() + b"\x01", np.uint8)
# The bytes with which both magics begin.
_MAGIC_START = (MESSAGE_MAGIC_CODE & 0xFFFF_FFFF).to_bytes(4, "big")[:3]
_FIRST_MAGIC_BYTE, _SECOND_MAGIC_BYTE, _THIRD_MAGIC_BYTE = _MAGIC_START
assert (MESSAGE_MAGIC_CODE_V2 & 0xFFFF_FFFF).to_bytes(4, "big").startswith(_MAGIC_START)


@compiled_into_caller
def begins_magic(data, at):  # type: ignore[no-untyped-def]
    """Whether a record that begins at `at` has the first three bytes of a magic: the cheapest check."""
    first = at + MAGIC_CODE_POSITION
    is_begun = data[first] == _FIRST_MAGIC_BYTE and data[first + 1] == _SECOND_MAGIC_BYTE
    return is_begun and data[first + 2] == _THIRD_MAGIC_BYTE


@compiled_into_caller
def behind_zeros(data, at, end):  # type: ignore[no-untyped-def]
    """`at`, or a position behind it before which no record begins, as zeros lie where its magic would be.

    For searches: most of a segment that is written to is zeros. Only bytes before `end` are read.
    """
    first = at + MAGIC_CODE_POSITION
    while first + WORD_BYTES <= end and data[first] == 0 and load_word(data, first) == 0:
        first += WORD_BYTES
    return first - MAGIC_CODE_POSITION


@compiled_into_caller
def body_position(data, at):  # type: ignore[no-untyped-def]
    """Where the body of the record at `at` begins."""
    sys_flag = read_int(data, at + SYS_FLAG_POSITION)
    body_at = at + HEADER_BYTES
    if sys_flag & BORN_HOST_V6:
        body_at += IPV6_EXTRA_BYTES
    if sys_flag & STORE_HOST_V6:
        body_at += IPV6_EXTRA_BYTES
    return body_at


@compiled_into_caller
def store_timestamp_at(data, at):  # type: ignore[no-untyped-def]
    """Where the store timestamp of the record at `at` is."""
    if read_int(data, at + SYS_FLAG_POSITION) & BORN_HOST_V6:
        return at + (STORE_TIMESTAMP_POSITION + IPV6_EXTRA_BYTES)
    return at + STORE_TIMESTAMP_POSITION


@compiled(BYTES, INT64, INT64)
def record_layout(data, at, end):  # type: ignore[no-untyped-def]
    """Lengths and positions of the parts of the record at `at`. Only bytes before `end` are read.

    Returns (total_size, body_at, body_length, topic_at, topic_length, properties_at, properties_length).
    total_size is NO_LAYOUT (0) if no record whose lengths add up begins there, and minus the length of a
    BLANK. Recovery, dispatch, keys, columns and deliveries all walk the log with this function.
    """
    zero = np.int64(0)
    nothing = (np.int64(NO_LAYOUT), zero, zero, zero, zero, zero, zero)
    if at + BLANK_MIN_BYTES > end:
        return nothing
    total_size = read_int(data, at)
    magic = read_int(data, at + MAGIC_CODE_POSITION)
    if magic == BLANK_MAGIC_CODE and total_size >= BLANK_MIN_BYTES:
        return (-total_size, zero, zero, zero, zero, zero, zero)
    if magic != MESSAGE_MAGIC_CODE and magic != MESSAGE_MAGIC_CODE_V2:  # noqa: PLR1714 - compiled code
        return nothing
    stop = at + total_size
    if total_size < FIXED_BYTES or stop > end:
        return nothing
    body_at = body_position(data, at)
    topic_width = 1 if magic == MESSAGE_MAGIC_CODE else 2
    if body_at + topic_width + PROPERTIES_LENGTH_BYTES > stop:
        return nothing
    body_length = read_int(data, body_at - BODY_LENGTH_BEFORE_BODY)
    topic_at = body_at + body_length + topic_width
    if body_length < 0 or topic_at + PROPERTIES_LENGTH_BYTES > stop:
        return nothing
    topic_length = np.int64(data[topic_at - 1])
    if topic_width == 2:
        topic_length |= np.int64(data[topic_at - 2]) << 8
    properties_at = topic_at + topic_length + PROPERTIES_LENGTH_BYTES
    # Lengths are signed in Java.
    if topic_length >= (128 if topic_width == 1 else 32768) or properties_at > stop:
        return nothing
    properties_length = np.int64(data[properties_at - 2]) << 8 | np.int64(data[properties_at - 1])
    if properties_length > MAX_PROPERTIES_BYTES or properties_at + properties_length != stop:
        return nothing
    return (total_size, body_at, body_length, topic_at, topic_length, properties_at, properties_length)


@compiled
def _record_crc_matches(data, at, stop):  # type: ignore[no-untyped-def]
    """Whether the ten digits at the end of a record are its CRC, least significant first."""
    stored = np.int64(0)
    weight = np.int64(1)
    first = np.uint64(stop - 1 - CRC_DIGITS)
    is_whole = data[np.uint64(stop - 1)] == 2
    for index in range(CRC_DIGITS):
        digit = np.int64(data[first + np.uint64(index)]) - 48
        is_whole &= 0 <= digit <= 9
        stored += digit * weight
        weight *= 10
    return is_whole and stored == crc32(data, at, stop - CRC_PROPERTY_BYTES)


@compiled
def _ends_in_digits(data, stop):  # type: ignore[no-untyped-def]
    """Whether the last ten characters of the properties' last value are digits."""
    for at in range(stop - 1 - CRC_DIGITS, stop - 1):
        if data[at] < 48 or data[at] > 57:
            return False
    return data[stop - 1] == 2


@compiled
def _has_zero(data, start, stop):  # type: ignore[no-untyped-def]
    """Whether one of these bytes is zero."""
    for at in range(start, stop):
        if data[at] == 0:
            return True
    return False


@compiled
def is_undamaged(data, at, base_offset, layout):  # type: ignore[no-untyped-def]
    """Whether the record at `at`, whose `record_layout` this is, is whole.

    Its stored physical offset must be base_offset + at. Topic and properties must not end in zeros. The
    record CRC must match; if there is none, no zero may be where it would be, and the CRC of the body must
    match, unless the body is empty.
    """
    total, body_at, body_length, _, topic_length, properties_at, properties_length = layout
    if read_long(data, at + PHYSICAL_OFFSET_POSITION) != base_offset + at:
        return False
    stop = at + total
    # A page that never reached the disk is all zeros. A whole topic or properties string never ends in zero.
    is_torn = topic_length > 0 and data[properties_at - PROPERTIES_LENGTH_BYTES - 1] == 0
    if is_torn or (properties_length > 0 and data[stop - 1] == 0):
        return False
    if properties_length >= CRC_PROPERTY_BYTES:
        if matches(data, stop - CRC_PROPERTY_BYTES, _CRC_NAME):
            return _record_crc_matches(data, at, stop)
        # Zeros of a page that never reached the disk reach into what was the CRC: its name is among them.
        if _has_zero(data, stop - CRC_PROPERTY_BYTES, stop):
            return False
        # Digits under another name would not match the record's CRC: so the name is damaged.
        if _ends_in_digits(data, stop) and _record_crc_matches(data, at, stop):
            return False
    return body_length == 0 or crc32(data, body_at, body_at + body_length) == read_int(
        data, at + BODY_CRC_POSITION
    )


@compiled(BYTES, INT64, INT64, INT64)
def whole_record_size(data, at, end, base_offset):  # type: ignore[no-untyped-def]
    """Size of the record at `at` if it is whole and undamaged (`is_undamaged`), else -1."""
    layout = record_layout(data, at, end)
    is_whole = layout[0] > NO_LAYOUT and is_undamaged(data, at, base_offset, layout)
    return layout[0] if is_whole else np.int64(-1)


@compiled(BYTES, INT64, INT64, INT64)
def scan(data, start, end, base_offset):  # type: ignore[no-untyped-def]
    """Walk whole records from `start`; (stop position, records, last store timestamp, why it stopped).

    The stop position is the first one without a whole record (a BLANK, zeros, a torn record), or `end`. The
    last store timestamp is -1 if there was no record.
    """
    (data,) = borrowed((data,))
    at = np.int64(start)
    records = np.int64(0)
    last_store_timestamp = np.int64(-1)
    while at < end:
        if at + BLANK_MIN_BYTES <= end and read_int(data, at + MAGIC_CODE_POSITION) == BLANK_MAGIC_CODE:
            return at, records, last_store_timestamp, BLANK_FOUND
        total = whole_record_size(data, at, end, base_offset)
        if total < 0:
            return at, records, last_store_timestamp, NO_RECORD
        last_store_timestamp = read_long(data, store_timestamp_at(data, at))
        records += 1
        at += total
    return at, records, last_store_timestamp, END_OF_DATA


@compiled(BYTES, INT64, INT64, INT64, INT64)
def find_record(data, start, stop, end, base_offset):  # type: ignore[no-untyped-def]
    """Position of the first whole record that begins in [start, stop) and ends by `end`, or -1.

    For repair and recovery.
    """
    (data,) = borrowed((data,))
    last = min(np.int64(stop) - 1, end - HEADER_BYTES)
    # Of its header more than a magic and a word of zeros lies before `end`.
    zeros_end = last + MAGIC_CODE_POSITION + WORD_BYTES
    at = behind_zeros(data, np.int64(start), zeros_end)
    while at <= last:
        if begins_magic(data, at) and whole_record_size(data, at, end, base_offset) >= 0:
            return at
        at = behind_zeros(data, at + 1, zeros_end)
    return np.int64(-1)
