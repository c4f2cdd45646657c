"""A listener in order: what it is told, and how it is called: for each queue by one thread at a time.

    @consumer.orderly_listener            a plain function: None is success, an exception suspends the queue
    register_orderly_message_listener     RocketMQ's way: None counts as SUSPEND_CURRENT_QUEUE_A_MOMENT

Threads: a context belongs to one call of the listener; a listener is called for many queues at a time.
Source: docs/spec/client_consume.md section 5; ConsumeOrderlyContext, MessageListenerOrderly.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, TypeAlias

from mqstore.broker.broker import MessageQueue
from mqstore.client.consumer.listener import ConsumeOrderlyStatus, RegisteredListener
from mqstore.store.message.stored_message import StoredMessage

__all__ = [
    "ConsumeOrderlyContext",
    "MessageListenerOrderly",
    "OrderlyMessageListener",
    "RegisteredOrderlyListener",
]


class ConsumeOrderlyContext:
    """Where one batch comes from, and the two things that a listener may set about its answer.

    auto_commit: whether SUCCESS commits; otherwise COMMIT does, for all batches since the last one.
    suspend_current_queue_time_millis: how long the queue pauses after SUSPEND and ROLLBACK, 10 to 30,000;
    -1 for the consumer's setting.
    """

    __slots__ = ("auto_commit", "message_queue", "suspend_current_queue_time_millis")

    def __init__(self, message_queue: MessageQueue) -> None:
        self.message_queue = message_queue
        self.auto_commit = True
        self.suspend_current_queue_time_millis = -1

    @property
    def topic(self) -> str:
        """The topic that was pulled."""
        return self.message_queue.topic

    @property
    def queue_id(self) -> int:
        """The queue that was pulled."""
        return self.message_queue.queue_id

    def __repr__(self) -> str:
        return (
            f"ConsumeOrderlyContext({self.topic!r}, queue_id={self.queue_id}, "
            f"auto_commit={self.auto_commit}, "
            f"suspend_current_queue_time_millis={self.suspend_current_queue_time_millis})"
        )


OrderlyMessageListener: TypeAlias = Callable[
    [Sequence[StoredMessage], ConsumeOrderlyContext], ConsumeOrderlyStatus | None
]
"""Consumes a batch of one queue. SUSPEND_CURRENT_QUEUE_A_MOMENT and an exception bring it again."""


class MessageListenerOrderly(Protocol):
    """A listener in order as an object, as RocketMQ has it."""

    def consume_message(
        self, messages: Sequence[StoredMessage], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus | None:
        """Consume a batch. None counts as SUSPEND_CURRENT_QUEUE_A_MOMENT."""
        ...


class RegisteredOrderlyListener(RegisteredListener[ConsumeOrderlyContext, ConsumeOrderlyStatus]):
    """One that a single thread at a time calls for each queue."""

    status_kind = ConsumeOrderlyStatus
    context_kinds: ClassVar = {"auto_commit": bool, "suspend_current_queue_time_millis": int}
