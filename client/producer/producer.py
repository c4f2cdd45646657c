"""The producer: sends the messages of an application to the brokers it is given.

Between several brokers it chooses in turn, and a send that fails at one is tried at another, so one disk that
is full refuses nothing (send_retry.py). With one broker the queues of a topic are used in turn.

It does not know how a broker stores a message (broker/), nor is anything of it durable by itself.
Threads: any thread may call any method. Threads of its own: those of asynchronous sends, while there are
any, and the detector's; `close` ends them.
Durability: as the `SendResult` says: that of a put of the store.
Source: docs/spec/client_produce.md sections 2 to 6; DefaultMQProducer, DefaultMQProducerImpl of Apache
RocketMQ.
"""

import itertools
import os
import random
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

from mqstore.broker.broker import Broker, MessageQueue
from mqstore.client.errors import ClientNotRunning
from mqstore.client.producer.message.unique_id import local_address
from mqstore.client.producer.message_accumulator import MessageAccumulator
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.queues.queue_selector import MessageQueueSelector
from mqstore.client.producer.send_result import BatchSendResult, SendResult
from mqstore.client.producer.sends.async_send import SendFuture
from mqstore.client.producer.sends.async_sends import AsyncSends, body_bytes_of, topic_of
from mqstore.client.producer.sends.batch_sends import BatchSends
from mqstore.client.producer.sends.send_hooks import SendMessageHook
from mqstore.client.producer.sends.send_kernel import IN_TURN, Begun, Destination, SendKernel
from mqstore.client.producer.sends.send_parts import SendParts
from mqstore.client.producer.sends.send_retry import SendRetry
from mqstore.store.clock import Clock, SystemClock
from mqstore.store.errors import GroupIllegal
from mqstore.store.message.message import Message
from mqstore.store.message.topic_names import check_group

__all__ = ["Producer"]

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
# Tells two producers of this process apart.
_numbers = itertools.count()


