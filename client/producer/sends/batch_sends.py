"""The sends of batches: several messages to one queue, in SYNC or not.

What may be one batch is decided in message_batch.py; attempts are those of single messages.
Threads: any. Durability: as the result says.
Source: docs/spec/client_produce.md section 5; DefaultMQProducer#send(Collection).
"""

from collections.abc import Sequence

from mqstore.broker.broker import MessageQueue
from mqstore.client.producer.message.message_batch import make_batch
from mqstore.client.producer.message.outgoing import OutgoingBatch
from mqstore.client.producer.send_result import BatchSendResult
from mqstore.client.producer.sends.async_send import SendFuture
from mqstore.client.producer.sends.async_sends import AsyncSends, body_bytes_of, topic_of
from mqstore.client.producer.sends.send_kernel import Begun, Destination, SendKernel
from mqstore.client.producer.sends.send_parts import SendParts
from mqstore.client.producer.sends.send_retry import SendRetry
from mqstore.store.message.message import Message

__all__ = ["BatchSends"]


class BatchSends:
    """Sends batches of one producer."""

    def __init__(
        self, parts: SendParts, kernel: SendKernel, retry: SendRetry, async_sends: AsyncSends
    ) -> None:
        self._parts = parts
        self._kernel = kernel
        self._retry = retry
        self._async_sends = async_sends

    def send(
        self, messages: Sequence[Message], queue: MessageQueue | None, timeout_ms: int
    ) -> BatchSendResult:
        """Send them and wait. Raises as `Producer.send_batch`."""
        begin_s = self._parts.timer()
        batch = self._batch(messages)
        if queue is None:
            result = self._retry.send_outgoing(batch, begin_s, timeout_ms)
        else:
            begun = self._begin(batch, queue, begin_s)
            result = self._kernel.send_to(batch, begun.queue, begin_s, timeout_ms)
        assert isinstance(result, BatchSendResult)
        return result

    def send_async(
        self, messages: Sequence[Message], queue: MessageQueue | None, timeout_ms: int
    ) -> SendFuture[BatchSendResult]:
        """As `send`, without waiting; a thread of the producer waits for the disk."""
        topic = topic_of(messages[0]) if messages else ""
        size_bytes = sum([body_bytes_of(message) for message in messages])
        return self._async_sends.send(
            topic,
            size_bytes,
            lambda begin_s: self._begin(self._batch(messages), queue, begin_s),
            timeout_ms,
        )

    def _batch(self, messages: Sequence[Message]) -> OutgoingBatch:
        return make_batch(messages, self._parts.settings.max_message_size, self._parts.ids)

    def _begin(self, batch: OutgoingBatch, queue: MessageQueue | None, begin_s: float) -> Begun:
        return self._kernel.begin(batch.message, Destination(queue), begin_s, batch)

    def __repr__(self) -> str:
        return f"BatchSends({self._retry!r})"
