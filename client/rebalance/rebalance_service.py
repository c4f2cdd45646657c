"""The rebalance: decides again and again which queues of the subscribed topics are this member's.

    when               at the start, when members or subscriptions change, on resume, after an illegal offset;
                       else every 20 s
    1 s after          one that did not succeed, or a topic that does not exist yet; never twice within 1 s

All members take the same rule (queue_allocation.py) over the same sorted members and queues, so no queue has
two owners for long. If a topic or the members cannot be seen, its queues stay as they are. With several
brokers a topic has the queues of all of them, and the group has the members of each. A broker that is closed
is left out, and its queues with it; when all are, there is nothing more to decide.

What becomes of a queue that is mine, or no more, is up to the assignment (client/consumer/): it locks a queue
that is consumed in order, and says when it could not yet give one up. Then it is asked again after 1 s.
(RocketMQ asks after 500 ms, and waits for the second to pass, too.)
Threads: a rebalance runs on the timer's thread; `soon` may be called by any.
Source: docs/spec/client_produce.md section 8; RebalanceService, RebalanceImpl#rebalanceByTopic.
"""

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from mqstore.broker.broker import Broker, MessageModel, MessageQueue
from mqstore.client.brokers import readable_queues
from mqstore.client.rebalance.queue_allocation import Allocation, allocate_averagely
from mqstore.store.errors import StoreClosed
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.message.topic_names import is_retry_topic
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.timer import Timer

__all__ = ["Assignment", "RebalanceService"]

_logger = logging.getLogger(__name__)

_PERIOD_MS = 20_000
_SOON_MS = 1_000


class Assignment(Protocol):
    """What works on the queues."""

    def update(self, topic: str, subscription: str, queues: Collection[MessageQueue]) -> bool:
        """Work on these queues of the topic and no others; whether that is so now."""
        ...

    def retain_topics(self, topics: Collection[str]) -> bool:
        """Work on no queues of other topics; whether that is so now."""
        ...


class RebalanceService:
    """The rebalance of one member."""

    def __init__(
        self,
        brokers: Sequence[Broker],
        group: str,
        client_id: str,
        message_model: MessageModel,
        subscriptions: Callable[[], Mapping[str, str]],
        assignment: Assignment,
        timer: Timer,
        *,
        allocate: Allocation = allocate_averagely,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """subscriptions: topic -> tags, as they are now. now_s: a clock that only goes forward."""
        self._brokers = list(brokers)
        self._group = group
        self._client_id = client_id
        self._is_broadcasting = message_model is MessageModel.BROADCASTING
        self._subscriptions = subscriptions
        self._assignment = assignment
        self._timer = timer
        self._allocate = allocate
        self._now_s = now_s
        self._last_s = -math.inf
        self._error: Exception | None = None
        self._lock = Lock()
        # Under the lock: when the next one is due, and what cancels it.
        self._due_s = math.inf
        self._cancel: Callable[[], None] | None = None
        self._is_stopped = False

    # -- when -------------------------------------------------------------------------------------

    def soon(self) -> None:
        """Rebalance at once, or 1 s after the last time."""
        self._schedule(max(0.0, _SOON_MS - 1000 * (self._now_s() - self._last_s)))

    def stop(self) -> None:
        """No rebalance begins any more."""
        with self._lock:
            self._is_stopped = True
            if self._cancel is not None:
                self._cancel()

    def _schedule(self, delay_ms: float) -> None:
        due_s = self._now_s() + delay_ms / 1000
        with self._lock:
            if self._is_stopped or self._due_s <= due_s:
                return
            if self._cancel is not None:
                self._cancel()
            self._due_s = due_s
            self._cancel = self._timer.call_later(delay_ms, self._run)

    def _run(self) -> None:
        self._due_s, self._last_s = math.inf, self._now_s()
        is_balanced = False
        try:
            is_balanced = self.run_once()
            self._error = None
        except StoreClosed as error:
            _logger.warning("group %s takes no more queues: %s", self._group, error)
            self.stop()
        except Exception as error:  # noqa: BLE001 - it is logged, with its traceback
            if repr(error) != repr(self._error):
                log_event(
                    *(_logger, events.REBALANCE_FAILED),
                    *("group %s cannot rebalance and will try again", self._group),
                    exc_info=True,
                    consumer_group=self._group,
                )
            self._error = error
        self._schedule(_PERIOD_MS if is_balanced else _SOON_MS)

    # -- a rebalance ------------------------------------------------------------------------------

    def run_once(self) -> bool:
        """Rebalance all topics; whether each is worked on as it should be.

        Raises what the brokers, or the allocation, have raised first, when all topics were tried; StoreClosed
        if no broker is open.
        """
        subscriptions = self._subscriptions()
        is_balanced = self._assignment.retain_topics(subscriptions.keys())
        first_error: Exception | None = None
        for topic, expression in subscriptions.items():
            try:
                is_balanced &= self._rebalance(topic, expression)
            except StoreClosed:
                raise
            except Exception as error:  # noqa: BLE001 - an error in one topic must not stop the others
                first_error = first_error or error
        if first_error is not None:
            raise first_error
        return is_balanced

    def _rebalance(self, topic: str, expression: str) -> bool:
        queues, members = self._look(topic)
        if not queues:
            return is_retry_topic(topic)
        mine: Collection[MessageQueue] = queues
        if not self._is_broadcasting:
            if not members:
                return False
            mine = self._allocate(self._client_id, members, queues)
        return self._assignment.update(topic, expression, mine)

    def _look(self, topic: str) -> tuple[list[MessageQueue], list[str]]:
        """The queues of a topic and the members of the group, sorted. Raises StoreClosed if none is open."""
        queues: list[MessageQueue] = []
        members: set[str] = set()
        closed: list[StoreClosed] = []
        for broker in self._brokers:
            try:
                readable = readable_queues(broker, topic)
                members.update(() if self._is_broadcasting else broker.consumer_ids(self._group))
            except StoreClosed as error:
                closed.append(error)
                continue
            queues += readable
        if closed and len(closed) == len(self._brokers):
            raise closed[0]
        return sorted(queues), sorted(members)

    def __repr__(self) -> str:
        return f"RebalanceService({self._group!r}, {self._client_id!r})"
