"""Compiled loops over the properties of a record: the value of one, and Java's hash of a text.

`data` is uint8, C-contiguous; positions are int64 within it. Nothing outside the given ranges is read, and
nothing is written. Callers hold no lock: the kernels release the GIL. Import this module inside the function
that first needs it; compiled code is cached on disk. The plain twins are in
tests/support/twins/index_kernels.py, and java_hash.py for a text that is a str.
Source: MessageDecoder#string2messageProperties, String#hashCode; layout: properties_format.py.
"""

import numpy as np

from mqstore.store.byte_kernels import matches
from mqstore.store.compiled import compiled
from mqstore.store.loops.kinds import BYTES, INT64

__all__ = ["find_property", "java_hash", "java_hash_on"]

_REPLACEMENT = np.uint32(0xFFFD)


@compiled
def find_property(data, properties_at, properties_length, name):  # type: ignore[no-untyped-def]
    """Where the value of property `name` (its uint8 bytes) lies: (value_at, value_length).

    Length 0 when there is none: an empty value counts as none. Of equal names the last wins, so the
    search runs from the end.
    """
    stop = properties_at + properties_length
    least = len(name) + 2
    while stop > properties_at:
        start = stop
        while start > properties_at and data[start - 1] != 2:
            start -= 1
        if stop - start >= least and data[start + len(name)] == 1 and matches(data, start, name):
            value_at = start + len(name) + 1
            return value_at, stop - value_at
        stop = start - 1
    return properties_at, np.int64(0)


@compiled
def _continues(data, at, stop, least, greatest):  # type: ignore[no-untyped-def]
    return at < stop and least <= data[at] <= greatest


@compiled
def _code_point(data, at, stop):  # type: ignore[no-untyped-def]
    """The UTF-8 character at `at`: (code point, bytes). Malformed bytes become U+FFFD, as in Java.

    One U+FFFD replaces the longest beginning of a character that is present, or an encoded surrogate.
    """
    first = np.uint32(data[at])
    if first < 0x80:
        return first, 1
    if first < 0xC2 or first > 0xF4:
        return _REPLACEMENT, 1
    least, greatest, length = 0x80, 0xBF, 2
    if first >= 0xF0:
        length = 4
        least = 0x90 if first == 0xF0 else 0x80
        greatest = 0x8F if first == 0xF4 else 0xBF
    elif first >= 0xE0:
        length = 3
        least = 0xA0 if first == 0xE0 else 0x80
    code_point = first & np.uint32(0x7F >> length)
    for index in range(1, length):
        if not _continues(data, at + index, stop, least, greatest):
            return _REPLACEMENT, index
        code_point = code_point << np.uint32(6) | np.uint32(data[at + index] & 0x3F)
        least, greatest = 0x80, 0xBF
    if 0xD800 <= code_point <= 0xDFFF:
        return _REPLACEMENT, length
    return code_point, length


@compiled
def java_hash_on(data, at, length, code):  # type: ignore[no-untyped-def]
    """Continue String.hashCode over the text at `at`; `code` is the hash of the text before it."""
    stop = at + length
    while at < stop:
        # Most keys are ASCII, and this is three times as fast for them.
        while at < stop and data[at] < 0x80:
            code = np.uint32(np.uint32(31) * code + np.uint32(data[at]))
            at += 1
        if at == stop:
            break
        code_point, size = _code_point(data, at, stop)
        at += size
        if code_point >= 0x10000:
            high = np.uint32(0xD7C0) + (code_point >> np.uint32(10))
            code = np.uint32(31) * code + high
            code_point = np.uint32(0xDC00) | code_point & np.uint32(0x3FF)
        code = np.uint32(31) * code + code_point
    return code


@compiled(BYTES, INT64, INT64)
def java_hash(data, at, length):  # type: ignore[no-untyped-def]
    """Java's String.hashCode of the UTF-8 text at `at`, as int64 (sign-extended)."""
    return np.int64(np.int32(java_hash_on(data, at, length, np.uint32(0))))
