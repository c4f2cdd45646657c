"""What a send returns: whether the message is stored, where, and under which ids.

Values that do not change: any thread may read them. Their parts are made when they are looked at, since most
callers look only at `send_status`.
Source: SendResult, SendStatus, TransactionSendResult of Apache RocketMQ; docs/spec/client_consume.md
section 7.
"""

import enum
from collections.abc import Sequence

import msgspec

from mqstore.broker.broker import MessageQueue, TransactionState
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.status import ResponseCode

__all__ = ["BatchSendResult", "SendResult", "SendStatus", "TransactionSendResult"]


class SendStatus(enum.Enum):
    """How sure it is that the message will not be lost; it is stored in all four cases."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


_STATUS_OF_ANSWER = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """Outcome of one message that was sent.

    msg_id: its UNIQ_KEY, by which `query_message` finds it. message_queue: where it was sent. put: what the
    broker says of it; a delayed message lies in another topic until it is due.
    """

    msg_id: str
    message_queue: MessageQueue
    put: PutMessageResult

    @property
    def send_status(self) -> SendStatus:
        """SEND_OK, or what the broker could not do in time."""
        return _STATUS_OF_ANSWER[self.put.status.response_code]

    @property
    def offset_msg_id(self) -> str:
        """The id that tells the store and the physical offset."""
        return self.put.msg_id

    @property
    def queue_offset(self) -> int:
        """The number of the message in its queue."""
        return self.put.queue_offset

    @property
    def transaction_id(self) -> str:
        """The id of its transaction: as `msg_id`."""
        return self.msg_id

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.send_status.name}, msg_id={self.msg_id!r}, "
            f"message_queue={self.message_queue!r}, queue_offset={self.queue_offset})"
        )


class BatchSendResult(SendResult, frozen=True, gc=False):
    """Outcome of a batch: `msg_id` and `offset_msg_id` have commas between the ids of its messages.

    put, queue_offset: of the first message. puts: of all, in their order.
    """

    puts: Sequence[PutMessageResult]

    @property
    def offset_msg_id(self) -> str:
        """The ids of all messages, with commas in between."""
        return ",".join(put.msg_id for put in self.puts)

    @property
    def each(self) -> list[SendResult]:
        """The outcome of each message, in their order."""
        ids = self.msg_id.split(",")
        return [
            SendResult(msg_id, self.message_queue, put) for msg_id, put in zip(ids, self.puts, strict=True)
        ]


class TransactionSendResult(SendResult, frozen=True, gc=False):
    """Outcome of a message in a transaction: of its half, and what the local transaction came to."""

    local_transaction_state: TransactionState
