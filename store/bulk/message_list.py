"""A list of messages as columns, where nothing is special about any of them.

It is for speed alone: what it leaves (None), message_encoder.py takes one by one, with the same outcome. So
it neither checks all that makes a message illegal nor says what does.
Pure function: any thread.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import astuple

from mqstore.store.bulk.message_columns import MessageColumns
from mqstore.store.bulk.texts import Ints, Texts
from mqstore.store.message import NO_PROPERTIES, Message
from mqstore.store.message_encoder import checked_properties, join_keys

__all__ = ["columns_of_messages"]

_INT = {int}
_TAGS = {str, type(None)}
_MIN_INT, _MAX_INT = -(2**31), 2**31 - 1


def columns_of_messages(messages: Sequence[Message]) -> MessageColumns | None:
    """The columns; None when a message is mistyped or has what columns have not (hosts, sys flag, ...).

    Raises MessageIllegal, ValueError, TypeError, OverflowError instead of None where that is quicker.
    """
    (
        topics,
        bodies,
        tags,
        keys,
        queue_ids,
        delay_levels,
        properties,
        flags,
        sys_flags,
        born_timestamps,
        born_hosts,
        reconsume_times,
        prepared_offsets,
        waits,
    ) = zip(*map(astuple, messages), strict=True)
    count = len(messages)
    is_ordinary = (
        set(map(type, bodies)) == {bytes}
        and set(map(type, topics)) == {str}
        and set(map(type, tags)) <= _TAGS
        and set(map(type, queue_ids)) == set(map(type, delay_levels)) == set(map(type, flags)) == _INT
        and min(queue_ids) >= 0
        and max(queue_ids) <= _MAX_INT
        and _MIN_INT <= min(flags) <= max(flags) <= _MAX_INT
        and set(sys_flags) == set(reconsume_times) == set(prepared_offsets) == {0}
        and born_timestamps.count(None) == born_hosts.count(None) == waits.count(True) == count
    )
    if not is_ordinary:
        return None
    topic_names, topic_indices = _numbered(topics)
    return MessageColumns(
        topic_names,
        topic_indices,
        np.array(queue_ids, np.int32),
        _texts(bodies),
        _repeated_texts(tags),
        _keys(keys),
        _stored(properties),
        np.array(delay_levels, np.int64),
        np.array(flags, np.int32),
        None,
    )


def _texts(values: Sequence[bytes]) -> Texts:
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=offsets[1:])
    return Texts(np.frombuffer(b"".join(values), np.uint8), offsets[:-1], offsets[1:])


def _numbered(values: Sequence[str]) -> tuple[list[str], Ints]:
    """(different values, which of them each one is)."""
    if values.count(values[0]) == len(values):
        return [values[0]], np.zeros(len(values), np.int32)
    numbers: dict[str, int] = {}
    indices = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), np.array(indices, np.int32)


def _repeated_texts(values: Sequence[str | None]) -> Texts:
    """Of values of which many are the same."""
    if values.count(values[0]) == len(values):
        return Texts.repeated((values[0] or "").encode(), len(values))
    texts, indices = _numbered([value or "" for value in values])
    return Texts.chosen([text.encode() for text in texts], indices)


def _keys(values: Sequence[str | Sequence[str]]) -> Texts:
    if values.count(()) == len(values):
        return Texts.repeated(b"", len(values))
    return _texts([_joined(keys).encode() for keys in values])


def _joined(keys: str | Sequence[str]) -> str:
    """As the property KEYS; nothing where there are none."""
    if isinstance(keys, str):
        return keys
    joined = join_keys(tuple(keys)) if keys else ""
    if keys and not joined:
        raise ValueError("one key, and it is empty")
    return joined


def _stored(values: Sequence[Mapping[str, str]]) -> Texts:
    """Properties in the stored form."""
    if values.count(NO_PROPERTIES) == len(values):
        return Texts.repeated(b"", len(values))
    return _texts([checked_properties(dict(properties)) for properties in values])
