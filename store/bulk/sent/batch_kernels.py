"""Compiled loops that take a batch of a client apart: into what msgspec makes of a list of Messages.

So the loop that encodes such lists (message_kernels.py) stores them, with all its checks, and no object is
made for any element. The bodies are copied once more for it, which takes less than anything in Python.

    body    SIZE, MAGIC, CRC, FLAG, BODY LENGTH, body, PROPERTIES LENGTH, name 01 value 02 ...   an element
    packed  {topic, queue_id, born_timestamp, born_host, body, flag, properties: {name: value, ...}}

An element's properties are in their order. Out of the ordinary are elements without a unique key, properties
of a pop consumer, names that come twice, pairs without a name or a value, and whatever is not ASCII.

Arrays: C-contiguous uint8. The caller need not hold the GIL. The twin is `decode_batch` with the loop over
its elements in server/processors/sends.py.
Source: docs/format/commit_log.md, store/record/batch_format.py; the MessagePack specification, "Formats".
"""

import numpy as np

from mqstore.store.bulk.msgpack_kernels import OUT_OF_THE_ORDINARY
from mqstore.store.byte_kernels import borrowed, copy_bytes, read_int, read_unsigned, same_bytes, write_int
from mqstore.store.compiled import compiled, compiled_into_caller
from mqstore.store.loops.kinds import BYTES, BYTES_OUT, INT64
from mqstore.store.record.batch_format import ELEMENT_BYTES
from mqstore.store.record.properties_format import UNIQ_KEY

__all__ = ["OUT_OF_THE_ORDINARY", "count_elements", "element_bytes", "pack_elements"]

_LENGTH_BYTES = 2
_FIXED_BYTES = ELEMENT_BYTES - _LENGTH_BYTES
_FLAG_AT, _BODY_LENGTH_AT = 12, 16

_MAX_PAIRS = 32
_STR16, _BIN32, _INT32, _MAP16, _ARRAY16, _ARRAY32 = 0xDA, 0xC6, 0xD2, 0xDE, 0xDC, 0xDD
_HEAD_BYTES = 3
_ARRAY_HEAD_BYTES = 5
_BODY_FIELD = np.frombuffer(b"\xa4body", np.uint8)
_FLAG_FIELD = np.frombuffer(b"\xa4flag", np.uint8)
_PROPERTIES_FIELD = np.frombuffer(b"\xaaproperties", np.uint8)
_UNIQUE = np.frombuffer(UNIQ_KEY.encode(), np.uint8)
_POP_CHECK = np.frombuffer(b"POP_CK", np.uint8)
# topic, queue_id, born_timestamp, born_host before; body, flag, properties here.
_FIELDS = 7


def element_bytes(front_bytes: int) -> int:
    """What an element takes at most when it is packed, beside its bytes in the body.

    front_bytes: of the fields that are the same for all.
    """
    fields = len(_BODY_FIELD) + len(_FLAG_FIELD) + len(_PROPERTIES_FIELD)
    heads = 1 + 5 + 5 + _HEAD_BYTES + 2 * _HEAD_BYTES * _MAX_PAIRS
    return _ARRAY_HEAD_BYTES + front_bytes + fields + heads


@compiled(BYTES)
def count_elements(body):  # type: ignore[no-untyped-def]
    """How many elements a batch has; OUT_OF_THE_ORDINARY if their lengths do not add up."""
    (body,) = borrowed((body,))
    at, end, count = np.int64(0), np.int64(len(body)), np.int64(0)
    while at < end:
        rest = end - at
        if rest < ELEMENT_BYTES:
            return OUT_OF_THE_ORDINARY
        size, length = read_int(body, at), read_int(body, at + _BODY_LENGTH_AT)
        if not ELEMENT_BYTES <= size <= rest or not 0 <= length <= size - ELEMENT_BYTES:
            return OUT_OF_THE_ORDINARY
        if read_unsigned(body, at + _FIXED_BYTES + length, _LENGTH_BYTES) != size - ELEMENT_BYTES - length:
            return OUT_OF_THE_ORDINARY
        at += size
        count += 1
    return count


@compiled_into_caller
def _write_text(target, to, text, start, stop):  # type: ignore[no-untyped-def]
    length = stop - start
    target[to] = _STR16
    target[to + 1] = length >> 8
    target[to + 2] = length & 0xFF
    copy_bytes(target, to + _HEAD_BYTES, text, start, length)
    return to + _HEAD_BYTES + length


