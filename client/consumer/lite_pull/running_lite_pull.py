"""A lite pull consumer that runs: its pulls, its cache, and who decides which queues it has.

    subscribe   the members of the group share the queues of the topics (client/rebalance/)
    assign      the application names the queues; the consumer is no member of the group

Threads: the timer's, which rebalances and looks at topics, the one that pulls, and those of the application.
One lock is held while queues come, go or are sought through. Source: docs/spec/client_produce.md section 9;
DefaultLitePullConsumerImpl, RebalanceLitePullImpl.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from mqstore.broker.broker import MessageQueue
from mqstore.client.brokers import Brokers
from mqstore.client.consumer.consume_hooks import ConsumeHooks, ConsumeMessageContext, ConsumeReturnType
from mqstore.client.consumer.listener import ConsumeConcurrentlyStatus
from mqstore.client.consumer.lite_pull.consume_request import ConsumeRequest
from mqstore.client.consumer.lite_pull.consume_request_cache import ConsumeRequestCache
from mqstore.client.consumer.lite_pull.lite_pull_settings import LitePullSettings
from mqstore.client.consumer.pulls.assigned_queues import AssignedQueues
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.consumer.pulls.running_pulls import RunningPulls
from mqstore.client.errors import OffsetOutOfRange, QueueNotAssigned
from mqstore.client.offsets.offset_store import OffsetStore
from mqstore.client.rebalance.queue_allocation import Allocation
from mqstore.store.clock import Clock
from mqstore.store.errors import StoreError
from mqstore.store.threads.lock import RLock
from mqstore.store.threads.timer import TimerThread

__all__ = ["QueueListener", "RunningLitePull"]

_logger = logging.getLogger(__name__)

_SUSPEND_MS = 20_000
_PAUSE_AFTER_ERROR_MS = 1_000
_ASSIGN_AGAIN_MS = 3_000

QueueListener = Callable[[str, list[MessageQueue], list[MessageQueue]], None]
"""(topic, all its queues, those that this consumer has)."""


class RunningLitePull:
    """The parts of one consumer, and the `Assignment` that its rebalance tells."""

    def __init__(
        self,
        brokers: Brokers,
        group: str,
        client_id: str,
        settings: LitePullSettings,
        offsets: OffsetStore,
        clock: Clock,
        subscriptions: Callable[[], Mapping[str, str]],
        allocate: Allocation,
        queue_listeners: Mapping[str, QueueListener],
        topic_listeners: Mapping[str, Callable[[str, list[MessageQueue]], None]],
        hooks: ConsumeHooks,
    ) -> None:
        """subscriptions: topic -> tags, as they are now. Listeners: by topic, as they are now.

        hooks: called around the handing out of each batch.
        """
        self._brokers = brokers
        self._group = group
        self._auto_commit = settings.auto_commit
        self._check_ms = settings.topic_metadata_check_interval_millis
        self._offsets = offsets
        self._queue_listeners = queue_listeners
        self._topic_listeners = topic_listeners
        self._hooks = hooks
        self._clock = clock
        self._assignment: Collection[MessageQueue] = ()
        self._seen: dict[str, list[MessageQueue]] = {}
        self._lock = RLock()
        self._timer = TimerThread(f"mqstore timer {group}")
        self.cache = ConsumeRequestCache(
            len(brokers), settings.pull_batch_size, settings.pull_threshold_for_all, settings.consume_max_span
        )
        self._pulls = RunningPulls(
            brokers,
            group,
            client_id,
            settings.of_pulls(),
            offsets,
            self._timer,
            clock,
            self.cache,
            subscriptions,
            allocate,
            self._move_soon,
            assignment=lambda _: self,
            suspend_ms=_SUSPEND_MS,
            pause_after_error_ms=_PAUSE_AFTER_ERROR_MS,
        )
        self.assigned: AssignedQueues = self._pulls.assigned
        self.rebalance = self._pulls.rebalance

    def start(self) -> None:
        """Start the threads. Raises RuntimeError if that cannot be."""
        self._pulls.start()
        self._timer.call_later(self._check_ms, self._check_topics_again)

    def close(self) -> None:
        """End everything; what is committed is persisted, and the group is left."""
        self.cache.stop()
        self._pulls.close(lambda: None)

    # -- which queues -----------------------------------------------------------------------------

    def update(self, topic: str, subscription: str, queues: Collection[MessageQueue]) -> bool:
        """Have these queues of the topic and no others; whether that is so now."""
        with self._lock:
            before = self._queues_of(topic)
            if before - set(queues) and self._auto_commit:
                # Whoever has a queue next goes on behind what was worked off here.
                self.commit(self.cache.done())
            is_balanced = self.assigned.update(topic, subscription, queues)
            after = self._queues_of(topic)
        listener = self._queue_listeners.get(topic)
        if after != before and listener is not None:
            _tell(listener, topic, self._brokers.message_queues(topic), sorted(after))
        return is_balanced

    def retain_topics(self, topics: Collection[str]) -> bool:
        """Have no queues of other topics; whether that is so now."""
        with self._lock:
            if self._auto_commit:
                self.commit(self.cache.done())
            return self.assigned.retain_topics(topics)

    def assign(self, queues: Collection[MessageQueue], subscriptions: Mapping[str, str]) -> None:
        """Have these queues and no others. One whose first offset cannot be had is tried again after 3 s."""
        by_topic: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_topic.setdefault(queue.topic, []).append(queue)
        with self._lock:
            self._assignment = queues
            is_done = self.retain_topics(by_topic.keys())
            for topic, its_queues in by_topic.items():
                is_done &= self.update(topic, subscriptions.get(topic, "*"), its_queues)
        if not is_done:
            self._timer.call_later(_ASSIGN_AGAIN_MS, lambda: self._assign_again(queues, subscriptions))

    def _assign_again(self, queues: Collection[MessageQueue], subscriptions: Mapping[str, str]) -> None:
        with self._lock:
            # Unless there has been another one since.
            if self._assignment is queues:
                self.assign(queues, subscriptions)

    def _queues_of(self, topic: str) -> set[MessageQueue]:
        return {pulled.queue for pulled in self.assigned if pulled.queue.topic == topic}

    # -- where in them ----------------------------------------------------------------------------

    def seek(self, queue: MessageQueue, choose: Callable[[int, int], int]) -> None:
        """Go on at the offset that `choose` makes of the least and the greatest. Raises OffsetOutOfRange."""
        with self._lock:
            self.check_assigned([queue], "seek in")
            broker = self._brokers[queue.broker_name]
            least = broker.min_offset(queue.topic, queue.queue_id)
            greatest = broker.max_offset(queue.topic, queue.queue_id)
            offset = choose(least, greatest)
            if type(offset) is not int or not least <= offset <= greatest:
                raise OffsetOutOfRange(queue, offset, least, greatest)
            self._begin_again(queue, offset)

    def _begin_again(self, queue: MessageQueue, offset: int) -> None:
        pulled = self.assigned.begin_again(queue, offset)
        if pulled is not None:
            self.cache.begin(pulled, offset)

    def _move_soon(self, pulled: PulledQueue, offset: int) -> None:
        """The offset is not in the queue, or an operator has set another."""

        def move() -> None:
            with self._lock:
                if pulled in self.assigned:
                    # Else what was committed before would be persisted over it.
                    self._offsets.update(pulled.queue, offset, increase_only=False)
                    self._begin_again(pulled.queue, offset)

        self._timer.call_later(0, move)

    def pause(self, queues: Iterable[MessageQueue], *, is_paused: bool) -> None:
        """Hand out nothing of these queues that is not here yet, or go on."""
        with self._lock:
            chosen = frozenset(queues)
            paused = self.cache.paused
            self.cache.paused = paused | chosen if is_paused else paused - chosen
        if not is_paused:
            for pulled in self.assigned:
                if pulled.queue in chosen:
                    self._pulls.service.ready(pulled)

    def check_assigned(self, queues: Iterable[MessageQueue], operation: str) -> None:
        """Raises QueueNotAssigned for a queue that this consumer does not have."""
        known = {pulled.queue for pulled in self.assigned}
        for queue in queues:
            if queue not in known:
                raise QueueNotAssigned(self._group, queue, operation)

    # -- how far ----------------------------------------------------------------------------------

    def show(self, request: ConsumeRequest) -> None:
        """Call the hooks for a batch that is about to be handed out, once.

        As RocketMQ does in its poll: before and after come right behind each other, and the status is always
        CONSUME_SUCCESS: the consumer does not learn what the application makes of the messages.
        """
        if request.is_shown:
            return
        if self._hooks.hooks:
            messages = request.messages[request.handed :]
            context = ConsumeMessageContext(self._group, request.pulled.queue, messages, self._clock.now_ms())
            self._hooks.before(context)
            context.status = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
            context.return_type = ConsumeReturnType.SUCCESS
            self._hooks.after(context)
        # Last: after an interrupt the batch is shown once more, and then handed out.
        request.is_shown = True

    def has_room(self, pulled: PulledQueue) -> None:
        """Messages of a queue were handed out."""
        if pulled.is_held_back:
            self._pulls.service.has_room(pulled)

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit these offsets in memory; they are persisted every 5 s."""
        for queue, offset in offsets.items():
            self._offsets.update(queue, offset, increase_only=False)

    def persist_now(self) -> None:
        """Persist what is committed."""
        self._pulls.persist_now()

    # -- other queues of a topic ------------------------------------------------------------------

    def _check_topics_again(self) -> None:
        self._timer.call_later(self._check_ms, self._check_topics_again)
        self.check_topics()

    def check_topics(self) -> None:
        """Tell the listeners of topics whose queues are others than at the last look."""
        for topic, listener in list(self._topic_listeners.items()):
            try:
                queues = self._brokers.message_queues(topic)
            except StoreError as error:
                _logger.info("the queues of topic %s cannot be looked at: %s", topic, error)
                continue
            before = self._seen.setdefault(topic, queues)
            if queues != before:
                self._seen[topic] = queues
                _tell(listener, topic, queues)

    def __repr__(self) -> str:
        return f"RunningLitePull({self._pulls!r}, {self.cache!r})"


def _tell(listener: Callable[..., None], *facts: object) -> None:
    try:
        listener(*facts)
    except Exception:
        _logger.exception("the listener %r failed", listener)