class Producer:
    """Sends for the producer group `group` to one broker or several.

    clock: for unique ids. timer: seconds of a clock that only goes forward, for time-outs. choice: of the
    queue to begin with.

    >>> import tempfile
    >>> from mqstore import Message, MessageStore
    >>> from mqstore.broker.embedded_broker import EmbeddedBroker
    >>> with MessageStore.open(tempfile.mkdtemp()) as store, EmbeddedBroker(store) as broker:
    ...     with Producer(broker, "billing-producers") as producer:
    ...         producer.send(Message("orders", b"first")).send_status.name
    'SEND_OK'
    """

    def __init__(
        self,
        brokers: Broker | Sequence[Broker],
        group: str,
        settings: ProducerSettings | None = None,
        *,
        clock: Clock | None = None,
        timer: Callable[[], float] = time.monotonic,
        choice: random.Random | None = None,
    ) -> None:
        """Raises GroupIllegal, NoBroker, ConfigIllegal; ValueError for two brokers of one name."""
        self.group = _checked_group(group)
        self.settings = settings = settings or ProducerSettings()
        self.client_id = _client_id(settings)
        self._parts = SendParts.of(
            brokers,
            repr(self),
            group,
            settings,
            clock or SystemClock(),
            timer,
            choice or random.Random(),
        )
        self._state = "CREATE_JUST"
        self._kernel = SendKernel(self._parts)
        self._retry = SendRetry(self._parts, self._kernel)
        self._async_sends = AsyncSends(self._parts, self._kernel)
        self._batches = BatchSends(self._parts, self._kernel, self._retry, self._async_sends)
        self._timeout_ms = timeout_ms = settings.send_msg_timeout
        self._accumulator: MessageAccumulator | None = None
        if settings.auto_batch:
            self._accumulator = MessageAccumulator(
                self._parts,
                lambda messages, queue: self._batches.send(messages, queue, timeout_ms),
                lambda messages, queue: self._batches.send_async(messages, queue, timeout_ms),
            )
        # What `send` calls: raises while the producer is not running.
        self._send: Callable[[Message, int], SendResult] = self._refuse

    # -- life -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Let it send. Raises ClientNotRunning if it was started before: a closed one stays closed."""
        if self._state != "CREATE_JUST":
            raise ClientNotRunning(repr(self), self._state)
        self._parts.faults.start()
        self._state = "RUNNING"
        self._send = self._usual_send()

    def close(self) -> None:
        """End its threads. Sends raise ClientNotRunning from then on. Safe to call twice."""
        if self.is_running:
            if self._accumulator is not None:
                self._accumulator.close()
            self._state = "SHUTDOWN_ALREADY"
            self._send = self._refuse
            self._async_sends.close()
            self._parts.faults.stop()

    @property
    def is_running(self) -> bool:
        """Whether it was started and not closed."""
        return self._state == "RUNNING"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- sending --------------------------------------------------------------------------------------

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send one message and wait until a broker has stored it.

        queue: where to; its own `queue_id` does not count. selector: chooses the queue, from all of the
        topic, the message and `arg`. Without either the queues are used in turn, and a failed attempt is
        followed by others, elsewhere if there is an elsewhere. timeout_ms: instead of `send_msg_timeout`.

        Raises MessageIllegal and its leaves, NoPermission, TopicRouteNotFound; SendFailed when every attempt
        failed, SendTimedOut when the time was over; with a queue or a selector what the broker raises, and
        QueueNotSelected. Nothing is stored then, unless an attempt failed with BrokerTimedOut or
        StorePoisoned.
        """
        if queue is None and selector is None and timeout_ms is None:
            return self._send(message, self._timeout_ms)
        return self._send_to(message, Destination.of(queue, selector, arg), timeout_ms)

    def send_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
        timeout_ms: int | None = None,
    ) -> SendFuture[SendResult]:
        """Send one message without waiting: `future.result()`, or `await producer.send_async(message)`.

        As `send`; what it would raise is raised by the future, and after `retry_times_when_send_async_failed`
        more attempts that is the last error itself. Callbacks of the future run in a thread of the producer.
        Raises SendRejected, ClientNotRunning. With back pressure it waits while too much is under way.
        """
        self._check_running()
        destination = Destination.of(queue, selector, arg)
        if self._accumulator is not None and selector is None and timeout_ms is None:
            future = self._accumulator.send_async(message, queue)
            if future is not None:
                return future
        timeout_ms = self._timeout(timeout_ms)

        def begin(begin_s: float) -> Begun:
            return self._kernel.begin(message, destination, begin_s)

        return self._async_sends.send(topic_of(message), body_bytes_of(message), begin, timeout_ms)

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Send one message and do not ask what becomes of it: one attempt, no wait for the disk.

        Raises what is wrong with the message or its route; a broker that refuses it is not heard.
        """
        self._check_running()
        begin_s = self._parts.timer()
        begun = self._kernel.begin(message, Destination.of(queue, selector, arg), begin_s)
        remaining_ms = self._kernel.remaining_ms(begun.queue.topic, begin_s, self._timeout_ms)
        self._kernel.send_oneway(begun.outgoing, begun.queue, remaining_ms)

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> BatchSendResult:
        """Send messages of one topic to one queue, which stores all of them or none.

        They wait for the disk once. The result has the ids of all. Attempts as in `send`. Raises as `send`,
        and BatchIllegal.
        """
        self._check_running()
        return self._batches.send(messages, queue, self._timeout(timeout_ms))

    def send_batch_async(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendFuture[BatchSendResult]:
        """As `send_batch`, without waiting; see `send_async`."""
        self._check_running()
        return self._batches.send_async(messages, queue, self._timeout(timeout_ms))

    def fetch_publish_message_queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of `topic` are sent to. Raises TopicRouteNotFound."""
        self._check_running()
        return list(self._parts.routes.find(topic, self._parts.timer()).queues)

    def register_send_message_hook(self, hook: SendMessageHook) -> None:
        """Call `hook` before and after each attempt from now on (send_hooks.py)."""
        self._parts.hooks.register(hook)
        if self.is_running:
            self._send = self._usual_send()

    # -- inside ---------------------------------------------------------------------------------------

    def _send_to(self, message: Message, destination: Destination, timeout_ms: int | None) -> SendResult:
        """A send that is not the most usual one."""
        self._check_running()
        queue, selector, _ = destination
        if self._accumulator is not None and selector is None and timeout_ms is None:
            result = self._accumulator.send(message, queue)
            if result is not None:
                return result
        timeout_ms = self._timeout(timeout_ms)
        if queue is None and selector is None:
            return self._way_to_send()(message, timeout_ms)
        begin_s = self._parts.timer()
        begun = self._kernel.begin(message, destination, begin_s)
        return self._kernel.send_to(begun.outgoing, begun.queue, begin_s, timeout_ms)

    def _timeout(self, timeout_ms: int | None) -> int:
        if timeout_ms is None:
            return self._timeout_ms
        if timeout_ms < 0:
            raise ValueError(f"timeout_ms is {timeout_ms}, but must be 0 or more")
        return timeout_ms

    def _check_running(self) -> None:
        if not self.is_running:
            raise ClientNotRunning(repr(self), self._state)

    def _usual_send(self) -> Callable[[Message, int], SendResult]:
        if self._accumulator is not None:
            return lambda message, timeout_ms: self._send_to(message, IN_TURN, None)
        return self._way_to_send()

    def _way_to_send(self) -> Callable[[Message, int], SendResult]:
        """How a message is sent that goes alone, to a queue in turn."""
        is_plain = (
            not self._parts.hooks.registered
            and not self._parts.faults.is_enabled
            and self.settings.send_msg_max_timeout_per_request < 0
        )
        return self._retry.send_plainly if is_plain else self._retry.send

    def _refuse(self, message: Message, timeout_ms: int) -> SendResult:
        raise ClientNotRunning(repr(self), self._state)

    def __repr__(self) -> str:
        return f"Producer({self.group!r})"


def _checked_group(group: str) -> str:
    check_group(group)
    if group == DEFAULT_PRODUCER_GROUP:
        raise GroupIllegal(
            f"the producer group may not be {group!r}, which stands for none: give it a name of its own",
            value=group,
        )
    return group


def _client_id(settings: ProducerSettings) -> str:
    """`address@instance`; two producers of one process need ids of their own."""
    name = settings.instance_name
    if name == "DEFAULT":
        name = f"{os.getpid()}#{next(_numbers)}"
    address = settings.client_ip or ".".join(map(str, local_address()))
    return f"{address}@{name}"
