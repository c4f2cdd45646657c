"""What a put answers: where the message lies and how far the disk has followed.

Source: PutMessageResult and AppendMessageResult of RocketMQ, in one value.
"""

import msgspec

from mqstore.store.message_id import encode_message_id
from mqstore.store.status import PutMessageStatus

__all__ = ["PutMessageResult"]


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
        return self.physical_offset + self.store_size <= self.flushed_offset

    @property
    def msg_id(self) -> str:
        """The offset message id."""
        return encode_message_id(self.store_host, self.physical_offset)
