"""What a list of messages that were put answers: one result a message, made when it is looked at.

Whoever puts a thousand messages often asks only whether they were stored, and a thousand results would cost
as much as storing them. Not a list, for nothing is ever added; else it can be used as one.
Threads: any; it does not change.
"""

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.status import PutMessageStatus

__all__ = ["PutMessageResults"]


class PutMessageResults(Sequence[PutMessageResult]):
    """Outcome of many messages, in their order; a slice is a list, and `==` compares with lists too.

    queues: the different (topic, queue id)s. groups: int, for each message which of them. queue_offsets,
    physical_offsets: int64, for each message. starts: int64, of each record and behind the last, counted from
    anywhere. The others are those of each result.
    """

    __slots__ = ("_columns", "_of_all", "_queues")

    def __init__(
        self,
        status: PutMessageStatus,
        queues: list[tuple[str, int]],
        groups: npt.NDArray[np.integer],
        queue_offsets: npt.NDArray[np.int64],
        physical_offsets: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        store_timestamp: int,
        flushed_offset: int,
        store_host: bytes,
    ) -> None:
        self._queues = queues
        self._columns = groups, queue_offsets, physical_offsets, starts
        self._of_all = status, store_timestamp, flushed_offset, store_host

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, index: int) -> PutMessageResult: ...

    @overload
    def __getitem__(self, index: slice) -> list[PutMessageResult]: ...

    def __getitem__(self, index: int | slice) -> PutMessageResult | list[PutMessageResult]:
        rows = range(len(self))[index]
        if isinstance(rows, range):
            return [self._result_of(row) for row in rows]
        return self._result_of(rows)

    def _result_of(self, row: int) -> PutMessageResult:
        groups, queue_offsets, physical_offsets, starts = self._columns
        status, store_timestamp, flushed_offset, store_host = self._of_all
        topic, queue_id = self._queues[groups[row]]
        return PutMessageResult(
            status,
            topic,
            queue_id,
            int(queue_offsets[row]),
            int(physical_offsets[row]),
            int(starts[row + 1] - starts[row]),
            store_timestamp,
            flushed_offset,
            store_host,
        )

    def __iter__(self) -> Iterator[PutMessageResult]:
        groups, queue_offsets, physical_offsets, starts = self._columns
        status, store_timestamp, flushed_offset, store_host = self._of_all
        places = zip(
            map(self._queues.__getitem__, groups.tolist()),
            queue_offsets.tolist(),
            physical_offsets.tolist(),
            np.diff(starts).tolist(),
            strict=True,
        )
        return (
            PutMessageResult(
                status,
                topic,
                queue_id,
                queue_offset,
                physical_offset,
                size,
                store_timestamp,
                flushed_offset,
                store_host,
            )
            for (topic, queue_id), queue_offset, physical_offset, size in places
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PutMessageResults | list):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        status, _, flushed_offset, _ = self._of_all
        return f"PutMessageResults(status={status}, messages={len(self)}, flushed_offset={flushed_offset})"
