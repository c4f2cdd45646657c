"""Records of one piece of a segment: their bytes, where the parts of each are, and arrays of these parts.

Arrays are copies in Arrow's own memory, so the buffer may be reused for the next piece. Only the arrays of
`Records.lent` and `sent_lent` refer to it. Which column each array becomes: record_columns.py. Loops over
records: column_kernels.py.
Threads: any.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqstore.index.arrow import column_kernels
from mqstore.store.record.record_format import IPV6_EXTRA_BYTES, STORE_TIMESTAMP_POSITION
from mqstore.store.record.sys_flag import BORN_HOST_V6

__all__ = ["Pairs", "Records", "SentBodies"]

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

# Room for this many properties a record is allocated without a count; if more are possible, they are counted.
_ROOM_FOR_PAIRS = 64


class Pairs(NamedTuple):
    """The properties of records, split into pairs (column_kernels.py, `split_pairs`)."""

    first_pairs: Int32s
    pairs: Int32s


class SentBodies(NamedTuple):
    """Bodies shown as they were sent, not as stored: their rows, ascending, and the bodies.

    The list of bodies is empty if no column needs them (sent_bodies.py).
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
        """The records where `mask` is true; to be called before bodies are decompressed."""
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

    def pieces(self, starts: Int32s, lengths: Int32s) -> tuple[bool, pa.Buffer, pa.Buffer]:
        """(whether a length is negative, offsets and data of an Arrow array of the given pieces).

        A piece of a negative length is empty.
        """
        total_bytes, has_negative = column_kernels.total_length(lengths)
        offsets = pa.allocate_buffer((starts.size + 1) * 4)
        data = pa.allocate_buffer(total_bytes + column_kernels.PIECE_ROOM)
        column_kernels.take_bytes(
            self.buffer, starts, lengths, np.frombuffer(offsets, np.int32), np.frombuffer(data, np.uint8)
        )
        return has_negative, offsets, data.slice(0, total_bytes)

    def distinct(self, starts: Int32s, lengths: Int32s) -> tuple[Int32s, Int32s]:
        """(number of the distinct piece that each piece is, index of the first piece of each number)."""
        slots = np.full(2 << int(starts.size).bit_length(), -1, np.int32)
        numbers, firsts = np.empty((2, starts.size), np.int32)
        count = column_kernels.number_distinct(self.buffer, starts, lengths, slots, numbers, firsts)
        return numbers, firsts[:count]

    def binary(self, starts: Int32s, lengths: Int32s) -> pa.Array:
        """A binary array of the given pieces; those of a negative length are empty."""
        _, offsets, data = self.pieces(starts, lengths)
        return pa.Array.from_buffers(pa.binary(), starts.size, [None, offsets, data])

    def string(self, starts: Int32s, lengths: Int32s) -> pa.Array:
        """A string array of the given pieces; those of a negative length are null."""
        has_nulls, offsets, data = self.pieces(starts, lengths)
        present = pa.py_buffer(np.packbits(lengths >= 0, bitorder="little")) if has_nulls else None
        buffers = [present, offsets, data]
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
        """The bodies as a binary_view array: those of `sent` from a copy, the others from the buffer."""
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
    def starts(self) -> Int32s:
        """Where the records begin."""
        starts: Int32s = self.layout[column_kernels.POSITION]
        return starts

    @property
    def sys_flags(self) -> Int32s:
        """The sys flags as stored."""
        sys_flags: Int32s = self.layout[column_kernels.SYS_FLAG]
        return sys_flags

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
    """The pieces concatenated, where each begins, and their lengths."""
    lengths = np.fromiter(map(len, pieces), np.int32, len(pieces))
    starts = np.cumsum(lengths, dtype=np.int32) - lengths
    return np.frombuffer(b"".join(pieces), np.uint8), starts, lengths


def _decoded(texts: pa.Array) -> pa.Array:
    """Strings that are not UTF-8, decoded as StoredMessage does: readers of Arrow rely on valid UTF-8."""
    stored = texts.to_pylist()
    return pa.array([None if text is None else str(text, "utf-8", "replace") for text in stored], pa.string())
