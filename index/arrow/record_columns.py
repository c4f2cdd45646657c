"""The Arrow columns of records: what each is called, its type, and how it is made.

`build_column` makes one column. Columns have the names that `StoredMessage` gives the fields;
tools/spark/schema.py has Spark's. The bytes of the records, and arrays of their parts: records.py.
Strings with few distinct values (hosts) are made once per value.
Threads: any; `build_columns` may use a second one while it runs.
"""

from collections import deque
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa

from mqstore.index.arrow import column_kernels
from mqstore.index.arrow.records import Int32s, Int64s, Records
from mqstore.store.record.host import Host
from mqstore.store.record.properties_format import KEYS, TAGS
from mqstore.store.record.record_format import (
    BORN_TIMESTAMP_POSITION,
    FLAG_POSITION,
    PHYSICAL_OFFSET_POSITION,
    QUEUE_ID_POSITION,
    QUEUE_OFFSET_POSITION,
    STORE_HOST_END_BEFORE_BODY,
)
from mqstore.store.record.sys_flag import COMPRESSED
from mqstore.store.threads.run_in_thread import run_in_thread

__all__ = ["SCHEMA", "build_column", "build_columns", "repeated_text"]

# Python's calendar has the years 1 to 9999; a day less, for it may show them in any time zone.
_LEAST_MS, _MOST_MS = -62_135_510_400_000, 253_402_214_399_999
# Copying this many bytes of bodies takes longer than starting a thread.
_BESIDE_BYTES = 4 << 20
_TIME = pa.timestamp("ms", tz="UTC")

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("queue_id", pa.int32(), nullable=False),
        pa.field("queue_offset", pa.int64(), nullable=False),
        pa.field("physical_offset", pa.int64(), nullable=False),
        pa.field("tags", pa.string()),
        pa.field("keys", pa.string()),
        pa.field("body", pa.binary(), nullable=False),
        pa.field("properties", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("flag", pa.int32(), nullable=False),
        pa.field("sys_flag", pa.int32(), nullable=False),
        pa.field("born_timestamp", _TIME, nullable=False),
        pa.field("store_timestamp", _TIME, nullable=False),
        pa.field("born_host", pa.string(), nullable=False),
        pa.field("store_host", pa.string(), nullable=False),
        pa.field("reconsume_times", pa.int32(), nullable=False),
        pa.field("store_size", pa.int32(), nullable=False),
    ]
)
"""All columns; `keys` is the property as stored, its keys separated by blanks."""


def build_columns(records: Records, schema: pa.Schema) -> list[pa.Array]:
    """The columns of `schema`, each as `build_column` makes it.

    If many bodies are copied, two threads share the columns: one processor alone does not use the whole
    bandwidth of the memory.
    """
    waiting = deque(sorted(schema, key=_body_first))
    columns: dict[str, pa.Array] = {}

    def build_waiting() -> None:
        while True:
            try:
                field = waiting.popleft()
            except IndexError:
                return
            columns[field.name] = build_column(field.name, records, field.type)

    if len(schema) > 1 and _copied_bytes(records, schema) >= _BESIDE_BYTES:
        other = run_in_thread(build_waiting)
        build_waiting()
        other.result()
    build_waiting()
    return [columns[name] for name in schema.names]


def _body_first(field: pa.Field) -> bool:
    return bool(field.name != "body")


def _copied_bytes(records: Records, schema: pa.Schema) -> int:
    """How many bytes of bodies a table of `schema` copies."""
    if pa.binary() not in schema.types:
        return 0
    return int(records.layout[column_kernels.BODY_LENGTH].sum(dtype=np.int64))


def build_column(name: str, records: Records, arrow_type: pa.DataType) -> pa.Array:
    """The column `name` of `records`, of the type in SCHEMA or Spark's type for it.

    Besides those of SCHEMA there are body_size (int32, bytes of the body as stored), born_timestamp_ms and
    store_timestamp_ms (int64, epoch ms as stored).

    arrow_type: binary_view for bodies that are not copied; timestamps in ms or us; the fields of a map.
    """
    make = _COLUMNS.get(name) or _FURTHER_COLUMNS[name]
    return make(records, arrow_type)


def repeated_text(text: str, count: int) -> pa.Array:
    """A string array of `count` times `text`. `pa.repeat` would import pandas, as `pa.array` does."""
    data = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data * count)]
    )


def _numbers(values: Int32s | Int64s, arrow_type: pa.DataType | None = None) -> pa.Array:
    """An array that refers to `values`: `pa.array` would import pandas, which takes a quarter of a second."""
    arrow_type = pa.from_numpy_dtype(values.dtype) if arrow_type is None else arrow_type
    return pa.Array.from_buffers(arrow_type, values.size, [None, pa.py_buffer(values)])


def _topic(records: Records, _: pa.DataType) -> pa.Array:
    return records.string(
        records.layout[column_kernels.TOPIC_START], records.layout[column_kernels.TOPIC_LENGTH]
    )


def _body(records: Records, arrow_type: pa.DataType) -> pa.Array:
    is_lent = arrow_type == pa.binary_view()
    if records.sent is not None:
        return records.sent_lent(records.sent) if is_lent else records.sent_binary(records.sent)
    make = records.lent if is_lent else records.binary
    return make(records.layout[column_kernels.BODY_START], records.layout[column_kernels.BODY_LENGTH])


