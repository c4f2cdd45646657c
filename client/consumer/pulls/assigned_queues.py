"""The assigned queues: those that this consumer works on now, and how they come and go.

    given     in order: it is locked; then its first offset is found, and its pulls begin
    taken     its pulls end, its offset is persisted and forgotten; what listeners still have counts no more
    leaving   it is to be taken, but consumed in order, and a listener is at work: it is tried again
    sought    a lite pull consumer goes on elsewhere; what is committed stays
    moved     the offset was illegal or was reset: persisted as it shall be, then taken; the next rebalance
              gives it again

Which queues are this consumer's is decided by the rebalance (client/rebalance/), which calls `update` for
each topic: that is the seam between the two.
Threads: one at a time changes them, the timer's of the consumer; any may go through them, and `persist`.
Source: RebalanceImpl#updateProcessQueueTableInRebalance, RebalancePushImpl of Apache RocketMQ.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from mqstore.broker.broker import MessageQueue
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.pulls.pull_service import PullService
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.offsets.offset_store import OffsetStore
from mqstore.store.errors import StoreError
from mqstore.store.events import events
from mqstore.store.events.event import log_event

__all__ = ["AssignedQueues", "QueueOrder"]

_logger = logging.getLogger(__name__)

_MOST_IDLE_S = 120.0
_MIB = 1 << 20


class QueueOrder(Protocol):
    """What sees to it that a queue is consumed in order: by one member, one batch at a time."""

    def claim(self, queue: MessageQueue) -> bool:
        """Lock a queue for this member; False if another one has it."""
        ...

    def may_leave(self, pulled: PulledQueue) -> bool:
        """Whether a queue that was dropped may be given up: no listener is at work on it."""
        ...

    def release(self, queue: MessageQueue) -> None:
        """Other members may lock it."""
        ...


class AssignedQueues:
    """The queues of one consumer."""

    def __init__(
        self,
        group: str,
        settings: ConsumerSettings,
        offsets: OffsetStore,
        pulls: PullService,
        first_offset: Callable[[MessageQueue], int],
        *,
        order: QueueOrder | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """first_offset: where to begin in a queue for which none is kept; it raises StoreError.

        order: of queues that are consumed in order. now_s: the clock of the pulls.
        """
        self._group = group
        self._settings = settings
        self._offsets = offsets
        self._pulls = pulls
        self._first_offset = first_offset
        self._order = order
        self._now_s = now_s
        # Those that were taken while a listener was at work. They are in the table, too.
        self._leaving: set[PulledQueue] = set()
        # Changed in single steps: read without a lock.
        self._table: dict[MessageQueue, PulledQueue] = {}

    def update(self, topic: str, subscription: str, queues: Collection[MessageQueue]) -> bool:
        """Work on these queues of `topic`, and on no others of it; whether that is so now.

        A queue whose first offset cannot be found is left out, which is logged, and one that another member
        has locked. One that was not pulled for 120 s is begun again.
        """
        wanted = set(queues)
        before = self._of(topic)
        is_balanced = True
        for pulled in self:
            if pulled.queue.topic == topic:
                if pulled.queue not in wanted or pulled in self._leaving or self._is_stuck(pulled):
                    is_balanced &= self.take(pulled)
                pulled.subscription = subscription
        for queue in queues:
            if queue not in self._table:
                self._give(queue, subscription)
        self._share_thresholds()
        after = self._of(topic)
        if after != before:
            log_event(
                _logger,
                events.GROUP_REBALANCED,
                "group %s has %d queues of %s here now, before %d",
                *(self._group, len(after), topic, len(before)),
                consumer_group=self._group,
                topic=topic,
                queues=len(after),
            )
        return is_balanced and wanted <= self._table.keys()

    def _of(self, topic: str) -> set[MessageQueue]:
        return {queue for queue in list(self._table) if queue.topic == topic}

    def retain_topics(self, topics: Collection[str]) -> bool:
        """Take the queues of all other topics: they are not subscribed to any more. Whether none is left."""
        are_gone = True
        for pulled in self:
            if pulled.queue.topic not in topics:
                are_gone &= self.take(pulled)
        return are_gone

    def move(self, pulled: PulledQueue, offset: int) -> None:
        """Take a queue so that it begins again at `offset`, whatever listeners still answer."""
        if self._table.get(pulled.queue) is pulled:
            self._offsets.update_and_freeze(pulled.queue, offset)
            self.take(pulled)

    def begin_again(self, queue: MessageQueue, offset: int) -> PulledQueue | None:
        """Pull a queue from `offset` on; nothing of what was pulled counts. None if it is not assigned.

        What is committed stays as it is.
        """
        pulled = self._table.get(queue)
        if pulled is None:
            return None
        pulled.drop()
        return self._begin(queue, pulled.subscription, offset)

    def take(self, pulled: PulledQueue) -> bool:
        """Take a queue away; False if it is consumed in order, and a listener is at work: try again."""
        pulled.drop()
        if self._order is not None and not self._order.may_leave(pulled):
            self._leaving.add(pulled)
            return False
        self.persist(pulled)
        self._offsets.remove(pulled.queue)
        self._table.pop(pulled.queue, None)
        self._leaving.discard(pulled)
        if self._order is not None:
            self._order.release(pulled.queue)
        return True

    def take_leaving(self) -> None:
        """Take the queues that could not be taken before."""
        for pulled in list(self._leaving):
            self.take(pulled)

    def _give(self, queue: MessageQueue, subscription: str) -> None:
        if self._order is not None and not self._order.claim(queue):
            return
        # What is there of an earlier time is not to be believed.
        self._offsets.remove(queue)
        try:
            kept = self._offsets.read_kept(queue)
            offset = kept if kept >= 0 else self._first_offset(queue)
        except (StoreError, OSError) as error:
            _logger.warning("group %s cannot begin with %s yet: %s", self._group, queue, error)
            return
        self._begin(queue, subscription, offset)

    def _begin(self, queue: MessageQueue, subscription: str, offset: int) -> PulledQueue:
        pulled = PulledQueue(queue, subscription, offset)
        pulled.process_queue.last_pull_s = self._now_s()
        self._table[queue] = pulled
        self._pulls.ready(pulled)
        return pulled

    def _is_stuck(self, pulled: PulledQueue) -> bool:
        return self._now_s() - pulled.process_queue.last_pull_s > _MOST_IDLE_S

    def persist(self, pulled: PulledQueue) -> None:
        """Persist the offset of a queue. If that fails it is logged, and messages may come again."""
        try:
            self._offsets.persist(pulled.queue)
        except (StoreError, OSError) as error:
            _logger.warning("group %s cannot persist its offset in %s: %s", self._group, pulled.queue, error)

    def _share_thresholds(self) -> None:
        """Where a threshold is for a topic, a queue has its part of it, by the number of all queues."""
        settings, count = self._settings, max(1, len(self._table))
        if settings.pull_threshold_for_topic != -1:
            self._pulls.threshold_for_queue = max(1, settings.pull_threshold_for_topic // count)
        if settings.pull_threshold_size_for_topic != -1:
            share = max(1, settings.pull_threshold_size_for_topic // count)
            self._pulls.threshold_size_for_queue = share * _MIB

    def __iter__(self) -> Iterator[PulledQueue]:
        return iter(list(self._table.values()))

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"AssignedQueues({self._group!r}, {sorted(self._table)})"
