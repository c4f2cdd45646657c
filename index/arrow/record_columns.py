"""Records: what was laid out of one piece of a segment, and the Arrow columns made of it.

`build_column` makes one column. Arrays are copies in Arrow's own memory, so the buffer may be reused for the
next piece; `Records.lent` alone lends from it.
Columns have the names that `StoredMessage` gives the fields; tools/spark/schema.py has Spark's.
Loops over records are in column_kernels.py; strings with few distinct values (hosts) are made once per value.
Threads: any; `build_columns` may take a second one while it works.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqstore.index.arrow import column_kernels
from mqstore.store.record.host import Host
from mqstore.store.record.properties_format import KEYS, TAGS
from mqstore.store.record.record_format import IPV6_EXTRA_BYTES, STORE_TIMESTAMP_POSITION
from mqstore.store.record.sys_flag import BORN_HOST_V6, COMPRESSED
from mqstore.store.threads.run_in_thread import run_in_thread

__all__ = ["SCHEMA", "Records", "SentBodies", "build_column", "build_columns"]

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_MAX_MS = (2**63 - 1) // 1000
# Room for so many properties of a record is taken unseen; for more they are counted first.
_ROOM_FOR_PAIRS = 16
# So many bytes of bodies take longer to copy than a thread to start.
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
"""All columns; `keys` is the property as stored, its keys parted by blanks."""


class Pairs(NamedTuple):
    """The properties of records, split into pairs (column_kernels.py, `split_pairs`)."""

    first_pairs: Int32s
    pairs: Int32s


class SentBodies(NamedTuple):
    """Bodies that are not shown as stored but as they were sent: which rows, ascending, and their bodies.

    No bodies at all where no column needs them (sent_bodies.py).
    """

    rows: Int64s
    bodies: list[bytes]


@dataclass(frozen=True)
class Records:
    """Whole records: their bytes, and where the parts of each are (column_kernels.py, `layout`)."""

    buffer: Bytes
    layout: Int32s
    sent: SentBodies | None = None

    def __len__(self) -> int:
        return int(self.layout.shape[1])

    def select(self, mask: npt.NDArray[np.bool_]) -> "Records":
        """The records where `mask` is true; chosen before bodies are decompressed."""
        assert self.sent is None
        return self if mask.all() else Records(self.buffer, np.ascontiguousarray(self.layout[:, mask]))

    def int32(self, starts: Int32s, distance: int = 0) -> Int32s:
        """The int at that distance from each start."""
        values = np.empty(starts.size, np.int32)
        column_kernels.take_int32(self.buffer, starts, distance, values)
        return values

    def int64(self, starts: Int32s, distance: int = 0) -> Int64s:
        """The long at that distance from each start."""
        values = np.empty(starts.size, np.int64)
        column_kernels.take_int64(self.buffer, starts, distance, values)
        return values

    def pieces(self, starts: Int32s, lengths: Int32s) -> tuple[pa.Buffer, pa.Buffer]:
        """Offsets and data of an Arrow array of the given pieces of the buffer."""
        offsets = pa.allocate_buffer((starts.size + 1) * 4)
        total_bytes = int(np.maximum(lengths, 0).sum(dtype=np.int64))
        data = pa.allocate_buffer(total_bytes + column_kernels.PIECE_ROOM)
        column_kernels.take_bytes(
            self.buffer, starts, lengths, np.frombuffer(offsets, np.int32), np.frombuffer(data, np.uint8)
        )
        return offsets, data.slice(0, total_bytes)

    def distinct(self, starts: Int32s, lengths: Int32s) -> tuple[Int32s, Int32s]:
        """(which of the distinct pieces each piece is, where each of these comes first)."""
        slots = np.full(2 << int(starts.size).bit_length(), -1, np.int32)
        numbers, firsts = np.empty((2, starts.size), np.int32)
        count = column_kernels.number_distinct(self.buffer, starts, lengths, slots, numbers, firsts)
        return numbers, firsts[:count]

    def binary(self, starts: Int32s, lengths: Int32s) -> pa.Array:
        """A binary array of the given pieces."""
        return pa.Array.from_buffers(pa.binary(), starts.size, [None, *self.pieces(starts, lengths)])

    def string(self, starts: Int32s, lengths: Int32s) -> pa.Array:
        """A string array of the given pieces; those of a negative length are null."""
        present = np.packbits(lengths >= 0, bitorder="little") if (lengths < 0).any() else None
        offsets, data = self.pieces(starts, lengths)
        nulls = pa.py_buffer(present) if present is not None else None
        buffers = [nulls, offsets, data]
        if column_kernels.are_texts(
            np.frombuffer(data, np.uint8), data.size, np.frombuffer(offsets, np.int32)
        ):
            return pa.Array.from_buffers(pa.string(), starts.size, buffers)
        return _decoded(pa.Array.from_buffers(pa.binary(), starts.size, buffers))

    def lent(self, starts: Int32s, lengths: Int32s) -> pa.Array:
        """A binary_view array of the given pieces, which stay in the buffer and keep it alive."""
        views = np.empty(4 * starts.size, np.int32)
        column_kernels.lend_bytes(self.buffer, starts, lengths, 0, views)
        return pa.Array.from_buffers(
            pa.binary_view(), starts.size, [None, pa.py_buffer(views), pa.py_buffer(self.buffer)]
        )

    def sent_binary(self, sent: SentBodies) -> pa.Array:
        """The bodies as a binary array, those of `sent` as they were sent."""
        starts, lengths = self.layout[column_kernels.BODY_START], self.layout[column_kernels.BODY_LENGTH]
        is_stored = np.ones(len(self), np.bool_)
        is_stored[sent.rows] = False
        order = np.empty(len(self), np.int64)
        order[is_stored] = np.arange(len(self) - sent.rows.size)
        order[sent.rows] = np.arange(len(self) - sent.rows.size, len(self))
        stored = self.binary(starts[is_stored], lengths[is_stored])
        both = pa.concat_arrays([stored, pa.array(sent.bodies, pa.binary())])
        return both.take(pa.array(order))

    def sent_lent(self, sent: SentBodies) -> pa.Array:
        """The bodies as a binary_view array: those of `sent` from a copy, the others lent from the buffer."""
        copy, starts, lengths = _joined(sent.bodies)
        views, sent_views = np.empty((len(self), 4), np.int32), np.empty((starts.size, 4), np.int32)
        stored_lengths = self.layout[column_kernels.BODY_LENGTH].copy()
        stored_lengths[sent.rows] = 0
        column_kernels.lend_bytes(
            self.buffer, self.layout[column_kernels.BODY_START], stored_lengths, 0, views.reshape(-1)
        )
        column_kernels.lend_bytes(copy, starts, lengths, 1, sent_views.reshape(-1))
        views[sent.rows] = sent_views
        buffers = [None, *map(pa.py_buffer, (views, self.buffer, copy))]
        return pa.Array.from_buffers(pa.binary_view(), len(self), buffers)

    @property
    def topics(self) -> pa.Array:
        """The topics as binary."""
        return self.binary(self.layout[column_kernels.TOPIC_START], self.layout[column_kernels.TOPIC_LENGTH])

    @property
    def store_timestamps_ms(self) -> Int64s:
        """The store timestamps, epoch ms."""
        return self.int64(self.store_timestamp_starts)

    @cached_property
    def store_timestamp_starts(self) -> Int32s:
        """Where the store timestamps lie: behind the born hosts, which are longer with IPv6."""
        starts: Int32s = self.layout[column_kernels.POSITION] + np.int32(STORE_TIMESTAMP_POSITION)
        sys_flags = self.layout[column_kernels.SYS_FLAG]
        if np.bitwise_or.reduce(sys_flags) & BORN_HOST_V6:
            starts[sys_flags & BORN_HOST_V6 != 0] += IPV6_EXTRA_BYTES
        return starts

    @cached_property
    def pairs(self) -> Pairs:
        """The properties of all records."""
        starts = self.layout[column_kernels.PROPERTIES_START]
        lengths = self.layout[column_kernels.PROPERTIES_LENGTH]
        # A pair has four bytes at least, the last one three.
        room = (int(lengths.sum(dtype=np.int64)) + len(self)) // 4
        if room > _ROOM_FOR_PAIRS * len(self):
            room = column_kernels.count_pairs(self.buffer, starts, lengths)
        pairs = np.empty((4, room), np.int32)
        first_pairs = np.empty(len(self) + 1, np.int32)
        count = column_kernels.split_pairs(self.buffer, starts, lengths, first_pairs, pairs)
        return Pairs(first_pairs, pairs[:, :count])

    def find_property(self, name: str) -> tuple[Int32s, Int32s]:
        """Start and length of a property's value in each record; length -1 where it has none."""
        value_starts = np.empty(len(self), np.int32)
        value_lengths = np.empty(len(self), np.int32)
        column_kernels.find_values(
            self.buffer, *self.pairs, np.frombuffer(name.encode(), np.uint8), value_starts, value_lengths
        )
        return value_starts, value_lengths


