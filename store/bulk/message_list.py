"""A list of messages as columns, or None if one uses what columns lack.

For long lists of put_messages that list_encoder.py does not take: of several topics, or with properties that
the store replaces.

Reading fourteen fields of each message one by one takes longer than storing it. So msgspec packs the whole
list, without the fields that have their defaults, and a compiled loop finds the bodies and the numbers in
the packed bytes (store/bulk/msgpack_kernels.py). This is for speed alone: where it returns None,
message_encoder.py encodes the messages one by one, with the same outcome. So it neither makes every check
nor says what makes a message illegal. Pure function: any thread.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from mqstore.store.bulk.message_columns import MessageColumns
from mqstore.store.bulk.text_column import Ints, TextColumn
from mqstore.store.message.message import Message
from mqstore.store.message.message_properties import checked_properties, join_keys

__all__ = ["columns_of_messages"]

_STR = {str}
_INT = {int}
_TAGS = {str, type(None)}
_pack = msgspec.msgpack.Encoder().encode


def columns_of_messages(messages: Sequence[Message]) -> MessageColumns | None:
    """The columns; None if a message is mistyped or uses what columns lack (hosts, sys flag, ...).

    Raises MessageIllegal, ValueError, TypeError, OverflowError instead of None where that is quicker.
    """
    from mqstore.store.bulk import msgpack_kernels

    if {*map(type, messages)} != {Message}:
        return None
    topics = [message.topic for message in messages]
    tags = [message.tags for message in messages]
    # Types are checked here, and those of numbers below, because msgspec packs times and
    # Enums as texts and numbers too.
    if not (_are_all(_STR, topics) and _are_all(_TAGS, tags)):
        return None
    count = len(messages)
    try:
        packed = np.frombuffer(_pack(messages), np.uint8)
    except (BufferError, RecursionError, msgspec.MsgspecError):
        return None
    body_starts, body_stops = np.empty((2, count), np.int64)
    queue_ids, delay_levels, flags = np.empty((3, count), np.int32)
    found = msgpack_kernels.read_messages(packed, body_starts, body_stops, queue_ids, delay_levels, flags)
    if found == msgpack_kernels.OUT_OF_THE_ORDINARY:
        return None
    for bit, field in msgpack_kernels.NUMBERS_FOUND:
        if found & bit and {*map(type, map(attrgetter(field), messages))} != _INT:
            return None
    topic_names, topic_indices = _numbered(topics)
    nothing = TextColumn.repeated(b"", count)
    return MessageColumns(
        topic_names,
        topic_indices,
        queue_ids,
        TextColumn(packed, body_starts, body_stops),
        _repeated_texts(tags),
        _keys([message.keys for message in messages]) if found & msgpack_kernels.KEYS_FOUND else nothing,
        _stored([message.properties for message in messages])
        if found & msgpack_kernels.PROPERTIES_FOUND
        else nothing,
        delay_levels.astype(np.int64),
        flags,
        None,
    )


def _are_all(types: set[Any], values: Sequence[object]) -> bool:
    """Whether each value is of one of these types."""
    first = values[0]
    # Values that equal the first may have another type, but msgspec packs them as the same text.
    return type(first) in types and (values.count(first) == len(values) or {*map(type, values)} <= types)


def _texts(values: Sequence[bytes]) -> TextColumn:
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=offsets[1:])
    return TextColumn(np.frombuffer(b"".join(values), np.uint8), offsets[:-1], offsets[1:])


def _numbered(values: Sequence[str]) -> tuple[list[str], Ints]:
    """(different values, which of them each one is)."""
    if values.count(values[0]) == len(values):
        return [values[0]], np.zeros(len(values), np.int32)
    numbers: dict[str, int] = {}
    indices = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), np.array(indices, np.int32)


def _repeated_texts(values: Sequence[str | None]) -> TextColumn:
    """Of values of which many are the same."""
    if values.count(values[0]) == len(values):
        return TextColumn.repeated((values[0] or "").encode(), len(values))
    texts, indices = _numbered([value or "" for value in values])
    return TextColumn.chosen([text.encode() for text in texts], indices)


def _keys(values: Sequence[str | Sequence[str]]) -> TextColumn:
    return _texts([_joined(keys).encode() for keys in values])


def _joined(keys: str | Sequence[str]) -> str:
    """As the property KEYS; nothing where there are none."""
    if isinstance(keys, str):
        return keys
    joined = join_keys(tuple(keys)) if keys else ""
    if keys and not joined:
        raise ValueError("one key, and it is empty")
    return joined


def _stored(values: Sequence[Mapping[str, str]]) -> TextColumn:
    """Properties in the stored form."""
    return _texts([checked_properties(dict(properties)) for properties in values])
