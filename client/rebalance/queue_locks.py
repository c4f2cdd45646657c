"""The queue locks as a client sees them: which queues it may consume in order now.

    lock      one queue, before the client begins with it
    renewed   all queues 1 s after the start and then every 20 s, one call for each broker
    held      the last answer was yes, and is not older than 30 s

An answer of no takes the lock from a queue, and a later yes gives it back. A call that fails changes nothing:
the age decides. The broker keeps a lock for 60 s (broker/queue_locks.py), so a client that can no longer
reach it stops 30 s before another one may begin.

It does not know who works on a queue (client/consumer/). Threads: any; one lock is held for microseconds, and
nothing is called under it. Renewals run on the timer's thread.
Source: docs/spec/client_produce.md section 7; RebalanceImpl#lock, #lockAll, ProcessQueue#isLockExpired,
ConsumeMessageOrderlyService#start.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from mqstore.broker.broker import Broker, MessageQueue
from mqstore.store.errors import StoreClosed, StoreError
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.timer import Timer

__all__ = ["MAX_AGE_S", "QueueLocks"]

_logger = logging.getLogger(__name__)

MAX_AGE_S: Final = 30.0
"""How long a lock counts after the broker has last said yes."""

_FIRST_RENEWAL_MS = 1_000
_RENEWAL_MS = 20_000


class _Lock(NamedTuple):
    is_locked: bool
    # When the broker has last said yes.
    renewed_s: float


_NEVER = _Lock(is_locked=False, renewed_s=-math.inf)


class QueueLocks:
    """The locks of one member of a group."""

    def __init__(
        self,
        brokers: Sequence[Broker],
        group: str,
        client_id: str,
        queues: Callable[[], Iterable[MessageQueue]],
        timer: Timer,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """queues: those whose locks are renewed, as they are now. now_s: a clock that only goes forward."""
        self._brokers = {broker.name: broker for broker in brokers}
        self._group = group
        self._client_id = client_id
        self._queues = queues
        self._timer = timer
        self._now_s = now_s
        self._errors: dict[str, str] = {}
        self._lock = Lock()
        # All under the lock, but for single looks.
        self._locks: dict[MessageQueue, _Lock] = {}
        self._is_stopped = False
        self._cancel: Callable[[], None] | None = None

    # -- what the client sees ---------------------------------------------------------------------

    def is_locked(self, queue: MessageQueue) -> bool:
        """Whether the last answer for the queue was yes, however old it is."""
        return self._locks.get(queue, _NEVER).is_locked

    def is_held(self, queue: MessageQueue) -> bool:
        """Whether messages of the queue may be consumed now."""
        lock = self._locks.get(queue, _NEVER)
        return lock.is_locked and self._now_s() - lock.renewed_s <= MAX_AGE_S

    def age_s(self, queue: MessageQueue) -> float:
        """How long ago the broker has last said yes; infinity for never."""
        return self._now_s() - self._locks.get(queue, _NEVER).renewed_s

    # -- asking the broker ------------------------------------------------------------------------

    def lock(self, queue: MessageQueue) -> bool:
        """Ask for one queue now; False if another member has it, or the broker could not be asked."""
        return self._ask(queue.broker_name, [queue])

    def unlock(self, queue: MessageQueue) -> None:
        """Give a queue up. What fails is logged: the lock then runs out at the broker."""
        with self._lock:
            self._locks.pop(queue, None)
        broker = self._brokers.get(queue.broker_name)
        if broker is None:
            return
        try:
            broker.unlock_queues(self._group, self._client_id, [queue])
        except StoreError as error:
            _logger.warning("group %s cannot unlock %s: %s", self._group, queue, error)

    def renew(self) -> None:
        """Ask for all queues, broker by broker."""
        queues_of: dict[str, list[MessageQueue]] = {}
        for queue in self._queues():
            queues_of.setdefault(queue.broker_name, []).append(queue)
        for name, queues in queues_of.items():
            self._ask(name, queues)

    def _ask(self, broker_name: str, queues: list[MessageQueue]) -> bool:
        """Ask one broker; whether all of `queues` are locked now."""
        broker = self._brokers.get(broker_name)
        if broker is None:
            return False
        # The age counts from before the question: the broker's lease does not begin earlier.
        asked_s = self._now_s()
        try:
            locked = broker.lock_queues(self._group, self._client_id, queues)
        except Exception as error:  # noqa: BLE001 - whatever it is, the age decides
            self._tell(broker_name, error)
            return False
        self._errors.pop(broker_name, None)
        with self._lock:
            for queue in queues:
                renewed_s = asked_s if queue in locked else self._locks.get(queue, _NEVER).renewed_s
                self._locks[queue] = _Lock(queue in locked, renewed_s)
        return locked.issuperset(queues)

    def _tell(self, broker_name: str, error: Exception) -> None:
        """Log an error once."""
        is_known = self._errors.get(broker_name) == repr(error)
        self._errors[broker_name] = repr(error)
        if not is_known and not isinstance(error, StoreClosed):
            _logger.warning(
                "group %s cannot lock queues at broker %s and will try again: %s",
                self._group,
                broker_name,
                error,
            )

    # -- renewals ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to renew the locks: after 1 s."""
        self._schedule(_FIRST_RENEWAL_MS)

    def stop(self) -> None:
        """Renew no more. Locks that are held are given up by leaving the group."""
        with self._lock:
            self._is_stopped = True
            cancel, self._cancel = self._cancel, None
        if cancel is not None:
            cancel()

    def _schedule(self, delay_ms: int) -> None:
        with self._lock:
            if not self._is_stopped:
                self._cancel = self._timer.call_later(delay_ms, self._renew_again)

    def _renew_again(self) -> None:
        try:
            self.renew()
        finally:
            self._schedule(_RENEWAL_MS)

    def __repr__(self) -> str:
        locks = list(self._locks.values())
        return f"QueueLocks({self._group!r}, {sum(lock.is_locked for lock in locks)} of {len(locks)} locked)"
