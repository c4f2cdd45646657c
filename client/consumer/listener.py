"""What a listener answers for a batch of messages, and the context that it may set before it answers.

Two ways to register one differ in what None means:

    @consumer.listener                  a plain function: None is success, an exception brings them again
    register_message_listener           RocketMQ's way: None counts as RECONSUME_LATER

Names are RocketMQ's (ConsumeConcurrentlyStatus, ConsumeConcurrentlyContext, MessageListenerConcurrently).
Threads: a context belongs to one call of the listener; a listener is called by many threads at a time.
"""

import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from mqstore.broker.broker import MessageQueue
from mqstore.client.errors import AnswerIllegal, ListenerIllegal
from mqstore.store.message.stored_message import StoredMessage

__all__ = [
    "ALL_ACKNOWLEDGED",
    "ConsumeConcurrentlyContext",
    "ConsumeConcurrentlyStatus",
    "ConsumeOrderlyStatus",
    "MessageListener",
    "MessageListenerConcurrently",
    "RegisteredConcurrentListener",
    "RegisteredListener",
]

ALL_ACKNOWLEDGED = 2**31 - 1

ContextT = TypeVar("ContextT")
StatusT = TypeVar("StatusT", bound=enum.Enum)


class ConsumeConcurrentlyStatus(enum.Enum):
    """CONSUME_SUCCESS: done with them. RECONSUME_LATER: hand them out again after a delay.

    >>> def charge(messages, context):
    ...     can_wait = messages[0].tags == "expired"
    ...     return ConsumeConcurrentlyStatus["RECONSUME_LATER" if can_wait else "CONSUME_SUCCESS"]
    """

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class ConsumeOrderlyStatus(enum.Enum):
    """What a listener in order answers (client/consumer/orderly/).

    SUCCESS: done with them. SUSPEND_CURRENT_QUEUE_A_MOMENT: hand them out again after a pause. COMMIT and
    ROLLBACK are for listeners that set auto_commit to False.
    """

    SUCCESS = "SUCCESS"
    ROLLBACK = "ROLLBACK"
    COMMIT = "COMMIT"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


class ConsumeConcurrentlyContext:
    """Where one batch comes from, and the two things that a listener may set about its answer.

    message_queue: the queue that was pulled, of `%RETRY%group` for messages that come back. min_offset,
    max_offset: of that queue when it was pulled (RocketMQ's properties MIN_OFFSET and MAX_OFFSET).
    ack_index: with CONSUME_SUCCESS, the last message that succeeded; those after it are sent back.
    delay_level_when_next_consume: 0 for 3 + reconsume times; 1 and more for that delay level; negative for a
    dead letter at once.
    """

    __slots__ = ("ack_index", "delay_level_when_next_consume", "max_offset", "message_queue", "min_offset")

    def __init__(self, message_queue: MessageQueue, min_offset: int = 0, max_offset: int = 0) -> None:
        self.message_queue = message_queue
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.ack_index = ALL_ACKNOWLEDGED
        self.delay_level_when_next_consume = 0

    @property
    def topic(self) -> str:
        """The topic that was pulled: `%RETRY%group` for messages that come back."""
        return self.message_queue.topic

    @property
    def queue_id(self) -> int:
        """The queue that was pulled."""
        return self.message_queue.queue_id

    def acknowledged_count(self, status: ConsumeConcurrentlyStatus, batch_size: int) -> int:
        """Number of leading messages of the batch that need not be sent back."""
        if status is not ConsumeConcurrentlyStatus.CONSUME_SUCCESS:
            return 0
        return max(0, min(self.ack_index + 1, batch_size))

    def __repr__(self) -> str:
        return (
            f"ConsumeConcurrentlyContext({self.topic!r}, queue_id={self.queue_id}, "
            f"ack_index={self.ack_index}, "
            f"delay_level_when_next_consume={self.delay_level_when_next_consume})"
        )


MessageListener: TypeAlias = Callable[
    [Sequence[StoredMessage], ConsumeConcurrentlyContext], ConsumeConcurrentlyStatus | None
]
"""Consumes a batch. RECONSUME_LATER and an exception send it back."""


class MessageListenerConcurrently(Protocol):
    """A listener as an object, as RocketMQ has it."""

    def consume_message(
        self, messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus | None:
        """Consume a batch. None counts as RECONSUME_LATER."""
        ...


class RegisteredListener(Generic[ContextT, StatusT]):
    """A listener that was checked, and what None from it means: a status, or None for no answer."""

    status_kind: type[StatusT]
    context_kinds: ClassVar[Mapping[str, type]]
    """What the listener may set on its context, and of which type."""

    def __init__(
        self,
        listener: object,
        none_means: StatusT | None,
    ) -> None:
        """listener: a function of (messages, context), or an object with that as its `consume_message`.

        Raises ListenerIllegal.
        """
        self.function: Callable[[Sequence[StoredMessage], ContextT], StatusT | None] = _function_of(listener)
        self._none_means = none_means

    def __call__(self, messages: Sequence[StoredMessage], context: ContextT) -> StatusT | None:
        """Call the listener; None: it gave no answer. Raises what it raises, and AnswerIllegal."""
        answer = self.function(messages, context)
        if answer is None:
            answer = self._none_means
        elif type(answer) is not self.status_kind:
            raise AnswerIllegal(
                self.function, "answered", answer, f"return None or a {self.status_kind.__name__}"
            )
        for name, kind in self.context_kinds.items():
            value = getattr(context, name)
            if type(value) is not kind:
                wanted = "True or False" if kind is bool else "a whole number"
                raise AnswerIllegal(self.function, f"set context.{name} to", value, f"set {wanted}")
        return answer

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.function!r})"


class RegisteredConcurrentListener(RegisteredListener[ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus]):
    """One that many threads call at a time."""

    status_kind = ConsumeConcurrentlyStatus
    context_kinds: ClassVar = {"ack_index": int, "delay_level_when_next_consume": int}


def _function_of(listener: object) -> Callable[..., Any]:
    """What to call: the listener, or its method `consume_message`. Raises ListenerIllegal."""
    function = getattr(listener, "consume_message", listener)
    if isinstance(listener, type) or not callable(function):
        raise ListenerIllegal(listener, "is no function")
    for is_illegal, reason in (
        (inspect.iscoroutinefunction, "is a coroutine function, which nobody would await"),
        (inspect.isasyncgenfunction, "is an asynchronous generator, which nobody would run"),
        (inspect.isgeneratorfunction, "is a generator function, which nobody would run"),
    ):
        if is_illegal(function) or is_illegal(type(function).__call__):
            raise ListenerIllegal(listener, reason)
    try:
        signature = inspect.signature(function)
    except ValueError:
        # Some built-in functions have none.
        return function
    try:
        signature.bind([], None)
    except TypeError as error:
        raise ListenerIllegal(listener, f"takes {signature}") from error
    return function
