"""The push consumer: hands the messages of its topics to a listener, and has come again what failed.

    subscribe, listener, start -> which queues are mine          client/rebalance/rebalance_service.py
                               -> pulls                          pull_service.py
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

import itertools
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from mqstore.broker.broker import Broker, ConsumerData, MessageModel, MessageQueue
from mqstore.client.brokers import Brokers
from mqstore.client.consumer.consume_hooks import ConsumeHooks, ConsumeMessageHook
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import (
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    MessageListener,
    MessageListenerConcurrently,
    RegisteredListener,
)
from mqstore.client.consumer.orderly.orderly_listener import (
    MessageListenerOrderly,
    OrderlyMessageListener,
    RegisteredOrderlyListener,
)
from mqstore.client.consumer.running_consumer import RunningConsumer
from mqstore.client.errors import ConsumerClosed, ConsumerNotReady, ConsumerStarted
from mqstore.client.offsets.broker_offset_store import BrokerOffsetStore
from mqstore.client.offsets.local_file_offset_store import LocalFileOffsetStore
from mqstore.client.offsets.offset_store import OffsetStore
from mqstore.client.rebalance.queue_allocation import Allocation, allocate_averagely
from mqstore.index.pull.tag_filter import ALL_TAGS, parse_subscription
from mqstore.store.clock import Clock, SystemClock
from mqstore.store.errors import StoreClosed, SubscriptionIllegal
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.message.topic_names import check_group, check_topic, retry_topic
from mqstore.store.threads.run_in_thread import run_in_thread

__all__ = ["PushConsumer"]

_logger = logging.getLogger(__name__)

_numbers = itertools.count()
"""Tells two consumers of this process apart."""

ListenerFunction = TypeVar("ListenerFunction", bound=MessageListener)
OrderlyFunction = TypeVar("OrderlyFunction", bound=OrderlyMessageListener)


class PushConsumer:
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
        clock: Clock | None = None,
        file_system: FileSystem | None = None,
    ) -> None:
        """allocate: how members share queues. file_system: for the offsets of BROADCASTING.

        Raises GroupIllegal, NoBroker; ValueError for two brokers of one name.
        """
        check_group(group)
        self.group = group
        self.settings = settings = settings or ConsumerSettings()
        self.client_id = _client_id(settings)
        self._brokers = Brokers(brokers, f"the consumer of group {group!r}")
        self._allocate = allocate
        self._clock = clock or SystemClock()
        self._is_clustering = settings.message_model is MessageModel.CLUSTERING
        self._offsets: OffsetStore
        if self._is_clustering:
            self._offsets = BrokerOffsetStore(self._brokers, group)
        else:
            directory = Path(settings.local_offset_store_dir).expanduser().absolute()
            files = file_system or OsFileSystem()
            self._offsets = LocalFileOffsetStore(files, directory, self.client_id, group)
        # Replaced, never changed: read without a lock.
        self._subscriptions = {retry_topic(group): ALL_TAGS} if self._is_clustering else {}
        self._listener: RegisteredListener | RegisteredOrderlyListener | None = None
        self._hooks = ConsumeHooks()
        self._running: RunningConsumer | None = None
        self._is_closed = False
        self._process_id = os.getpid()
        # Held by `start`, `subscribe` and `close`.
        self._lock = threading.RLock()

    # -- before the start -------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str = ALL_TAGS) -> None:
        """Consume `topic`: all of it, or messages with one of the tags `TagA || TagB`. Also after `start`.

        A second subscription of a topic takes the place of the first; what was pulled before may still come.
        All members of a group must subscribe to the same. Raises TopicIllegal, SubscriptionIllegal.
        """
        check_topic(topic)
        if not isinstance(expression, str):
            raise SubscriptionIllegal(expression)
        parse_subscription(expression)
        self._replace_subscriptions("subscribe", self._subscriptions | {topic: expression or ALL_TAGS})

    def unsubscribe(self, topic: str) -> None:
        """Consume `topic` no more."""
        others = {known: tags for known, tags in self._subscriptions.items() if known != topic}
        self._replace_subscriptions("unsubscribe", others)

    def listener(self, function: ListenerFunction) -> ListenerFunction:
        """Have `function(messages, context)` called with each batch, by several threads at a time.

        None and CONSUME_SUCCESS: done. An exception and RECONSUME_LATER: they come again, each time later,
        and become dead letters at last. Also a decorator. Raises ListenerIllegal, ConsumerStarted.
        """
        self._register(RegisteredListener(function, ConsumeConcurrentlyStatus.CONSUME_SUCCESS))
        return function

    def register_message_listener(self, listener: MessageListener | MessageListenerConcurrently) -> None:
        """As `listener`, but as in RocketMQ None counts as RECONSUME_LATER: say CONSUME_SUCCESS.

        `listener` may also be an object with a method `consume_message(messages, context)`.
        """
        self._register(RegisteredListener(listener, None))

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

    def _register(self, listener: RegisteredListener | RegisteredOrderlyListener) -> None:
        self._check_open("register a listener")
        with self._lock:
            if self._running is not None:
                raise ConsumerStarted(self.group, "register its listener")
            self._listener = listener

    def _replace_subscriptions(self, operation: str, subscriptions: dict[str, str]) -> None:
        self._check_open(operation)
        with self._lock:
            self._subscriptions = subscriptions
            if self._running is not None:
                self._join_group(self._running)
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
            )
            self._running = running
            try:
                self._join_group(running)
                running.start()
            except BaseException:
                self._running = None
                running.close()
                raise

    def _join_group(self, running: RunningConsumer) -> None:
        """Be a member at every broker; one that is closed is left out, unless all are."""
        data = ConsumerData(self.settings.message_model, self._subscriptions)
        closed: list[StoreClosed] = []
        for broker in self._brokers.values():
            try:
                broker.register_consumer(self.group, self.client_id, data, running.rebalance.soon)
            except StoreClosed as error:
                closed.append(error)
        if len(closed) == len(self._brokers):
            raise closed[0]
        for error in closed:
            _logger.warning("group %s does without a broker: %s", self.group, error)

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

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are this member's now."""
        running = self._running
        return sorted(pulled.queue for pulled in running.assigned) if running else []

    @property
    def errors(self) -> dict[MessageQueue, BaseException]:
        """Why queues cannot be pulled now, by queue; each is tried again."""
        running = self._running
        assigned = running.assigned if running else ()
        return {pulled.queue: pulled.error for pulled in assigned if pulled.error is not None}

    def close(self) -> None:
        """Stop, and leave the group; safe to call twice, and again after an interrupt.

        Listeners at work have `await_termination_millis_when_shutdown`; what has not begun comes again at
        the next start. Which listener took longer is logged; its thread ends when it returns, and its answer
        counts no more. A listener that closes its consumer does not wait: the close goes on in a thread.
        """
        if os.getpid() != self._process_id:
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

    def _check_open(self, operation: str) -> None:
        # A forked child has none of the threads, and a lock may be held there for ever.
        if self._is_closed or os.getpid() != self._process_id:
            raise ConsumerClosed(self.group, operation)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "running" if self._running else "not started"
        return f"PushConsumer({self.group!r}, {state}, {sorted(self._subscriptions)})"


def _client_id(settings: ConsumerSettings) -> str:
    """`address@instance`; members of a group need ids of their own, and a file of offsets the same again."""
    name = settings.instance_name
    if name == "DEFAULT" and settings.message_model is MessageModel.CLUSTERING:
        name = f"{os.getpid()}#{next(_numbers)}"
    return f"{settings.client_ip}@{name}"
