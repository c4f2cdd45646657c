"""Compiled loop that reads a list of `Message`s as msgspec packs it: MessagePack.

The list is an array, each message a map without the fields that have default values. The length and the
first byte of a field's name identify the field. The loop finds the bodies without copying them, reads the
numbers, and skips texts. The caller has checked that all are of the type `Message`, so the bytes are as
msgspec made them; but values can still be of any type.

Arrays: packed uint8, the others int64 or int32, one element a message, filled; C-contiguous.
The caller need not hold the GIL. The plain twin is in tests/support/twins/plain_rows.py.
Source: the MessagePack specification, "Formats".
"""

import numpy as np

from mqstore.store.byte_kernels import borrowed, read_unsigned
from mqstore.store.compiled import compiled, compiled_into_caller
from mqstore.store.loops.kinds import BYTES, INTS_OUT, LONGS_OUT
from mqstore.store.message.message import Message

__all__ = [
    "KEYS_FOUND",
    "NO_NUMBER",
    "NO_VALUE",
    "NUMBERS_FOUND",
    "OUT_OF_THE_ORDINARY",
    "PROPERTIES_FOUND",
    "bytes_at",
    "end_of_value",
    "mark_of",
    "number_at",
    "read_messages",
]

# What `read_messages` returns: bits, or OUT_OF_THE_ORDINARY.
KEYS_FOUND = 1
PROPERTIES_FOUND = 2
_QUEUE_IDS_FOUND, _DELAY_LEVELS_FOUND, _FLAGS_FOUND = 4, 8, 16
OUT_OF_THE_ORDINARY = -1

NUMBERS_FOUND = ((_QUEUE_IDS_FOUND, "queue_id"), (_DELAY_LEVELS_FOUND, "delay_level"), (_FLAGS_FOUND, "flag"))
"""(bit, field) of each number."""


def mark_of(name: str) -> int:
    """What identifies a field's name: its length and its first byte."""
    return len(name) << 8 | ord(name[0])


_TOPIC, _BODY, _TAGS, _KEYS = mark_of("topic"), mark_of("body"), mark_of("tags"), mark_of("keys")
_QUEUE_ID, _DELAY_LEVEL, _FLAG = mark_of("queue_id"), mark_of("delay_level"), mark_of("flag")
_PROPERTIES = mark_of("properties")
assert len({*map(mark_of, Message.__struct_fields__)}) == len(Message.__struct_fields__) <= 15

NO_NUMBER = np.int64(1 << 62)
NO_VALUE = -1


@compiled_into_caller
def number_at(packed, at):  # type: ignore[no-untyped-def]
    """(the number, where it ends); NO_NUMBER for any other value, and beyond 32 bits."""
    head = np.int64(packed[np.uint64(at)])
    if head < 0x80:
        return head, at + 1
    if head >= 0xE0:
        return head - 256, at + 1
    if 0xCC <= head <= 0xCE:
        size = 1 << head - 0xCC
        return read_unsigned(packed, at + 1, size), at + 1 + size
    if 0xD0 <= head <= 0xD2:
        size = 1 << head - 0xD0
        value, half = read_unsigned(packed, at + 1, size), np.int64(1) << 8 * size - 1
        return (value ^ half) - half, at + 1 + size
    return NO_NUMBER, at


@compiled_into_caller
def bytes_at(packed, at):  # type: ignore[no-untyped-def]
    """(where bytes begin, where they end); NO_VALUE for any other value."""
    head = np.int64(packed[np.uint64(at)])
    if not 0xC4 <= head <= 0xC6:
        return np.int64(NO_VALUE), np.int64(NO_VALUE)
    size = 1 << head - 0xC4
    start = at + 1 + size
    return start, start + read_unsigned(packed, at + 1, size)


@compiled_into_caller
def begins_map(head):  # type: ignore[no-untyped-def]
    return 0x80 <= head <= 0x8F or 0xDE <= head <= 0xDF


@compiled_into_caller
def end_of_value(packed, at):  # type: ignore[no-untyped-def]
    """Where a text, or an array or map of texts, ends; NO_VALUE for any other value."""
    pending = np.int64(1)
    while pending > 0:
        pending -= 1
        head = np.int64(packed[np.uint64(at)])
        if 0xA0 <= head <= 0xBF:
            at += 1 + (head & 0x1F)
        elif 0xD9 <= head <= 0xDB:
            size = 1 << head - 0xD9
            at += 1 + size + read_unsigned(packed, at + 1, size)
        elif 0x80 <= head <= 0x8F:
            pending += 2 * (head & 0x0F)
            at += 1
        elif 0x90 <= head <= 0x9F:
            pending += head & 0x0F
            at += 1
        elif 0xDC <= head <= 0xDF:
            size = 2 << (head & 1)
            pending += read_unsigned(packed, at + 1, size) << (head - 0xDC >> 1)
            at += 1 + size
        else:
            return np.int64(NO_VALUE)
    return at


@compiled(BYTES, LONGS_OUT, LONGS_OUT, INTS_OUT, INTS_OUT, INTS_OUT)
def read_messages(packed, body_starts, body_stops, queue_ids, delay_levels, flags):  # type: ignore[no-untyped-def]
    """Find the bodies and read the numbers. Returns which of keys, properties and numbers any message has.

    OUT_OF_THE_ORDINARY: a message has a field unknown here, a value of another type or beyond 32 bits, or a
    negative queue id. The contents of the arrays are undefined then.
    """
    packed, body_starts, body_stops = borrowed((packed, body_starts, body_stops))
    queue_ids, delay_levels, flags = borrowed((queue_ids, delay_levels, flags))
    count = len(body_starts)
    at = np.int64(1 if count < 1 << 4 else 3 if count < 1 << 16 else 5)
    found = 0
    for row in range(count):
        queue_ids[row] = delay_levels[row] = flags[row] = 0
        fields = packed[np.uint64(at)] & 0x0F
        at += 1
        for _ in range(fields):
            length = np.int64(packed[np.uint64(at)] & 0x1F)
            mark = length << 8 | np.int64(packed[np.uint64(at + 1)])
            at += 1 + length
            if mark == _BODY:
                body_starts[row], at = bytes_at(packed, at)
                body_stops[row] = at
            elif mark in (_QUEUE_ID, _DELAY_LEVEL, _FLAG):
                value, at = number_at(packed, at)
                if not -(1 << 31) <= value < 1 << 31 or (mark == _QUEUE_ID and value < 0):
                    return OUT_OF_THE_ORDINARY
                if mark == _QUEUE_ID:
                    queue_ids[row] = value
                    found |= _QUEUE_IDS_FOUND
                elif mark == _DELAY_LEVEL:
                    delay_levels[row] = value
                    found |= _DELAY_LEVELS_FOUND
                else:
                    flags[row] = value
                    found |= _FLAGS_FOUND
            elif mark in (_TOPIC, _TAGS, _KEYS, _PROPERTIES):
                if mark == _PROPERTIES and not begins_map(packed[np.uint64(at)]):
                    return OUT_OF_THE_ORDINARY
                at = end_of_value(packed, at)
                found |= KEYS_FOUND * (mark == _KEYS) | PROPERTIES_FOUND * (mark == _PROPERTIES)
            else:
                return OUT_OF_THE_ORDINARY
            if at == NO_VALUE:
                return OUT_OF_THE_ORDINARY
    return found
