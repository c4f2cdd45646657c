"""The lite pull consumer: the application asks for messages when it wants them, one loop, no listener.

    subscribe or assign -> poll, or `for message in consumer` -> commit
                           seek, pause, resume                   by itself every 5 s, or by hand
    add_hook -> each batch, before it is handed out

It is RocketMQ's DefaultLitePullConsumer over any `Broker`, or several. With `subscribe` the members of the
group share the queues; with `assign` the application names them. There are no retries: what failed the
application puts elsewhere, or seeks back to it. The first `poll` starts the consumer if `start` did not.

What counts as worked off, and so may be committed by itself:

    poll         what the poll before it has handed out
    for, async   each message when the next one is asked for
    commit()     all that was handed out
    close, with  all that was handed out; if an exception leaves the `with`, not what was handed out last

So a process that dies gets messages again, and misses none, as long as one thread at a time polls. RocketMQ
counts messages as consumed when poll returns them, and commits nothing by itself at the close.

With asyncio: `async with`, `async for`, `await poll_async()`. The loop never waits for a disk or a lock that
is held over one: records are read, and offsets persisted, by threads of the consumer.
Threads: any thread may call any method. Durability: offsets are as durable as where they are kept
(client/offsets/). Source: docs/spec/client_produce.md section 9; DefaultLitePullConsumer.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from mqstore.broker.broker import Broker, MessageQueue
from mqstore.client.consumer.consume_hooks import ConsumeHooks, ConsumeMessageHook
from mqstore.client.consumer.consumer_life import ConsumerLife, check_expression
from mqstore.client.consumer.lite_pull.consume_request import ConsumeRequest
from mqstore.client.consumer.lite_pull.lite_pull_settings import LitePullSettings
from mqstore.client.consumer.lite_pull.running_lite_pull import QueueListener, RunningLitePull
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.errors import ConsumerClosed, ConsumerNotReady, ConsumerStarted, SubscribesAndAssigned
from mqstore.client.offsets.offset_store import NO_OFFSET
from mqstore.client.rebalance.queue_allocation import Allocation, allocate_averagely
from mqstore.index.pull.tag_filter import ALL_TAGS
from mqstore.store.clock import Clock, SystemClock
from mqstore.store.files.file_system import FileSystem
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import check_topic

__all__ = ["LitePullConsumer"]

_FOR_EVER_S = 3_600.0


class LitePullConsumer(ConsumerLife):
    """Pulls for `group` from one broker or several.

    >>> import tempfile
    >>> from mqstore import Message, MessageStore
    >>> from mqstore.broker.embedded_broker import EmbeddedBroker
    >>> with MessageStore.open(tempfile.mkdtemp()) as store, EmbeddedBroker(store) as broker:
    ...     put = store.put_message(Message("orders", b"42.00"))
    ...     with LitePullConsumer(broker, "reports") as consumer:
    ...         consumer.subscribe("orders")
    ...         for message in consumer:
    ...             print(message.body)
    ...             break
    b'42.00'
    """

    def __init__(
        self,
        brokers: Broker | Sequence[Broker],
        group: str,
        settings: LitePullSettings | None = None,
        *,
        allocate: Allocation = allocate_averagely,
        clock: Clock | None = None,
        file_system: FileSystem | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """allocate: how members share queues. file_system: for the offsets of BROADCASTING.

        now_s: a clock that only goes forward. Raises GroupIllegal, NoBroker; ValueError for two brokers of
        one name.
        """
        self.settings = settings = settings or LitePullSettings()
        super().__init__(brokers, group, settings.of_pulls(), file_system, {})
        self._allocate = allocate
        self._clock = clock or SystemClock()
        self._now_s = now_s
        self._assignment: list[MessageQueue] | None = None
        # What is assigned by hand has its tags by topic; all is taken where there are none.
        self._expressions: dict[str, str] = {}
        self._queue_listeners: dict[str, QueueListener] = {}
        self._topic_listeners: dict[str, Callable[[str, list[MessageQueue]], None]] = {}
        self._hooks = ConsumeHooks()
        self._running: RunningLitePull | None = None
        self._committed_s = now_s()

    # -- which messages ---------------------------------------------------------------------------

    def subscribe(
        self, topic: str, expression: str = ALL_TAGS, *, on_change: QueueListener | None = None
    ) -> None:
        """Pull `topic`: all of it, or messages with one of the tags `TagA || TagB`. Also after `start`.

        on_change: called with (topic, all queues, this member's queues) when the latter have changed, by a
        thread of the consumer; a place to `seek`. All members of a group must subscribe to the same.
        Raises TopicIllegal, SubscriptionIllegal, SubscribesAndAssigned.
        """
        if self._assignment is not None:
            raise SubscribesAndAssigned(self.group, has_subscribed=False)
        check_topic(topic)
        if on_change is not None:
            self._queue_listeners[topic] = on_change
        super().subscribe(topic, expression)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Pull these queues, and no others, whatever other consumers do. Also after `start`.

        Raises TopicIllegal, BrokerNotExist, SubscribesAndAssigned, ConsumerClosed.
        """
        if self._subscriptions:
            raise SubscribesAndAssigned(self.group, has_subscribed=True)
        chosen = list(queues)
        for queue in chosen:
            check_topic(queue.topic)
            _ = self._brokers[queue.broker_name]
        self._check_open("be assigned queues")
        with self._lock:
            self._assignment = chosen
            self._on_subscribed()

    def set_sub_expression_for_assign(self, topic: str, expression: str) -> None:
        """Of queues of this topic that are assigned, take messages with one of the tags `TagA || TagB`.

        Call it before `start`, as in RocketMQ. Raises SubscriptionIllegal, ConsumerStarted, ConsumerClosed.
        """
        check_expression(expression)
        self._check_open("be told tags")
        if self._running is not None:
            raise ConsumerStarted(self.group, "set the expression")
        self._expressions[topic] = expression or ALL_TAGS

    def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that may be read; none if it does not exist. Raises ConsumerClosed."""
        self._check_open("look at queues")
        return self._brokers.message_queues(topic)

    def register_topic_message_queue_change_listener(
        self, topic: str, listener: Callable[[str, list[MessageQueue]], None]
    ) -> None:
        """Have `listener(topic, queues)` called when the topic has other queues than before.

        It is looked every topic_metadata_check_interval_millis. Raises ConsumerClosed.
        """
        self._check_open("be told of queues")
        self._topic_listeners[topic] = listener

    def add_hook(self, hook: ConsumeMessageHook) -> None:
        """Have `hook` called for each batch, by the thread that takes its first message, before it gets it.

        Both of its methods, one right after the other, as RocketMQ's poll does: what becomes of the messages
        the consumer does not learn, so the status is CONSUME_SUCCESS. With asyncio they are called in the
        loop. Raises ConsumerClosed.
        """
        self._check_open("add a hook")
        self._hooks.add(hook)

    def _on_subscribed(self) -> None:
        running = self._running
        if running is None:
            return
        if self._assignment is not None:
            running.assign(self._assignment, self._expressions)
        else:
            self._join_group(running.rebalance.soon)
            running.rebalance.soon()

    # -- running ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to pull; returns at once. The first poll does it, too.

        Raises ConsumerNotReady without a subscription or an assignment, ConsumerStarted, ConsumerClosed,
        SubscriptionGroupNotExist, StateFileCorrupt (of BROADCASTING's offsets), StoreClosed; RuntimeError if
        no thread can be started. Nothing runs then.
        """
        with self._lock:
            if self._running is not None:
                raise ConsumerStarted(self.group, "start it")
            self._start()

    def _start(self) -> RunningLitePull:
        with self._lock:
            self._check_open("start")
            if self._running is not None:
                return self._running
            if self._assignment is None and not self._subscriptions:
                raise ConsumerNotReady(self.group, "subscription", "call subscribe(...) or assign(...)")
            self._offsets.load()
            running = RunningLitePull(
                self._brokers,
                self.group,
                self.client_id,
                self.settings,
                self._offsets,
                self._clock,
                lambda: self._subscriptions,
                self._allocate,
                self._queue_listeners,
                self._topic_listeners,
                self._hooks,
            )
            self._running = running
            self._committed_s = self._now_s()
            try:
                running.start()
                self._on_subscribed()
            except BaseException:
                self._running = None
                running.close()
                raise
            return running

    def _started(self, operation: str) -> RunningLitePull:
        self._check_open(operation)
        return self._running or self._start()

    # -- polling ----------------------------------------------------------------------------------

    def poll(self, timeout_ms: int | None = None) -> list[StoredMessage]:
        """Messages of one queue, pull_batch_size at most; none if none came in time.

        timeout_ms: instead of poll_timeout_millis; 0 does not wait. What the poll before has handed out
        counts as worked off. Raises as `start`, and StoreClosed when all brokers are closed and everything
        that was pulled is handed out.
        """
        running = self._started("poll")
        try:
            request = self._take(running) or running.cache.wait(self._timeout_s(timeout_ms))
            return _hand_out_all(running, request)
        except BaseException:
            running.cache.let_go()
            raise

    async def poll_async(self, timeout_ms: int | None = None) -> list[StoredMessage]:
        """As `poll`, for asyncio: the loop goes on meanwhile."""
        running = await self._started_async("poll")
        try:
            request = self._take(running) or await _wait(running, self._timeout_s(timeout_ms))
            return _hand_out_all(running, request)
        except BaseException:
            running.cache.let_go()
            raise

    def _timeout_s(self, timeout_ms: int | None) -> float:
        return (self.settings.poll_timeout_millis if timeout_ms is None else timeout_ms) / 1000

    def _take(self, running: RunningLitePull) -> ConsumeRequest | None:
        """What is here already; what was handed out before is done, and committed if that is due."""
        request = running.cache.take()
        self._commit_if_due(running)
        return request

    async def _started_async(self, operation: str) -> RunningLitePull:
        self._check_open(operation)
        running = self._running
        return await asyncio.to_thread(self._start) if running is None else running

    # -- one message after the other --------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StoredMessage:
        """The next message, as soon as there is one; the one before it is worked off. Ends with the close."""
        try:
            running = self._started("iterate")
        except ConsumerClosed:
            raise StopIteration from None
        try:
            request = self._take(running)
            while request is None or not _goes_on(running, request):
                if running.cache.is_stopped:
                    raise StopIteration
                request = running.cache.wait(_FOR_EVER_S)
            return _hand_out_one(request)
        except BaseException:
            running.cache.let_go()
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StoredMessage:
        """As `__next__`, for asyncio."""
        try:
            running = await self._started_async("iterate")
        except ConsumerClosed:
            raise StopAsyncIteration from None
        try:
            request = self._take(running)
            while request is None or not _goes_on(running, request):
                if running.cache.is_stopped:
                    raise StopAsyncIteration
                request = await _wait(running, _FOR_EVER_S)
            return _hand_out_one(request)
        except BaseException:
            running.cache.let_go()
            raise

    # -- where to go on ---------------------------------------------------------------------------

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on with this queue at `offset`. What was pulled of it and not handed out is forgotten.

        Raises QueueNotAssigned, OffsetOutOfRange, ConsumerClosed, StoreClosed.
        """
        self._started("seek").seek(queue, lambda least, greatest: offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message that is still there. Raises as `seek`."""
        self._started("seek").seek(queue, lambda least, greatest: least)

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the next message that is put. Raises as `seek`."""
        self._started("seek").seek(queue, lambda least, greatest: greatest)

    def seek_to_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Go on with the first message stored at that time, epoch ms, or later. Raises as `seek`."""
        self.seek(queue, self.offset_for_timestamp(queue, timestamp_ms))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at that time, epoch ms, or later."""
        self._check_open("look at queues")
        broker = self._brokers[queue.broker_name]
        return broker.search_offset(queue.topic, queue.queue_id, timestamp_ms)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Pull no more of these queues until `resume`. What was pulled is still handed out.

        A pull that waits at the broker already may bring one batch more.
        """
        self._started("pause").pause(queues, is_paused=True)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """End a `pause`."""
        self._started("resume").pause(queues, is_paused=False)

    # -- how far ----------------------------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[MessageQueue, int] | Iterable[MessageQueue] | None = None,
        *,
        persist: bool = False,
    ) -> None:
        """Commit all that was handed out, that of some queues, or these offsets, whatever they were before.

        persist: have them persisted now, and not within 5 s. An offset is that of the message to consume
        next. Raises QueueNotAssigned, and commits nothing then; ConsumerClosed.
        """
        running = self._started("commit")
        if isinstance(offsets, Mapping):
            running.check_assigned(offsets, "commit in")
            running.commit(offsets)
        else:
            queues = None if offsets is None else set(offsets)
            running.check_assigned(queues or (), "commit in")
            # Of other queues, what is at work stays so.
            running.cache.settle(queues)
            done = running.cache.done()
            running.commit({queue: done[queue] for queue in done if queues is None or queue in queues})
        if persist:
            running.persist_now()

    def committed(self, queue: MessageQueue) -> int | None:
        """The offset that is committed; None if the group has none. Raises ConsumerClosed, StoreError."""
        self._check_open("look at offsets")
        offset = self._offsets.read(queue)
        if offset == NO_OFFSET:
            offset = self._offsets.read_kept(queue)
        return None if offset < 0 else offset

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the message to hand out next; as `committed` where none was handed out yet."""
        position = self._running.cache.position(queue) if self._running else None
        return self.committed(queue) if position is None else position

    def _commit_if_due(self, running: RunningLitePull) -> None:
        if not self.settings.auto_commit:
            return
        now_s = self._now_s()
        if now_s - self._committed_s >= self.settings.auto_commit_interval_millis / 1000:
            self._committed_s = now_s
            running.commit(running.cache.done())

    # -- the end ----------------------------------------------------------------------------------

    def _assigned(self) -> Collection[PulledQueue]:
        running = self._running
        return list(running.assigned) if running else ()

    def close(self) -> None:
        """Stop, and leave the group; safe to call twice. Whoever polls gets nothing, iterators end.

        With auto_commit all that was handed out is committed.
        """
        self._close(has_failed=False)

    def _close(self, *, has_failed: bool) -> None:
        if self._is_in_child:
            return
        self._is_closed = True
        with self._lock:
            running, self._running = self._running, None
        if running is None:
            return
        # Not under the lock: a listener that runs on the timer's thread may close it, too.
        try:
            if self.settings.auto_commit:
                if not has_failed:
                    running.cache.settle()
                running.commit(running.cache.done())
        finally:
            running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close(has_failed=error is not None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._close, has_failed=error is not None)

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "running" if self._running else "not started"
        what = sorted(self._subscriptions) if self._assignment is None else self._assignment
        return f"LitePullConsumer({self.group!r}, {state}, {what})"


async def _wait(running: RunningLitePull, timeout_s: float) -> ConsumeRequest | None:
    """As `ConsumeRequestCache.wait`, without a thread that waits."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + timeout_s
    while (request := running.cache.take()) is None and not running.cache.is_stopped:
        has_come = asyncio.Event()

        def tell(has_come: asyncio.Event = has_come) -> None:
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(has_come.set)

        cancel = running.cache.call_when_ready(tell)
        try:
            async with asyncio.timeout_at(end_s):
                await has_come.wait()
        except TimeoutError:
            break
        finally:
            cancel()
    return request


def _hand_out_all(running: RunningLitePull, request: ConsumeRequest | None) -> list[StoredMessage]:
    if request is None or not _goes_on(running, request):
        return []
    messages = list(request.messages[request.handed :])
    count = len(request.messages)
    # Behind the last call: an interrupt comes before these two, or when the caller has the messages.
    request.handed = count
    request.taker = None
    return messages


def _hand_out_one(request: ConsumeRequest) -> StoredMessage:
    message = request.messages[request.handed]
    # As above.
    request.handed += 1
    request.taker = None
    return message


def _goes_on(running: RunningLitePull, request: ConsumeRequest) -> bool:
    """Have more of the queue pulled; False if the consumer was closed meanwhile, by a signal handler say."""
    running.has_room(request.pulled)
    if running.cache.is_stopped:
        return False
    running.show(request)
    return not running.cache.is_stopped
