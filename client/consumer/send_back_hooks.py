"""The send-back hooks: callables of the application around each message that a consumer sends back.

A message is sent back when its listener failed on it, when it took too long, or in order when it has failed
too often. What a hook raises is logged and changes nothing.
Threads: hooks are called by those that send back: the listener's, and the timer's.
Source: DefaultMQPushConsumerImpl#sendMessageBack of Apache RocketMQ, which has no hook there.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.status import Disposition

__all__ = ["SendBackContext", "SendBackHook", "SendBackHooks"]

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SendBackContext:
    """One message that is sent back, as hooks see it; `is_sent` is known afterwards.

    delay_level: that the listener asked for; 0 for the rule, negative for a dead letter at once. disposition:
    what the broker makes of it by the consumer's max_reconsume_times: RETRY, or DEAD_LETTER. is_sent: False
    when no broker took it, and it comes again from memory. kept: for a hook to keep what it needs from before
    to after, by the hook itself.
    """

    consumer_group: str
    message: StoredMessage
    delay_level: int
    disposition: Disposition
    is_sent: bool | None = None
    kept: dict[object, Any] = field(default_factory=dict)


class SendBackHook(Protocol):
    """Called around each message that is sent back."""

    def send_back_before(self, context: SendBackContext) -> None:
        """A broker is about to be asked."""
        ...

    def send_back_after(self, context: SendBackContext) -> None:
        """It has answered, or none could be asked."""
        ...


class SendBackHooks:
    """The hooks of one consumer. registered: replaced, never changed, and read without a lock."""

    def __init__(self) -> None:
        self.registered: tuple[SendBackHook, ...] = ()

    def add(self, hook: SendBackHook) -> None:
        """Call `hook` from now on, after those that are there."""
        self.registered = (*self.registered, hook)

    def around(self, context: SendBackContext, send_back: Callable[[], bool]) -> bool:
        """Call `send_back` with the hooks around it; what it returned."""
        hooks = self.registered
        for hook in hooks:
            _call(hook.send_back_before, context)
        context.is_sent = send_back()
        for hook in hooks:
            _call(hook.send_back_after, context)
        return context.is_sent

    def __repr__(self) -> str:
        return f"SendBackHooks({list(self.registered)})"


def _call(method: Callable[[SendBackContext], None], context: SendBackContext) -> None:
    try:
        method(context)
    except Exception:
        _logger.warning("a send-back hook failed on %s", context.message, exc_info=True)
