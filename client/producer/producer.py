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

from collections.abc import Sequence
from typing import Any

from mqstore.broker.broker import MessageQueue
from mqstore.client.producer.producer_life import ProducerLife
from mqstore.client.producer.queues.queue_selector import MessageQueueSelector
from mqstore.client.producer.request_reply import ReplyFuture
from mqstore.client.producer.send_result import BatchSendResult, SendResult
from mqstore.client.producer.sends.async_send import SendFuture
from mqstore.client.producer.sends.async_sends import body_bytes_of, topic_of
from mqstore.client.producer.sends.compiled_send import PLAIN_SEND
from mqstore.client.producer.sends.send_kernel import Begun, Destination
from mqstore.store.message.message import Message

__all__ = ["Producer"]


class Producer(ProducerLife):
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
        return self._plain_send(message, queue=queue, selector=selector, arg=arg, timeout_ms=timeout_ms)

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

    def request(
        self,
        message: Message,
        timeout_ms: int,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
    ) -> Message:
        """Send a request and wait for its reply, `timeout_ms` for both.

        Who consumes it sends what `create_reply_message` makes of it. Raises RequestTimedOut when it was sent
        and no reply came, RequestNotSent, MessageIllegal and its leaves, NoPermission.
        """
        self._check_running()
        return self._requests.request(message, Destination.of(queue, selector, arg), timeout_ms)

    def request_async(
        self,
        message: Message,
        timeout_ms: int,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
    ) -> ReplyFuture:
        """As `request`, without waiting: `future.result()`, or `await`. Errors are the future's.

        A request that waited too long is found within a second. Raises MessageIllegal and its leaves,
        NoPermission, SendRejected.
        """
        self._check_running()
        return self._requests.request_async(message, Destination.of(queue, selector, arg), timeout_ms)

    # -- inside ---------------------------------------------------------------------------------------

    def _make_send(self) -> None:
        self._plain_send, self._allow_plain = PLAIN_SEND(self._parts, self._retry, self._send_otherwise)
        if type(self).send is Producer.send:
            # Without a call in between.
            self.send = self._plain_send  # type: ignore[method-assign]

    def _send_otherwise(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: MessageQueueSelector | None,
        arg: Any,
        timeout_ms: int | None,
    ) -> SendResult:
        """A send that is not plain (plain_send.py)."""
        destination = Destination.of(queue, selector, arg)
        self._check_running()
        if self._accumulator is not None and selector is None and timeout_ms is None:
            result = self._accumulator.send(message, queue)
            if result is not None:
                return result
        timeout_ms = self._timeout(timeout_ms)
        if queue is None and selector is None:
            return self._retry.send(message, timeout_ms)
        begin_s = self._parts.timer()
        begun = self._kernel.begin(message, destination, begin_s)
        return self._kernel.send_to(begun.outgoing, begun.queue, begin_s, timeout_ms)
