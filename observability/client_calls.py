"""The calls of clients: what producers and consumers did, as records for whoever counts or measures.

`ClientCalls` is a hook of producers and consumers. It hands each attempt of a send, each call of a listener
and each message that is sent back to a sink, with the time that it took. It keeps no figures
(client_metrics.py, opentelemetry/client_instruments.py). Without a hook a client does none of this.
Threads: those of the clients.
"""

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mqstore.client.consumer.consume_hooks import ConsumeMessageContext
from mqstore.client.consumer.push_consumer import PushConsumer
from mqstore.client.consumer.send_back_hooks import SendBackContext
from mqstore.client.producer.producer_life import ProducerLife
from mqstore.client.producer.sends.send_hooks import CommunicationMode, SendMessageContext

__all__ = ["CallSink", "ClientCalls", "ConsumeCall", "SendBackCall", "SendCall", "watch"]


class SendCall(NamedTuple):
    """One attempt of a send; an asynchronous send with all its attempts.

    messages: how many. again: attempts that followed one that failed. error: name of the error's class,
    None if the messages are stored.
    """

    topic: str
    producer_group: str
    messages: int
    again: int
    error: str | None
    seconds: float


class ConsumeCall(NamedTuple):
    """One call of a listener. topic: that the messages were first sent to. outcome: a ConsumeReturnType.

    messages: how many; again: those among them that had failed before. error: name of the class of what the
    listener raised.
    """

    topic: str
    consumer_group: str
    messages: int
    again: int
    outcome: str
    error: str | None
    seconds: float


class SendBackCall(NamedTuple):
    """A message that was sent back. disposition: RETRY or DEAD_LETTER. is_sent: whether a broker took it."""

    topic: str
    consumer_group: str
    disposition: str
    is_sent: bool
    seconds: float


class CallSink(Protocol):
    """Who counts."""

    def sent(self, call: SendCall) -> None:
        """An attempt of a send has ended."""
        ...

    def consumed(self, call: ConsumeCall) -> None:
        """A listener has ended."""
        ...

    def sent_back(self, call: SendBackCall) -> None:
        """A message was sent back, or could not be."""
        ...


class ClientCalls:
    """A hook that hands what it sees to a sink."""

    def __init__(self, sink: CallSink, timer: Callable[[], float] = time.perf_counter) -> None:
        """timer: seconds of a clock that only goes forward."""
        self._sink = sink
        self._timer = timer

    def send_message_before(self, context: SendMessageContext) -> None:
        context.kept[self] = self._timer()

    def send_message_after(self, context: SendMessageContext) -> None:
        error = context.exception
        is_async = context.communication_mode is CommunicationMode.ASYNC
        self._sink.sent(
            SendCall(
                context.message_queue.topic,
                context.producer_group,
                len(context.messages),
                context.retries if is_async else int(context.retries > 0),
                None if error is None else type(error).__name__,
                self._timer() - context.kept.pop(self),
            )
        )

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        context.kept[self] = self._timer()

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        messages, outcome, error = context.messages, context.return_type, context.error
        self._sink.consumed(
            ConsumeCall(
                messages[0].topic,
                context.consumer_group,
                len(messages),
                sum(message.reconsume_times > 0 for message in messages),
                "" if outcome is None else outcome.value,
                None if error is None else type(error).__name__,
                self._timer() - context.kept.pop(self),
            )
        )

    def send_back_before(self, context: SendBackContext) -> None:
        context.kept[self] = self._timer()

    def send_back_after(self, context: SendBackContext) -> None:
        self._sink.sent_back(
            SendBackCall(
                context.message.topic,
                context.consumer_group,
                context.disposition.value,
                bool(context.is_sent),
                self._timer() - context.kept.pop(self),
            )
        )

    def __repr__(self) -> str:
        return f"ClientCalls({self._sink!r})"


class _Hook(Protocol):
    """All three kinds of hooks of clients."""

    def send_message_before(self, context: SendMessageContext) -> None: ...
    def send_message_after(self, context: SendMessageContext) -> None: ...
    def consume_message_before(self, context: ConsumeMessageContext) -> None: ...
    def consume_message_after(self, context: ConsumeMessageContext) -> None: ...
    def send_back_before(self, context: SendBackContext) -> None: ...
    def send_back_after(self, context: SendBackContext) -> None: ...


def watch(client: ProducerLife | PushConsumer, hook: _Hook) -> None:
    """Have `hook` called by a producer or a push consumer from now on. Raises ConsumerClosed, TypeError.

    A LitePullConsumer is not taken: its hooks see what it hands out, but not how long the work takes.
    """
    if isinstance(client, ProducerLife):
        client.register_send_message_hook(hook)
    elif isinstance(client, PushConsumer):
        client.add_hook(hook)
        client.add_send_back_hook(hook)
    else:
        raise TypeError(f"{client!r} cannot be watched: give a Producer or a PushConsumer")
