"""What a put returns: where the message lies and how far the log is durable.

For one message, for a list of messages, and for columns. They do not change: any thread may read them.
Source: PutMessageResult and AppendMessageResult of RocketMQ, in one value.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, overload

import msgspec
import numpy as np
import numpy.typing as npt

from mqstore.store.files.file_system import BytesLike
from mqstore.store.message.message import Message
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.record.message_id import encode_message_id
from mqstore.store.status import PutMessageStatus

__all__ = ["PutColumnsResult", "PutMessageResult", "PutMessageResults", "SentPut", "SentPuts"]


class PutMessageResult(msgspec.Struct, frozen=True, gc=False):
    """Outcome of one stored message.

    topic, queue_id: where the record is, after a delay rewrite. queue_offset: its entry number there.
    physical_offset: its first byte in the log. store_size: its bytes. store_timestamp: epoch ms.
    flushed_offset: the log was durable up to this byte when the put returned.

    >>> from mqstore import MessageStore, StoreConfig
    >>> with MessageStore.open("data", StoreConfig(flush_disk_type="SYNC_FLUSH")) as store:
    ...     put = store.put("orders", b"first")
    ...     put.status.name, put.topic, put.queue_offset, put.physical_offset, put.durable
    ('PUT_OK', 'orders', 0, 0, True)
    """

    status: PutMessageStatus
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int
    store_timestamp: int
    flushed_offset: int
    store_host: bytes

    @property
    def durable(self) -> bool:
        """Whether the record was on the disk when the put returned."""
        return self.end_offset <= self.flushed_offset

    @property
    def end_offset(self) -> int:
        """Byte of the log behind the record."""
        return self.physical_offset + self.store_size

    @property
    def delay_level(self) -> int:
        """The level of a message that waits; 0 for one that does not."""
        return self.queue_id + 1 if self.topic == SCHEDULE_TOPIC else 0

    @property
    def msg_id(self) -> str:
        """The offset message id."""
        return encode_message_id(self.store_host, self.physical_offset)


SentPut: TypeAlias = Callable[[Message, str, BytesLike, int, str], PutMessageResult | None]
"""Puts a message without properties, of which it is told topic and body, to a queue, with a UNIQ_KEY. None,
and nothing is changed, if it is to be put otherwise."""


class SentPuts(Protocol):
    """Puts what producers of this process send, until it is closed. Any thread may call it."""

    def put(
        self, message: Message, topic: str, body: BytesLike, queue_id: int, unique_key: str
    ) -> PutMessageResult | None:
        """As `SentPut`."""
        ...

    def close(self) -> None:
        """Have `put` answer None from now on."""
        ...


class PutMessageResults(Sequence[PutMessageResult]):
    """Outcomes of many messages, in their order; a slice is a list, and `==` compares with lists too.

    Each result is made when it is looked at: a caller that puts a thousand messages often asks only whether
    they were stored, and a thousand results would cost as much as storing them.

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

    @property
    def physical_offsets(self) -> list[int]:
        """Of each message."""
        found: list[int] = self._columns[2].tolist()
        return found

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
            status=status,
            topic=topic,
            queue_id=queue_id,
            queue_offset=int(queue_offsets[row]),
            physical_offset=int(physical_offsets[row]),
            store_size=int(starts[row + 1] - starts[row]),
            store_timestamp=store_timestamp,
            flushed_offset=flushed_offset,
            store_host=store_host,
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
        # By position, which is a fifth faster: there may be thousands.
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


@dataclass(frozen=True, slots=True, eq=False)
class PutColumnsResult:
    """Outcome of columns that were stored: one element a row.

    queue_offsets, physical_offsets, store_sizes: int64, as the fields of `PutMessageResult`; for a delayed
    row in the queue of its level. store_timestamp: epoch ms, of all rows. end_offset: byte of the log
    behind the last record. flushed_offset: the log was durable up to this byte when the put returned.
    """

    status: PutMessageStatus
    queue_offsets: npt.NDArray[np.int64]
    physical_offsets: npt.NDArray[np.int64]
    store_sizes: npt.NDArray[np.int64]
    store_timestamp: int
    end_offset: int
    flushed_offset: int

    @property
    def durable(self) -> bool:
        """Whether all records were on the disk when the put returned."""
        return self.end_offset <= self.flushed_offset

    def __len__(self) -> int:
        return len(self.physical_offsets)

    def __repr__(self) -> str:
        return (
            f"PutColumnsResult(status={self.status}, rows={len(self)}, end_offset={self.end_offset}, "
            f"flushed_offset={self.flushed_offset})"
        )
