"""The push consumer: hands the messages of its topics to a listener, and has come again what failed.

    subscribe, listener, start -> which queues are mine          client/rebalance/rebalance_service.py
                               -> pulls                          pulls/pull_service.py
                               -> listener, send-back, offset    consume_service.py, orderly/
                               -> offsets persisted every 5 s    client/offsets/

It is RocketMQ's DefaultMQPushConsumer, concurrent or in order, over any `Broker`, or several: the queues of a
topic are then those of all of them, and one that is closed is left out. In CLUSTERING the members
of a group share the queues, and `%RETRY%group` is always consumed, where failed messages come again.
A message is done only when the listener has succeeded or its copy for the retry is stored; the offset never
passes a message that is not done. So a crash repeats messages and loses none.

Threads: any thread may call any method. The consumer has one thread that pulls, one for what is due at a
time, and up to consume_thread_min for the listener, all daemons; `close` ends them. In a forked child they
are not there: the consumer counts as closed.
Durability: offsets are as durable as where they are kept (client/offsets/).
Source: docs/spec/client_consume.md; DefaultMQPushConsumer, DefaultMQPushConsumerImpl.
"""

from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Self, TypeVar

from mqstore.broker.broker import Broker, MessageModel
from mqstore.client.consumer.consume_hooks import ConsumeHooks, ConsumeMessageHook
from mqstore.client.consumer.consumer_life import ConsumerLife
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import (
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    MessageListener,
    MessageListenerConcurrently,
    RegisteredConcurrentListener,
)
from mqstore.client.consumer.orderly.orderly_listener import (
    MessageListenerOrderly,
    OrderlyMessageListener,
    RegisteredOrderlyListener,
)
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.consumer.running_consumer import RunningConsumer
from mqstore.client.consumer.send_back import RetryDelay
from mqstore.client.consumer.send_back_hooks import SendBackHook
from mqstore.client.errors import ConsumerNotReady, ConsumerStarted
from mqstore.client.rebalance.queue_allocation import Allocation, allocate_averagely
from mqstore.index.pull.tag_filter import ALL_TAGS
from mqstore.store.clock import Clock, SystemClock
from mqstore.store.files.file_system import FileSystem
from mqstore.store.message.topic_names import retry_topic
from mqstore.store.threads.run_in_thread import run_in_thread

__all__ = ["PushConsumer"]

ListenerFunction = TypeVar("ListenerFunction", bound=MessageListener)
OrderlyFunction = TypeVar("OrderlyFunction", bound=OrderlyMessageListener)


