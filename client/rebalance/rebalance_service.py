"""The rebalance: decides again and again which queues of the subscribed topics are this member's.

    when               at the start, when members or subscriptions change; else every 20 s
    1 s after          one that did not succeed, or a topic that does not exist yet; never twice within 1 s

All members take the same rule over the same sorted members and queues, so no queue has two owners for long.
If a topic or the members cannot be seen, its queues stay as they are.
Threads: a rebalance runs on the timer's thread; `soon` may be called by any.
Source: docs/spec/client_produce.md section 8; RebalanceService, RebalanceImpl#rebalanceByTopic.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeAlias

from mqstore.broker.broker import Broker, MessageModel, MessageQueue
from mqstore.store.errors import StoreClosed
from mqstore.store.message.topic_names import is_retry_topic
from mqstore.store.threads.timer import Timer

__all__ = ["Allocation", "Assignment", "RebalanceService", "first_member_has_all"]

_logger = logging.getLogger(__name__)

_PERIOD_MS = 20_000
_SOON_MS = 1_000

Allocation: TypeAlias = Callable[[str, Sequence[str], Sequence[MessageQueue]], Collection[MessageQueue]]
"""(client id, sorted members, sorted queues of a topic) -> the queues that are the client's."""


def first_member_has_all(
    client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]
) -> Collection[MessageQueue]:
    """An allocation: one member works, the others stand by and take over when it leaves."""
    return queues if members[0] == client_id else ()


class Assignment(Protocol):
    """What works on the queues."""

    def update(self, topic: str, subscription: str, queues: Collection[MessageQueue]) -> bool:
        """Work on these queues of the topic and no others; whether that is so now."""
        ...

    def retain_topics(self, topics: Collection[str]) -> None:
        """Work on no queues of other topics."""
        ...


class RebalanceService:
    """The rebalance of one member."""

    def __init__(
        self,
        broker: Broker,
        group: str,
        client_id: str,
        message_model: MessageModel,
        subscriptions: Callable[[], Mapping[str, str]],
        assignment: Assignment,
        timer: Timer,
        *,
        allocate: Allocation = first_member_has_all,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """subscriptions: topic -> tags, as they are now. now_s: a clock that only goes forward."""
        self._broker = broker
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
        self._lock = threading.Lock()
        # Under the lock: when the next one is due, and what cancels it.
        self._due_s = math.inf
        self._cancel: Callable[[], None] | None = None
        self._is_stopped = False

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
        except Exception as error:
            if repr(error) != repr(self._error):
                _logger.warning("group %s cannot rebalance and will try again", self._group, exc_info=True)
            self._error = error
        self._schedule(_PERIOD_MS if is_balanced else _SOON_MS)

    def run_once(self) -> bool:
        """Rebalance all topics; whether each is worked on as it should be. Raises StoreError."""
        subscriptions = self._subscriptions()
        self._assignment.retain_topics(subscriptions.keys())
        is_balanced = True
        for topic, expression in subscriptions.items():
            is_balanced &= self._rebalance(topic, expression)
        return is_balanced

    def _rebalance(self, topic: str, expression: str) -> bool:
        route = self._broker.topic_route(topic)
        if route is None or not route.is_readable:
            return is_retry_topic(topic)
        name = self._broker.name
        queues: Collection[MessageQueue]
        queues = [MessageQueue(topic, name, queue_id) for queue_id in range(route.read_queue_nums)]
        if not self._is_broadcasting:
            members = sorted(self._broker.consumer_ids(self._group))
            if self._client_id not in members:
                return False
            queues = self._allocate(self._client_id, members, queues)
        return self._assignment.update(topic, expression, queues)

    def __repr__(self) -> str:
        return f"RebalanceService({self._group!r}, {self._client_id!r})"
