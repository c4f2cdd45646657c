"""What a consumer refuses: each error says what to do instead.

StoreError
|- ConsumerNotReady               register a listener, or subscribe to a topic, then start
|- ConsumerStarted                do it before `start`
|- ConsumerClosed                 make another consumer
|- ListenerIllegal (TypeError)    give a plain function of (messages, context)
`- AnswerIllegal (TypeError)      return None or a ConsumeConcurrentlyStatus; logged, raised to nobody
"""

from mqstore.store.errors import StoreError

__all__ = ["AnswerIllegal", "ConsumerClosed", "ConsumerNotReady", "ConsumerStarted", "ListenerIllegal"]


class ConsumerNotReady(StoreError):
    """The consumer cannot start. missing: what it lacks."""

    def __init__(self, group: str, missing: str, way_out: str) -> None:
        super().__init__(f"the consumer of group {group!r} has no {missing}: {way_out}")
        self.group = group
        self.missing = missing


class ConsumerStarted(StoreError):
    """The operation comes too late: the consumer was started."""

    def __init__(self, group: str, operation: str) -> None:
        super().__init__(f"the consumer of group {group!r} was started: {operation} before `start`, once")
        self.group = group
        self.operation = operation


class ConsumerClosed(StoreError):
    """The consumer was closed."""

    def __init__(self, group: str, operation: str) -> None:
        super().__init__(
            f"the consumer of group {group!r} is closed and cannot {operation}: make another PushConsumer"
        )
        self.group = group
        self.operation = operation


class ListenerIllegal(StoreError, TypeError):
    """The listener cannot be called with (messages, context), or its call would not consume anything."""

    def __init__(self, listener: object, reason: str) -> None:
        super().__init__(f"the listener {listener!r} {reason}: give a plain function of (messages, context)")
        self.listener = listener
        self.reason = reason


class AnswerIllegal(StoreError, TypeError):
    """The listener answered what is no status, or set something illegal on its context."""

    def __init__(self, listener: object, what: str, answer: object, wanted: str) -> None:
        super().__init__(f"the listener {listener!r} {what} {answer!r}: {wanted}")
        self.listener = listener
        self.answer = answer