def _joined(pieces: list[bytes]) -> tuple[Bytes, Int32s, Int32s]:
    """The pieces one behind the other, where each begins, and their lengths."""
    lengths = np.fromiter(map(len, pieces), np.int32, len(pieces))
    starts = np.cumsum(lengths, dtype=np.int32) - lengths
    return np.frombuffer(b"".join(pieces), np.uint8), starts, lengths


def _decoded(texts: pa.Array) -> pa.Array:
    """The strings as StoredMessage decodes them, where they are no UTF-8: other readers trust in Arrow's."""
    stored = texts.to_pylist()
    return pa.array([None if text is None else str(text, "utf-8", "replace") for text in stored], pa.string())


def build_columns(records: Records, schema: pa.Schema) -> list[pa.Array]:
    """The columns of `schema`, each as `build_column` makes it.

    Where many bodies are copied, two threads take the columns one after another: a processor alone cannot
    ask memory for bodies as fast as memory gives.
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
    """How many bytes of bodies a table of `schema` has a copy of."""
    if pa.binary() not in schema.types:
        return 0
    return int(records.layout[column_kernels.BODY_LENGTH].sum(dtype=np.int64))


def build_column(name: str, records: Records, arrow_type: pa.DataType) -> pa.Array:
    """The column `name` of `records`, of the type of SCHEMA or what Spark has instead.

    arrow_type: binary_view for bodies that are lent; timestamps in ms or us; the fields of a map.
    """
    return _COLUMNS[name](records, arrow_type)


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
    """COMPRESSED says how the body of the same row is."""
    sys_flags = records.layout[column_kernels.SYS_FLAG].copy()
    if records.sent is not None:
        sys_flags[records.sent.rows] &= ~COMPRESSED
    return pa.array(sys_flags)


def _store_size(records: Records, _: pa.DataType) -> pa.Array:
    return pa.array(
        records.layout[column_kernels.SIZE].copy()
    )  # the layout is reused, Arrow would refer to it


def _reconsume_times(records: Records, _: pa.DataType) -> pa.Array:
    return pa.array(records.int32(records.layout[column_kernels.BODY_START], -16))


def _int_at(distance: int) -> Callable[[Records, pa.DataType], pa.Array]:
    def column(records: Records, _: pa.DataType) -> pa.Array:
        return pa.array(records.int32(records.layout[column_kernels.POSITION], distance))

    return column


def _long_at(distance: int) -> Callable[[Records, pa.DataType], pa.Array]:
    def column(records: Records, _: pa.DataType) -> pa.Array:
        return pa.array(records.int64(records.layout[column_kernels.POSITION], distance))

    return column


def _timestamp(epoch_ms: Int64s, arrow_type: pa.DataType) -> pa.Array:
    """Spark counts microseconds; a time that does not fit into them becomes the last that does."""
    if arrow_type.unit == "ms":
        return pa.array(epoch_ms).view(arrow_type)
    return pa.array(np.clip(epoch_ms, -_MAX_MS, _MAX_MS) * 1000).view(arrow_type)


def _born_timestamp(records: Records, arrow_type: pa.DataType) -> pa.Array:
    return _timestamp(records.int64(records.layout[column_kernels.POSITION], 40), arrow_type)


def _store_timestamp(records: Records, arrow_type: pa.DataType) -> pa.Array:
    return _timestamp(records.store_timestamps_ms, arrow_type)


def _born_host(records: Records, _: pa.DataType) -> pa.Array:
    starts = records.layout[column_kernels.POSITION] + np.int32(48)
    return _hosts(records, starts, records.store_timestamp_starts)


def _store_host(records: Records, _: pa.DataType) -> pa.Array:
    starts = records.store_timestamp_starts + np.int32(8)
    return _hosts(records, starts, records.layout[column_kernels.BODY_START] - np.int32(16))


def _hosts(records: Records, starts: Int32s, ends: Int32s) -> pa.Array:
    numbers, firsts = records.distinct(starts, ends - starts)
    texts = [_host_text(bytes(records.buffer[starts[first] : ends[first]])) for first in firsts.tolist()]
    distinct = Records(np.frombuffer("".join(texts).encode(), np.uint8), records.layout)
    lengths = np.array([len(text) for text in texts], np.int32)
    starts = np.cumsum(lengths, dtype=np.int32) - lengths
    return pa.Array.from_buffers(
        pa.string(), numbers.size, [None, *distinct.pieces(starts[numbers], lengths[numbers])]
    )


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
    "queue_id": _int_at(12),
    "queue_offset": _long_at(20),
    "physical_offset": _long_at(28),
    "tags": _property(TAGS),
    "keys": _property(KEYS),
    "body": _body,
    "properties": _properties,
    "flag": _int_at(16),
    "sys_flag": _sys_flag,
    "born_timestamp": _born_timestamp,
    "store_timestamp": _store_timestamp,
    "born_host": _born_host,
    "store_host": _store_host,
    "reconsume_times": _reconsume_times,
    "store_size": _store_size,
}

assert list(_COLUMNS) == SCHEMA.names
