"""The record block: encoded records, one behind the other, on their way into the log.

columns_encoder.py makes it without a lock; the sink of Spark keeps it in a file for a while.
store/log/log_appender.py completes it under the append lock and copies it into a segment in one piece. Then
its buffer may be used again (buffer_pool.py); the places stay.
Threads: one owner at a time; nothing in it is shared.
"""

import functools
from types import ModuleType

import msgspec
import numpy as np
import numpy.typing as npt

__all__ = ["AppendedBlock", "RecordBlock"]


@functools.cache
def _kernels() -> ModuleType:
    """The compiled loops. Cached, for an import statement costs a microsecond each time that it is run."""
    from mqstore.store.bulk import encode_kernels

    return encode_kernels


class RecordBlock(msgspec.Struct, frozen=True, eq=False):
    """Records that lack only what the append lock knows.

    buffer: uint8, writable. starts: int64, where each record begins, and behind the last. marks: uint8, bits
    of encode_kernels.py. queues: the (topic, queue id)s; groups: int32, for each record which of them.
    """

    buffer: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    marks: npt.NDArray[np.uint8]
    queues: list[tuple[str, int]]
    groups: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each record."""
        return self.starts[1:] - self.starts[:-1]

    def bytes_of(self, first: int, stop: int) -> memoryview:
        """The records of the rows from `first` to before `stop`."""
        return self.buffer.data[self.starts[first] : self.starts[stop]]

    def complete(
        self,
        first: int,
        stop: int,
        next_offsets: list[int],
        queue_offsets: npt.NDArray[np.int64],
        base_offset: int,
        store_timestamp: int,
    ) -> list[int]:
        """Fill in the places and times of some rows, and then their CRCs; under the append lock.

        next_offsets: of each queue; returns what they are afterwards. queue_offsets: filled, for each row.
        base_offset: physical offset of buffer[0].
        """
        offsets = np.array(next_offsets, np.int64)
        _kernels().complete_records(
            self.buffer,
            self.starts,
            self.marks,
            self.groups,
            offsets,
            queue_offsets,
            first,
            stop,
            base_offset,
            store_timestamp,
        )
        after: list[int] = offsets.tolist()
        return after


class AppendedBlock(msgspec.Struct, frozen=True, eq=False):
    """Where the records of a block went. queue_offsets, physical_offsets: int64, one for each record."""

    queue_offsets: npt.NDArray[np.int64]
    physical_offsets: npt.NDArray[np.int64]
    end_offset: int
    store_timestamp: int
