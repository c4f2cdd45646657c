"""What a send hands to a broker: one message, a batch, or the half of a transaction, ready to be stored.

It is made once for a send, so all attempts carry the same UNIQ_KEY: a message that is stored twice can be
told by it. The message that the caller gave is never changed.
Threads: any. Durability: as the broker says in its result.
Source: docs/spec/client_produce.md sections 2 and 5; DefaultMQProducerImpl#sendKernelImpl of Apache RocketMQ.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec

from mqstore.broker.broker import Broker, MessageQueue
from mqstore.client.producer.message.body_compression import BodyCompression
from mqstore.client.producer.message.reply_message import is_reply
from mqstore.client.producer.message.unique_id import UniqueIds
from mqstore.client.producer.send_result import BatchSendResult, SendResult
from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.message.message_encoder import refuse_mistyped
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.record.properties_format import UNIQ_KEY

__all__ = ["Outgoing", "OutgoingBatch", "OutgoingHalf", "OutgoingMessage", "prepare", "with_unique_key"]


class Outgoing(Protocol):
    """Something to send to a queue."""

    @property
    def message(self) -> Message:
        """As it is sent, but for the queue; of a batch, the first message."""
        ...

    @property
    def messages(self) -> Sequence[Message]:
        """All messages, as they are sent."""
        ...

    def with_properties(self, properties: Mapping[str, str]) -> "Outgoing":
        """The same with more properties; a message that has one of them already is left as it is."""
        ...

    def send(self, broker: Broker, queue: MessageQueue, timeout_ms: int) -> SendResult:
        """Have the broker store it, and wait for its answer."""
        ...

    def send_async(self, broker: Broker, queue: MessageQueue, timeout_ms: int) -> "Future[Any]":
        """As `send`; the caller need not wait. Raises what the broker knows at once."""
        ...

    def result_of(self, queue: MessageQueue, answer: Any) -> SendResult:
        """What a send returns, from what the future of `send_async` gave."""
        ...


def with_unique_key(message: Message, ids: UniqueIds) -> tuple[Message, str]:
    """The message with a UNIQ_KEY, new unless it has one, and that key.

    Raises MessageIllegal for a field of a wrong type.
    """
    try:
        if message.properties is NO_PROPERTIES:
            unique_key = ids.create()
            return msgspec.structs.replace(message, properties={UNIQ_KEY: unique_key}), unique_key
        known = message.properties.get(UNIQ_KEY)
        if known is not None:
            return message, known
        unique_key = ids.create()
        properties = {**message.properties, UNIQ_KEY: unique_key}
    except (TypeError, AttributeError):
        refuse_mistyped(message)
        raise
    return msgspec.structs.replace(message, properties=properties), unique_key


def _with_properties(message: Message, properties: Mapping[str, str]) -> Message:
    known = message.properties
    if any(name in known for name in properties):
        return message
    return msgspec.structs.replace(message, properties={**known, **properties})


def prepare(message: Message, ids: UniqueIds, compression: BodyCompression) -> tuple[Message, str]:
    """The message as it is sent, and its UNIQ_KEY. Raises as `with_unique_key`."""
    message, unique_key = with_unique_key(message, ids)
    body, sys_flag = compression.compress(message.body, message.sys_flag)
    if body is not message.body:
        message = msgspec.structs.replace(message, body=body, sys_flag=sys_flag)
    return message, unique_key


class OutgoingMessage(msgspec.Struct, frozen=True, gc=False):
    """One message."""

    message: Message
    unique_key: str

    @property
    def messages(self) -> Sequence[Message]:
        return (self.message,)

    def with_properties(self, properties: Mapping[str, str]) -> "OutgoingMessage":
        return msgspec.structs.replace(self, message=_with_properties(self.message, properties))

    def send(self, broker: Broker, queue: MessageQueue, timeout_ms: int) -> SendResult:
        send = broker.send_reply if is_reply(self.message) else broker.send
        return self.result_of(queue, send(self._to(queue), timeout_ms=timeout_ms))

    def send_async(self, broker: Broker, queue: MessageQueue, timeout_ms: int) -> "Future[PutMessageResult]":
        if not is_reply(self.message):
            return broker.send_async(self._to(queue))
        # Waits for the disk all the same: a broker has no other way for a reply.
        done: Future[PutMessageResult] = Future()
        done.set_result(broker.send_reply(self._to(queue), timeout_ms=timeout_ms))
        return done

    def result_of(self, queue: MessageQueue, answer: PutMessageResult) -> SendResult:
        return SendResult(self.unique_key, queue, answer)

    def _to(self, queue: MessageQueue) -> Message:
        return msgspec.structs.replace(self.message, queue_id=queue.queue_id)


class OutgoingHalf(msgspec.Struct, frozen=True, gc=False):
    """The half of a transaction of a producer group."""

    message: Message
    unique_key: str
    producer_group: str

    @property
    def messages(self) -> Sequence[Message]:
        return (self.message,)

    def with_properties(self, properties: Mapping[str, str]) -> "OutgoingHalf":
        return msgspec.structs.replace(self, message=_with_properties(self.message, properties))

    def send(self, broker: Broker, queue: MessageQueue, timeout_ms: int) -> SendResult:
        half = msgspec.structs.replace(self.message, queue_id=queue.queue_id)
        return self.result_of(queue, broker.send_half(half, self.producer_group, timeout_ms=timeout_ms))

    def send_async(self, broker: Broker, queue: MessageQueue, timeout_ms: int) -> "Future[PutMessageResult]":
        """Waits for the disk all the same: a broker has no other way for a half."""
        done: Future[PutMessageResult] = Future()
        done.set_result(self.send(broker, queue, timeout_ms).put)
        return done

    def result_of(self, queue: MessageQueue, answer: PutMessageResult) -> SendResult:
        return SendResult(self.unique_key, queue, answer)


class OutgoingBatch(msgspec.Struct, frozen=True, gc=False):
    """Several messages of one topic, which one queue gets all or none of."""

    messages: Sequence[Message]
    unique_keys: Sequence[str]

    @property
    def message(self) -> Message:
        return self.messages[0]

    def with_properties(self, properties: Mapping[str, str]) -> "OutgoingBatch":
        messages = [_with_properties(message, properties) for message in self.messages]
        return msgspec.structs.replace(self, messages=messages)

    def send(self, broker: Broker, queue: MessageQueue, timeout_ms: int) -> BatchSendResult:
        return self.result_of(queue, self._puts(broker, queue, timeout_ms))

    def send_async(
        self, broker: Broker, queue: MessageQueue, timeout_ms: int
    ) -> "Future[Sequence[PutMessageResult]]":
        """Waits for the disk all the same: a broker has no other way for a batch."""
        done: Future[Sequence[PutMessageResult]] = Future()
        done.set_result(self._puts(broker, queue, timeout_ms))
        return done

    def result_of(self, queue: MessageQueue, answer: Sequence[PutMessageResult]) -> BatchSendResult:
        return BatchSendResult(",".join(self.unique_keys), queue, answer[0], answer)

    def _puts(self, broker: Broker, queue: MessageQueue, timeout_ms: int) -> Sequence[PutMessageResult]:
        queue_id, replace = queue.queue_id, msgspec.structs.replace
        sent = [replace(message, queue_id=queue_id) for message in self.messages]
        return broker.send_all(sent, timeout_ms=timeout_ms)