@compiled_into_caller
def _is(text, start, stop, name):  # type: ignore[no-untyped-def]
    return stop - start == len(name) and same_bytes(text, start, name, 0, len(name))


@compiled_into_caller
def _end_of_text(body, at, stop):  # type: ignore[no-untyped-def]
    """Where a separator follows, or `stop`; -1 for an empty text, and for one that is not ASCII."""
    start = at
    while at < stop and body[at] > 2:
        if body[at] > 0x7F:
            return np.int64(OUT_OF_THE_ORDINARY)
        at += 1
    # 0 is a character as any other, but nobody's.
    if at == start or (at < stop and body[at] == 0):
        return np.int64(OUT_OF_THE_ORDINARY)
    return at


@compiled_into_caller
def _pack_properties(body, at, stop, target, to):  # type: ignore[no-untyped-def]
    """Append the map of an element's properties; where it ends."""
    refused = np.int64(OUT_OF_THE_ORDINARY)
    head_at, pairs, is_unique = to, np.int64(0), False
    to += _HEAD_BYTES
    first = to
    while at < stop:
        name_at, name_stop = at, _end_of_text(body, at, stop)
        if name_stop in (refused, stop) or body[name_stop] != 1:
            return refused
        value_at = name_stop + 1
        value_stop = _end_of_text(body, value_at, stop)
        if value_stop == refused or (value_stop < stop and body[value_stop] != 2):
            return refused
        if pairs == _MAX_PAIRS or _is(body, name_at, name_stop, _POP_CHECK):
            return refused
        # A name that came before: a dictionary would have it once.
        earlier, length = first, name_stop - name_at
        for _ in range(pairs):
            earlier_length = read_unsigned(target, earlier + 1, _LENGTH_BYTES)
            earlier += _HEAD_BYTES
            if earlier_length == length and same_bytes(target, earlier, body, name_at, length):
                return refused
            earlier += earlier_length
            earlier += _HEAD_BYTES + read_unsigned(target, earlier + 1, _LENGTH_BYTES)
        is_unique |= _is(body, name_at, name_stop, _UNIQUE)
        to = _write_text(target, to, body, name_at, name_stop)
        to = _write_text(target, to, body, value_at, value_stop)
        pairs += 1
        at = value_stop + 1
    target[head_at] = _MAP16
    target[head_at + 1] = pairs >> 8
    target[head_at + 2] = pairs & 0xFF
    return to if is_unique else refused


@compiled(BYTES, INT64, BYTES, BYTES_OUT)
def pack_elements(body, count, front, target):  # type: ignore[no-untyped-def]
    """Pack the elements of a batch whose lengths add up; how many bytes of `target` are filled.

    count: as `count_elements` has found. front: fields that are the same for all, packed. target:
    `element_bytes` tells how large it must be. OUT_OF_THE_ORDINARY: its contents are undefined.
    """
    body, front, target = borrowed((body, front, target))
    to = np.int64(0)
    if count < 1 << 4:
        target[0] = 0x90 | count
        to = np.int64(1)
    elif count < 1 << 16:
        target[0], target[1], target[2] = _ARRAY16, count >> 8, count & 0xFF
        to = np.int64(3)
    else:
        target[0] = _ARRAY32
        write_int(target, 1, count)
        to = np.int64(5)
    at = np.int64(0)
    for _ in range(count):
        size, flag = read_int(body, at), read_int(body, at + _FLAG_AT)
        length = read_int(body, at + _BODY_LENGTH_AT)
        target[to] = 0x80 | _FIELDS
        copy_bytes(target, to + 1, front, 0, len(front))
        to += 1 + len(front)
        copy_bytes(target, to, _BODY_FIELD, 0, len(_BODY_FIELD))
        to += len(_BODY_FIELD)
        target[to] = _BIN32
        write_int(target, to + 1, length)
        copy_bytes(target, to + 5, body, at + _FIXED_BYTES, length)
        to += 5 + length
        copy_bytes(target, to, _FLAG_FIELD, 0, len(_FLAG_FIELD))
        to += len(_FLAG_FIELD)
        target[to] = _INT32
        write_int(target, to + 1, flag)
        to += 5
        copy_bytes(target, to, _PROPERTIES_FIELD, 0, len(_PROPERTIES_FIELD))
        to += len(_PROPERTIES_FIELD)
        to = _pack_properties(body, at + ELEMENT_BYTES + length, at + size, target, to)
        if to == OUT_OF_THE_ORDINARY:
            return OUT_OF_THE_ORDINARY
        at += size
    return to
