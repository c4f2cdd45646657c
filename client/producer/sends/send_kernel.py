"""The send kernel: one attempt at one queue, and the sends that have only one.

A send to a queue that the caller names, or a selector chooses, is one attempt; what it raises is the broker's
own error. Attempts that follow one another are in send_retry.py.
Threads: any.
Source: docs/spec/client_produce.md sections 1 and 2; DefaultMQProducerImpl#sendKernelImpl, #sendSelectImpl.
"""

import logging
from typing import Any, Final, NamedTuple

import msgspec

from mqstore.broker.broker import Broker, MessageQueue
from mqstore.client.errors import BrokerNotExist, ClientError, QueueNotSelected, SendTimedOut
from mqstore.client.producer.message.outgoing import Outgoing
from mqstore.client.producer.queues.publish_routes import PublishRoute
from mqstore.client.producer.queues.queue_selector import MessageQueueSelector
from mqstore.client.producer.send_result import SendResult
from mqstore.client.producer.sends.send_hooks import CommunicationMode
from mqstore.client.producer.sends.send_parts import SendParts
from mqstore.store.errors import QueueIllegal, StoreError
from mqstore.store.message.message import Message

__all__ = ["IN_TURN", "Begun", "Destination", "SendKernel"]

_logger = logging.getLogger(__name__)
_SYNC = CommunicationMode.SYNC


class Destination(NamedTuple):
    """Where the caller of a send wants a message to go: a queue, what a selector chooses, or in turn."""

    queue: MessageQueue | None = None
    selector: MessageQueueSelector | None = None
    arg: Any = None

    @classmethod
    def of(cls, queue: MessageQueue | None, selector: MessageQueueSelector | None, arg: Any) -> "Destination":
        """The destination of a call. Raises ValueError for a queue and a selector."""
        if queue is not None and selector is not None:
            raise ValueError("give a queue or a selector, not both")
        return cls(queue, selector, arg)


IN_TURN: Final = Destination()


class Begun(NamedTuple):
    """A send that can be handed over: what, where to, and the route if another queue of it would do."""

    outgoing: Outgoing
    queue: MessageQueue
    route: PublishRoute | None


class SendKernel:
    """Asks brokers, once."""

    def __init__(self, parts: SendParts) -> None:
        self._parts = parts
        self._hooks = parts.hooks

    def broker_of(self, queue: MessageQueue) -> Broker:
        """The broker of a queue. An unknown one is looked for once more; then raises BrokerNotExist."""
        parts = self._parts
        broker = parts.brokers.get(queue.broker_name)
        if broker is None:
            parts.routes.look_up(queue.topic, parts.timer())
            broker = parts.brokers.get(queue.broker_name)
        if broker is None:
            raise BrokerNotExist(queue.broker_name, sorted(parts.brokers))
        return broker

    def attempt(
        self, outgoing: Outgoing, queue: MessageQueue, timeout_ms: int, retries: int = 0
    ) -> SendResult:
        """One SYNC attempt, after `retries` that failed.

        Raises what the broker raises, BrokerNotExist, SendTimedOut.
        """
        broker = self.broker_of(queue)
        if not self._hooks.registered:
            return outgoing.send(broker, queue, timeout_ms)
        begin_s = self._parts.timer()
        context = self._hooks.before(outgoing, queue, _SYNC, retries)
        if context is not None:
            outgoing = context.outgoing
        try:
            cost_ms = self._parts.cost_ms(begin_s)
            if timeout_ms < cost_ms:
                raise SendTimedOut(queue.topic, timeout_ms, cost_ms)
            result = outgoing.send(broker, queue, timeout_ms - cost_ms)
        except Exception as error:
            self._hooks.after(context, exception=error)
            raise
        self._hooks.after(context, result)
        return result

    def begin(
        self,
        message: Message,
        destination: Destination,
        begin_s: float,
        outgoing: Outgoing | None = None,
    ) -> Begun:
        """Check and prepare a message for one pass.

        outgoing: a batch that is prepared already, of which `message` is the first.
        """
        parts = self._parts
        if outgoing is None:
            parts.check(message)
        chosen = self.chosen_queue(message, destination, begin_s)
        outgoing = outgoing or parts.outgoing(message)
        if chosen is not None:
            return Begun(outgoing, chosen, None)
        route = parts.routes.find(message.topic, begin_s)
        return Begun(outgoing, parts.selector.select(route), route)

    def send_oneway(self, outgoing: Outgoing, queue: MessageQueue, timeout_ms: int) -> None:
        """One pass without an answer. Raises only what says that the broker was not asked."""
        broker = self.broker_of(queue)
        begin_s = self._parts.timer()
        context = self._hooks.before(outgoing, queue, CommunicationMode.ONEWAY)
        if context is not None:
            outgoing = context.outgoing
        error: Exception | None = None
        try:
            outgoing.send_async(broker, queue, timeout_ms)
        except ClientError as known:
            error = known
            raise
        except StoreError:
            # A broker's answer, which nobody wants.
            _logger.debug("a one-way message to %s was refused", queue, exc_info=True)
        finally:
            self._hooks.after(context, exception=error)
            self._parts.faults.update(
                queue.broker_name,
                self._parts.cost_ms(begin_s),
                is_isolated=error is not None,
                is_reachable=error is None,
            )

    def send_to(self, outgoing: Outgoing, queue: MessageQueue, begin_s: float, timeout_ms: int) -> SendResult:
        """The only attempt of a send that began at `begin_s`."""
        return self.attempt(outgoing, queue, self.remaining_ms(queue.topic, begin_s, timeout_ms))

    def remaining_ms(self, topic: str, begin_s: float, timeout_ms: int) -> int:
        """What is left of the time for a send. Raises SendTimedOut if it is over."""
        cost_ms = self._parts.cost_ms(begin_s)
        if timeout_ms < cost_ms:
            raise SendTimedOut(topic, timeout_ms, cost_ms)
        return timeout_ms - cost_ms

    def chosen_queue(self, message: Message, destination: Destination, begin_s: float) -> MessageQueue | None:
        """The queue that the caller of a send names or lets a selector choose; None for one in turn.

        Raises QueueIllegal for a queue of another topic, QueueNotSelected, TopicRouteNotFound.
        """
        queue, selector, arg = destination
        if selector is not None:
            queue = self._select(message, selector, arg, begin_s)
        if queue is not None and queue.topic != message.topic:
            raise QueueIllegal(
                f"the message is to topic {message.topic!r}, but {queue} is of another one: name a queue of "
                "its topic",
                value=queue,
                limit=message.topic,
            )
        return queue

    def _select(
        self, message: Message, selector: MessageQueueSelector, arg: Any, begin_s: float
    ) -> MessageQueue:
        route = self._parts.routes.find(message.topic, begin_s)
        # A copy: what a selector does to the properties is not sent.
        copy = msgspec.structs.replace(message, properties=dict(message.properties))
        try:
            queue = selector(route.queues, copy, arg)
        except Exception as error:
            raise QueueNotSelected(message.topic, f"raised {type(error).__name__}: {error}") from error
        if not isinstance(queue, MessageQueue):
            raise QueueNotSelected(message.topic, f"returned {queue!r}, which is no MessageQueue")
        return queue

    def __repr__(self) -> str:
        return f"SendKernel({sorted(self._parts.brokers)})"