class PushConsumer(ConsumerLife):
    """Consumes for `group` from one broker or several. client_id: by which the group knows this member.

    >>> import tempfile, threading
    >>> from mqstore import Message, MessageStore
    >>> from mqstore.broker.embedded_broker import EmbeddedBroker
    >>> charged = threading.Event()
    >>> with MessageStore.open(tempfile.mkdtemp()) as store, EmbeddedBroker(store) as broker:
    ...     put = store.put_message(Message("orders", b"42.00"))
    ...     with PushConsumer(broker, "billing") as consumer:
    ...         consumer.subscribe("orders")
    ...         @consumer.listener
    ...         def charge(messages, context):
    ...             charged.set()
    ...         consumer.start()
    ...         charged.wait(10)
    True
    """

    def __init__(
        self,
        brokers: Broker | Sequence[Broker],
        group: str,
        settings: ConsumerSettings | None = None,
        *,
        allocate: Allocation = allocate_averagely,
        retry_policy: RetryDelay | None = None,
        clock: Clock | None = None,
        file_system: FileSystem | None = None,
    ) -> None:
        """allocate: how members share queues. file_system: for the offsets of BROADCASTING.

        retry_policy: called with the reconsume times of a message that failed, 0 at first, for the
        milliseconds until it comes again. The nearest delay level that is not shorter is taken; without a
        policy the group's is asked (subscription_groups.create). Not for listeners in order.

        Raises GroupIllegal, NoBroker; ValueError for two brokers of one name.
        """
        self.settings = settings = settings or ConsumerSettings()
        is_clustering = settings.message_model is MessageModel.CLUSTERING
        retries = {retry_topic(group): ALL_TAGS} if is_clustering else {}
        super().__init__(brokers, group, settings, file_system, retries)
        self._allocate = allocate
        self._retry_policy = retry_policy
        self._clock = clock or SystemClock()
        self._listener: RegisteredConcurrentListener | RegisteredOrderlyListener | None = None
        self._hooks = ConsumeHooks()
        self._running: RunningConsumer | None = None

    # -- before the start -------------------------------------------------------------------------

    def listener(self, function: ListenerFunction) -> ListenerFunction:
        """Have `function(messages, context)` called with each batch, by several threads at a time.

        None and CONSUME_SUCCESS: done. An exception and RECONSUME_LATER: they come again, each time later,
        and become dead letters at last. Also a decorator. Raises ListenerIllegal, ConsumerStarted.
        """
        self._register(RegisteredConcurrentListener(function, ConsumeConcurrentlyStatus.CONSUME_SUCCESS))
        return function

    def register_message_listener(self, listener: MessageListener | MessageListenerConcurrently) -> None:
        """As `listener`, but as in RocketMQ None counts as RECONSUME_LATER: say CONSUME_SUCCESS.

        `listener` may also be an object with a method `consume_message(messages, context)`.
        """
        self._register(RegisteredConcurrentListener(listener, None))

    def orderly_listener(self, function: OrderlyFunction) -> OrderlyFunction:
        """Have `function(messages, context)` called with each queue's messages in order, one batch at a time.

        A queue is locked for this member of the group. None and SUCCESS: done. An exception and
        SUSPEND_CURRENT_QUEUE_A_MOMENT: the same batch again after a pause, and nothing else of the queue
        until then. Also a decorator. Raises ListenerIllegal, ConsumerStarted.
        """
        self._register(RegisteredOrderlyListener(function, ConsumeOrderlyStatus.SUCCESS))
        return function

    def register_orderly_message_listener(
        self, listener: OrderlyMessageListener | MessageListenerOrderly
    ) -> None:
        """As `orderly_listener`, but as in RocketMQ None counts as SUSPEND_CURRENT_QUEUE_A_MOMENT.

        `listener` may also be an object with a method `consume_message(messages, context)`.
        """
        self._register(RegisteredOrderlyListener(listener, None))

    def add_hook(self, hook: ConsumeMessageHook) -> None:
        """Have `hook` called around each call of the listener."""
        self._check_open("add a hook")
        self._hooks.add(hook)

    def add_send_back_hook(self, hook: SendBackHook) -> None:
        """Have `hook` called around each message that is sent back: to be retried, or a dead letter."""
        self._check_open("add a hook")
        self._hooks.send_backs.add(hook)

    def _register(self, listener: RegisteredConcurrentListener | RegisteredOrderlyListener) -> None:
        self._check_open("register a listener")
        with self._lock:
            if self._running is not None:
                raise ConsumerStarted(self.group, "register its listener")
            self._listener = listener

    def _on_subscribed(self) -> None:
        if self._running is not None:
            self._join_group(self._running.rebalance.soon)
            self._running.rebalance.soon()

    # -- running ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to consume; returns at once.

        Raises ConsumerNotReady without a subscription or a listener, ConsumerStarted, ConsumerClosed,
        SubscriptionGroupNotExist, StateFileCorrupt (of BROADCASTING's offsets), StoreClosed; RuntimeError if
        no thread can be started. Nothing runs then.
        """
        self._check_open("start")
        with self._lock:
            if self._running is not None:
                raise ConsumerStarted(self.group, "start it")
            if self._listener is None:
                raise ConsumerNotReady(self.group, "listener", "register one with @consumer.listener")
            if not self._subscriptions.keys() - {retry_topic(self.group)}:
                raise ConsumerNotReady(self.group, "subscription", "call consumer.subscribe(...)")
            self._offsets.load()
            running = RunningConsumer(
                self._brokers,
                self.group,
                self.client_id,
                self.settings,
                self._listener,
                self._hooks,
                self._offsets,
                self._clock,
                lambda: self._subscriptions,
                self._allocate,
                self._retry_policy,
            )
            self._running = running
            try:
                self._join_group(running.rebalance.soon)
                running.start()
            except BaseException:
                self._running = None
                running.close()
                raise

    def suspend(self) -> None:
        """Pull no more until `resume`. What was pulled is still consumed. Raises ConsumerClosed."""
        self._set_suspended("suspend", is_suspended=True)

    def resume(self) -> None:
        """End a `suspend`. Raises ConsumerClosed."""
        self._set_suspended("resume", is_suspended=False)

    def _set_suspended(self, operation: str, *, is_suspended: bool) -> None:
        self._check_open(operation)
        running = self._running
        if running is None:
            raise ConsumerNotReady(self.group, "pulls", "start it")
        running.suspend(is_suspended=is_suspended)

    def persist_consumer_offset(self) -> None:
        """Persist the offsets now; they are every 5 s, and at the close. Raises ConsumerClosed.

        What fails is logged and tried again then.
        """
        self._check_open("persist its offsets")
        if (running := self._running) is not None:
            running.persist_now()

    def _assigned(self) -> Collection[PulledQueue]:
        running = self._running
        return list(running.assigned) if running else ()

    def close(self) -> None:
        """Stop, and leave the group; safe to call twice, and again after an interrupt.

        Listeners at work have `await_termination_millis_when_shutdown`; what has not begun comes again at
        the next start. Which listener took longer is logged; its thread ends when it returns, and its answer
        counts no more. A listener that closes its consumer does not wait: the close goes on in a thread.
        """
        if self._is_in_child:
            return
        running = self._running
        self._is_closed = True
        if running is None:
            return
        if running.is_listener_thread:
            running.hand_out_nothing()
            run_in_thread(self._close)
        else:
            self._close()

    def _close(self) -> None:
        with self._lock:
            running = self._running
            if running is not None:
                running.close()
                self._running = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "running" if self._running else "not started"
        return f"PushConsumer({self.group!r}, {state}, {sorted(self._subscriptions)})"
