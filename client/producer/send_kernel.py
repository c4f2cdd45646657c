"""The send kernel: one attempt at one queue, and the sends that have only one.

A send to a queue that the caller names, or a selector chooses, is one attempt; what it raises is the broker's
own error. Attempts that follow one another are in send_retry.py.
Threads: any.
Source: docs/spec/client_produce.md sections 1 and 2; DefaultMQProducerImpl#sendKernelImpl, #sendSelectImpl.
"""

from typing import Any

import msgspec

from mqstore.broker.broker import Broker, MessageQueue
from mqstore.client.errors import BrokerNotExist, QueueNotSelected, SendTimedOut
from mqstore.client.producer.message.outgoing import Outgoing
from mqstore.client.producer.queues.queue_selector import MessageQueueSelector
from mqstore.client.producer.send_hooks import CommunicationMode
from mqstore.client.producer.send_parts import SendParts
from mqstore.client.producer.send_result import SendResult
from mqstore.store.errors import QueueIllegal
from mqstore.store.message.message import Message

__all__ = ["SendKernel"]

_SYNC = CommunicationMode.SYNC


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

    def attempt(self, outgoing: Outgoing, queue: MessageQueue, timeout_ms: int) -> SendResult:
        """One SYNC attempt. Raises what the broker raises, BrokerNotExist, SendTimedOut."""
        broker = self.broker_of(queue)
        if not self._hooks.registered:
            return outgoing.send(broker, queue, timeout_ms)
        begin_s = self._parts.timer()
        context = self._hooks.before(outgoing.message, queue, _SYNC)
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

    def send_to(self, outgoing: Outgoing, queue: MessageQueue, begin_s: float, timeout_ms: int) -> SendResult:
        """The only attempt of a send that began at `begin_s`."""
        return self.attempt(outgoing, queue, self.remaining_ms(queue.topic, begin_s, timeout_ms))

    def remaining_ms(self, topic: str, begin_s: float, timeout_ms: int) -> int:
        """What is left of the time for a send. Raises SendTimedOut if it is over."""
        cost_ms = self._parts.cost_ms(begin_s)
        if timeout_ms < cost_ms:
            raise SendTimedOut(topic, timeout_ms, cost_ms)
        return timeout_ms - cost_ms

    def chosen_queue(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: MessageQueueSelector | None,
        arg: Any,
        begin_s: float,
    ) -> MessageQueue | None:
        """The queue that the caller of a send names or lets a selector choose; None for one in turn.

        Raises QueueIllegal for a queue of another topic, QueueNotSelected, TopicRouteNotFound.
        """
        if selector is not None:
            if queue is not None:
                raise ValueError("give a queue or a selector, not both")
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
