"""The send hooks: callables of the application that see each attempt of a send, before and after.

They are for tracing and metrics. What a hook raises is logged and dropped; it cannot stop a send. Before an
attempt a hook may give the messages more properties: with a trace they carry to whoever consumes them.
Threads: a hook is called by the thread that sends, and after an asynchronous send by the one that completes
it. Before an asynchronous send the context variables are those of the caller.
Source: SendMessageHook, SendMessageContext of Apache RocketMQ.
"""

import enum
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mqstore.broker.broker import MessageQueue
from mqstore.client.producer.message.outgoing import Outgoing
from mqstore.client.producer.send_result import SendResult
from mqstore.store.message.message import Message

__all__ = ["CommunicationMode", "SendHooks", "SendMessageContext", "SendMessageHook"]

_logger = logging.getLogger(__name__)


class CommunicationMode(enum.Enum):
    """How a message is sent: SYNC waits for the answer, ASYNC gets it later, ONEWAY does not want it."""

    SYNC = "SYNC"
    ASYNC = "ASYNC"
    ONEWAY = "ONEWAY"


@dataclass(slots=True)
class SendMessageContext:
    """One attempt, as hooks see it; `send_result` or `exception` are there after it.

    A ONEWAY send has neither. outgoing: what is sent. retries: attempts that failed before this one; an ASYNC
    send is one attempt for hooks, and has those that failed after it. mq_trace_context, props, kept: for
    hooks to keep what they need from before to after; `kept` by the hook itself, so that two do not meet.
    """

    producer_group: str
    outgoing: Outgoing
    message_queue: MessageQueue
    communication_mode: CommunicationMode
    retries: int = 0
    send_result: SendResult | None = None
    exception: Exception | None = None
    mq_trace_context: Any = None
    props: dict[str, str] = field(default_factory=dict)
    kept: dict[object, Any] = field(default_factory=dict)

    @property
    def message(self) -> Message:
        """The message as it is sent; of a batch the first."""
        return self.outgoing.message

    @property
    def messages(self) -> Sequence[Message]:
        """All messages as they are sent: several in a batch."""
        return self.outgoing.messages

    def add_properties(self, properties: Mapping[str, str]) -> None:
        """Send the messages of this attempt with more properties; only before it.

        A message that has one of them already is left as it is.
        """
        self.outgoing = self.outgoing.with_properties(properties)


class SendMessageHook(Protocol):
    """What an application registers."""

    def send_message_before(self, context: SendMessageContext) -> None:
        """Called before a broker is asked."""
        ...

    def send_message_after(self, context: SendMessageContext) -> None:
        """Called after it has answered, or has not."""
        ...


class SendHooks:
    """The hooks of one producer."""

    def __init__(self, producer_group: str) -> None:
        self._producer_group = producer_group
        # Replaced as a whole, and read without a lock.
        self.registered: tuple[SendMessageHook, ...] = ()

    def register(self, hook: SendMessageHook) -> None:
        """Call `hook` from now on, after those that are there."""
        self.registered = (*self.registered, hook)

    def before(
        self, outgoing: Outgoing, queue: MessageQueue, mode: CommunicationMode, retries: int = 0
    ) -> SendMessageContext | None:
        """Call the hooks before an attempt; what to hand to `after`, and what to send then."""
        hooks = self.registered
        if not hooks:
            return None
        context = SendMessageContext(self._producer_group, outgoing, queue, mode, retries)
        for hook in hooks:
            _call(hook.send_message_before, context)
        return context

    def after(
        self,
        context: SendMessageContext | None,
        send_result: SendResult | None = None,
        exception: Exception | None = None,
    ) -> None:
        """Call the hooks after the attempt of `context`; without one there were no hooks before it."""
        if context is None:
            return
        context.send_result = send_result
        context.exception = exception
        for hook in self.registered:
            _call(hook.send_message_after, context)

    def __repr__(self) -> str:
        return f"SendHooks({list(self.registered)})"


def _call(method: Callable[[SendMessageContext], None], context: SendMessageContext) -> None:
    try:
        method(context)
    except Exception:
        _logger.warning("a send hook failed on %s", context.message, exc_info=True)
