"""Messages drawn by hypothesis, and the same messages as columns, in each form that `put_columns` takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from mqstore import Message
from mqstore.store.record.properties_format import encode_properties

__all__ = ["MESSAGES", "as_arrow", "as_buffers", "as_values"]

_TEXTS = st.one_of(
    st.text("abcKEYS #_", min_size=1, max_size=8),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=8),
)
_NAMES = st.one_of(
    _TEXTS,
    st.sampled_from(
        ["KEYS", "TAGS", "WAIT", "__CRC32#", "REAL_QID", "REAL_TOPIC", "UNIQ_KEY", "TIMER_DELAY_MS"]
    ),
)
_PROPERTIES = st.dictionaries(_NAMES, _TEXTS, max_size=4)
_DELAYS = st.sampled_from([{}, {}, {}, {"DELAY": "2"}, {"DELAY": "+01"}, {"DELAY": "99"}, {"DELAY": "-1"}])

MESSAGES = st.builds(
    lambda properties, delay, **fields: Message(properties=properties | delay, **fields),
    properties=_PROPERTIES,
    delay=_DELAYS,
    topic=st.sampled_from(["orders", "orders", "b", "%RETRY%" + "g" * 121]),
    queue_id=st.integers(0, 7),
    body=st.one_of(st.binary(max_size=40), st.binary(min_size=100, max_size=300)),
    tags=st.one_of(st.none(), _TEXTS),
    keys=st.one_of(st.just(""), _TEXTS),
    delay_level=st.sampled_from([0, 0, 0, 0, -3, 1, 3, 18, 40]),
    flag=st.integers(-(2**31), 2**31 - 1),
)
"""Legal messages of all kinds that columns can say; `born_timestamp` is left to whoever wants it."""


def _keys_of(message: Message) -> str:
    return message.keys if isinstance(message.keys, str) else " ".join(message.keys)


def _packed(texts: list[bytes]) -> tuple[bytes, np.ndarray]:
    return b"".join(texts), np.cumsum([0, *map(len, texts)], dtype=np.int64)


def as_buffers(messages: Sequence[Message]) -> dict[str, Any]:
    """Buffers and offsets, padded at both ends so that they do not begin at 0."""
    topics = sorted({message.topic for message in messages})

    def padded(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        data, offsets = _packed(texts)
        return np.frombuffer(b"\xff\x01" + data + b"\x02\xff", np.uint8), offsets + 2

    return {
        "topic": (np.array([topics.index(message.topic) for message in messages], np.uint8), topics),
        "queue_id": np.array([message.queue_id for message in messages], np.int16),
        "body": padded([bytes(message.body) for message in messages]),
        "tags": padded([(message.tags or "").encode() for message in messages]),
        "keys": padded([_keys_of(message).encode() for message in messages]),
        "properties": padded([encode_properties(message.properties) for message in messages]),
        "delay_level": np.array([message.delay_level for message in messages], np.int8),
        "flag": np.array([message.flag for message in messages], np.int64),
    }


def as_values(messages: Sequence[Message]) -> dict[str, Any]:
    """Python's own objects; the last 0x02 of the properties is left out, as RocketMQ up to 5.1 does."""
    return {
        "topic": [message.topic for message in messages],
        "queue_id": [message.queue_id for message in messages],
        "body": [message.body for message in messages],
        "tags": [message.tags for message in messages],
        "keys": tuple(_keys_of(message) or None for message in messages),
        "properties": [encode_properties(message.properties)[:-1] for message in messages],
        "delay_level": [message.delay_level for message in messages],
        "flag": [message.flag for message in messages],
    }


def as_arrow(messages: Sequence[Message], *, chunks: int = 1) -> pa.Table:
    """A table, its columns in `chunks` pieces that are cut out of larger ones."""
    columns = {
        "topic": pa.array([message.topic for message in messages], pa.string()).dictionary_encode(),
        "queue_id": pa.array([message.queue_id for message in messages], pa.int32()),
        "body": pa.array([message.body for message in messages], pa.large_binary()),
        "tags": pa.array([message.tags for message in messages], pa.string()),
        "keys": pa.array([_keys_of(message) or None for message in messages], pa.large_string()),
        "properties": pa.array(
            [list(message.properties.items()) or None for message in messages],
            pa.map_(pa.string(), pa.string()),
        ),
        "delay_level": pa.array([message.delay_level for message in messages], pa.int8()),
        "flag": pa.array([message.flag for message in messages], pa.int64()),
    }
    table = pa.table(columns)
    size = max(1, -(-len(messages) // chunks))
    return pa.concat_tables([table.slice(at, size) for at in range(0, len(messages), size)] or [table])