def _sys_flag(records: Records, _: pa.DataType) -> pa.Array:
    """COMPRESSED is set if the body of the same row is compressed."""
    sys_flags = records.layout[column_kernels.SYS_FLAG].copy()
    if records.sent is not None:
        sys_flags[records.sent.rows] &= ~COMPRESSED
    return _numbers(sys_flags)


def _store_size(records: Records, _: pa.DataType) -> pa.Array:
    # The layout is reused, and Arrow would refer to it.
    return _numbers(records.layout[column_kernels.SIZE].copy())


def _body_size(records: Records, _: pa.DataType) -> pa.Array:
    return _numbers(records.layout[column_kernels.BODY_LENGTH].copy())


def _store_timestamp_ms(records: Records, _: pa.DataType) -> pa.Array:
    return _numbers(records.store_timestamps_ms)


def _reconsume_times(records: Records, _: pa.DataType) -> pa.Array:
    return _numbers(records.int32(records.layout[column_kernels.BODY_START], -STORE_HOST_END_BEFORE_BODY))


def _int_at(distance: int) -> Callable[[Records, pa.DataType], pa.Array]:
    def column(records: Records, _: pa.DataType) -> pa.Array:
        return _numbers(records.int32(records.layout[column_kernels.POSITION], distance))

    return column


def _long_at(distance: int) -> Callable[[Records, pa.DataType], pa.Array]:
    def column(records: Records, _: pa.DataType) -> pa.Array:
        return _numbers(records.int64(records.layout[column_kernels.POSITION], distance))

    return column


def _timestamp(epoch_ms: Int64s, arrow_type: pa.DataType) -> pa.Array:
    """Spark counts microseconds; a time that is not in Python's calendar becomes the nearest that is."""
    times = epoch_ms
    if arrow_type.unit != "ms":
        if times.min(initial=0) < _LEAST_MS or times.max(initial=0) > _MOST_MS:
            times = np.clip(times, _LEAST_MS, _MOST_MS)
        times = times * 1000
    return _numbers(times, arrow_type)


def _born_timestamp(records: Records, arrow_type: pa.DataType) -> pa.Array:
    return _timestamp(
        records.int64(records.layout[column_kernels.POSITION], BORN_TIMESTAMP_POSITION), arrow_type
    )


def _store_timestamp(records: Records, arrow_type: pa.DataType) -> pa.Array:
    return _timestamp(records.store_timestamps_ms, arrow_type)


def _born_host(records: Records, _: pa.DataType) -> pa.Array:
    starts = records.layout[column_kernels.POSITION] + np.int32(BORN_TIMESTAMP_POSITION + 8)
    return _hosts(records, starts, records.store_timestamp_starts)


def _store_host(records: Records, _: pa.DataType) -> pa.Array:
    starts = records.store_timestamp_starts + np.int32(8)
    return _hosts(
        records, starts, records.layout[column_kernels.BODY_START] - np.int32(STORE_HOST_END_BEFORE_BODY)
    )


def _hosts(records: Records, starts: Int32s, ends: Int32s) -> pa.Array:
    numbers, firsts = records.distinct(starts, ends - starts)
    if firsts.size == 1:
        return repeated_text(_host_text(bytes(records.buffer[starts[0] : ends[0]])), numbers.size)
    texts = [_host_text(bytes(records.buffer[starts[first] : ends[first]])) for first in firsts.tolist()]
    distinct = Records(np.frombuffer("".join(texts).encode(), np.uint8), records.layout)
    lengths = np.array([len(text) for text in texts], np.int32)
    starts = np.cumsum(lengths, dtype=np.int32) - lengths
    return distinct.string(starts[numbers], lengths[numbers])


@lru_cache(maxsize=4096)
def _host_text(stored: bytes) -> str:
    return str(Host.decode(stored))


def _property(name: str) -> Callable[[Records, pa.DataType], pa.Array]:
    def column(records: Records, _: pa.DataType) -> pa.Array:
        return records.string(*records.find_property(name))

    return column


def _properties(records: Records, arrow_type: pa.DataType) -> pa.Array:
    first_pairs, pairs = records.pairs
    entries = pa.StructArray.from_arrays(
        [records.string(pairs[0], pairs[1]), records.string(pairs[2], pairs[3])],
        fields=[arrow_type.key_field, arrow_type.item_field],
    )
    offsets = pa.py_buffer(first_pairs)
    return pa.Array.from_buffers(arrow_type, len(records), [None, offsets], children=[entries])


_COLUMNS: dict[str, Callable[[Records, pa.DataType], pa.Array]] = {
    "topic": _topic,
    "queue_id": _int_at(QUEUE_ID_POSITION),
    "queue_offset": _long_at(QUEUE_OFFSET_POSITION),
    "physical_offset": _long_at(PHYSICAL_OFFSET_POSITION),
    "tags": _property(TAGS),
    "keys": _property(KEYS),
    "body": _body,
    "properties": _properties,
    "flag": _int_at(FLAG_POSITION),
    "sys_flag": _sys_flag,
    "born_timestamp": _born_timestamp,
    "store_timestamp": _store_timestamp,
    "born_host": _born_host,
    "store_host": _store_host,
    "reconsume_times": _reconsume_times,
    "store_size": _store_size,
}

# Not in SCHEMA: for readers that ask for them by name.
_FURTHER_COLUMNS: dict[str, Callable[[Records, pa.DataType], pa.Array]] = {
    "body_size": _body_size,
    "born_timestamp_ms": _long_at(BORN_TIMESTAMP_POSITION),
    "store_timestamp_ms": _store_timestamp_ms,
}

assert list(_COLUMNS) == SCHEMA.names
