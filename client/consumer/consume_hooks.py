"""Consume hooks: code that is called around each call of the listener, and what it is told.

    order   condition                                    type
    1       the listener raised, or answered nonsense    EXCEPTION
    2       it answered None where that is no answer     RETURNNULL
    3       it took consume_timeout or longer            TIME_OUT
    4       RECONSUME_LATER; in order: SUSPEND           FAILED
    5       CONSUME_SUCCESS; in order: all others        SUCCESS

TIME_OUT is for hooks alone: what becomes of the messages is up to the listener's answer.
What a hook raises is logged and changes nothing. Threads: hooks are called by those that call the listener.
Source: docs/spec/client_consume.md section 4; ConsumeReturnType, ConsumeMessageHook, ConsumeMessageContext.
"""

import enum
import logging
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from mqstore.broker.broker import MessageQueue
from mqstore.client.consumer.listener import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from mqstore.client.consumer.send_back_hooks import SendBackHooks
from mqstore.store.message.stored_message import StoredMessage

__all__ = ["ConsumeHooks", "ConsumeMessageContext", "ConsumeMessageHook", "ConsumeReturnType", "return_type"]

_logger = logging.getLogger(__name__)

_SUCCEEDED = (
    ConsumeConcurrentlyStatus.CONSUME_SUCCESS,
    ConsumeOrderlyStatus.SUCCESS,
    ConsumeOrderlyStatus.COMMIT,
)
_FAILED = (
    ConsumeConcurrentlyStatus.RECONSUME_LATER,
    ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT,
)


class ConsumeReturnType(enum.Enum):
    """How one call of the listener ended; RocketMQ's names."""

    SUCCESS = "SUCCESS"
    TIME_OUT = "TIME_OUT"
    EXCEPTION = "EXCEPTION"
    RETURNNULL = "RETURNNULL"
    FAILED = "FAILED"


class ConsumeMessageContext(msgspec.Struct):
    """One call of the listener, as hooks see it.

    consume_start_ms: epoch ms. The rest is known afterwards: status is what counts for the messages, error
    what the listener raised. kept: for a hook to keep what it needs from before to after, by the hook itself.
    """

    consumer_group: str
    message_queue: MessageQueue
    messages: Sequence[StoredMessage]
    consume_start_ms: int
    status: ConsumeConcurrentlyStatus | ConsumeOrderlyStatus | None = None
    return_type: ConsumeReturnType | None = None
    error: BaseException | None = None
    elapsed_ms: int = 0
    kept: dict[object, Any] = msgspec.field(default_factory=dict)

    @property
    def is_success(self) -> bool:
        """Whether the listener is done with them."""
        return self.status in _SUCCEEDED


class ConsumeMessageHook(Protocol):
    """Called around the listener."""

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        """The listener is about to be called."""
        ...

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        """The listener has ended, and nothing was done about the messages yet."""
        ...


class ConsumeHooks:
    """The hooks of one consumer, in the order in which they were added.

    hooks: replaced, never changed: read without a lock. send_backs: those around messages that are sent back.
    """

    def __init__(self) -> None:
        self.send_backs = SendBackHooks()
        self.hooks: tuple[ConsumeMessageHook, ...] = ()

    def add(self, hook: ConsumeMessageHook) -> None:
        """Call `hook` from now on."""
        self.hooks = (*self.hooks, hook)

    def before(self, context: ConsumeMessageContext) -> None:
        """Call them before the listener."""
        for hook in self.hooks:
            try:
                hook.consume_message_before(context)
            except Exception:
                _logger.exception("the consume hook %r failed", hook)

    def after(self, context: ConsumeMessageContext) -> None:
        """Call them after the listener."""
        for hook in self.hooks:
            try:
                hook.consume_message_after(context)
            except Exception:
                _logger.exception("the consume hook %r failed", hook)

    def __repr__(self) -> str:
        return f"ConsumeHooks({list(self.hooks)!r})"


def return_type(
    status: ConsumeConcurrentlyStatus | ConsumeOrderlyStatus | None,
    *,
    has_raised: bool,
    elapsed_ms: int,
    timeout_ms: int,
) -> ConsumeReturnType:
    """The table above, row by row."""
    if status is None:
        return ConsumeReturnType.EXCEPTION if has_raised else ConsumeReturnType.RETURNNULL
    if elapsed_ms >= timeout_ms:
        return ConsumeReturnType.TIME_OUT
    if status in _FAILED:
        return ConsumeReturnType.FAILED
    return ConsumeReturnType.SUCCESS
