"""What a put answers: where the message lies and how far the disk has followed.

Source: PutMessageResult and AppendMessageResult of RocketMQ, in one value.
"""

from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from mqstore.store.record.message_id import encode_message_id
from mqstore.store.status import PutMessageStatus

__all__ = ["PutColumnsResult", "PutMessageResult"]


class PutMessageResult(msgspec.Struct, frozen=True, gc=False):
    """Outcome of one stored message.

    topic, queue_id: where the record is, after a delay rewrite. queue_offset: its entry number there.
    physical_offset: its first byte in the log. store_size: its bytes. store_timestamp: epoch ms.
    flushed_offset: the log was durable up to this byte when the put returned.
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
    def msg_id(self) -> str:
        """The offset message id."""
        return encode_message_id(self.store_host, self.physical_offset)


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
