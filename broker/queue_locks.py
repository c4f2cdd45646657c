"""The queue locks: which client of a group may consume a queue in order.

A lock is a lease of 60 s for a group and a queue. Each lock by its holder renews it; another client gets it
once it has expired, or was given up. It lives in memory alone: after a restart nobody holds anything.

It does not know whether the queue exists or the client is a member (consumer_groups.py). What a lock means
for messages that the group puts to its retry topic: mqstore/put/put_path.py.
Threads: any; one lock is held for microseconds, and nothing is called under it.
Source: docs/spec/client_produce.md section 7; RebalanceLockManager of Apache RocketMQ.
"""

import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from mqstore.broker.broker import MessageQueue
from mqstore.store.threads.lock import Lock

__all__ = ["LEASE_S", "QueueLocks"]

LEASE_S: Final = 60.0
"""How long a lock is held after the last time that its holder asked for it."""


class _Lease(NamedTuple):
    client_id: str
    renewed_s: float


class QueueLocks:
    """The locks of one broker. now_s: a clock that only goes forward."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._lock = Lock()
        # By group; under the lock.
        self._leases: dict[str, dict[MessageQueue, _Lease]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock or renew; returns those of `queues` that the client holds now."""
        wanted = list(queues)
        with self._lock:
            return self._take(group, client_id, wanted)

    def _take(self, group: str, client_id: str, queues: list[MessageQueue]) -> set[MessageQueue]:
        held: set[MessageQueue] = set()
        now_s = self._now_s()
        leases = self._leases.setdefault(group, {})
        for queue in queues:
            lease = leases.get(queue)
            if lease is None or lease.client_id == client_id or _has_expired(lease, now_s):
                leases[queue] = _Lease(client_id, now_s)
                held.add(queue)
        if not leases:
            del self._leases[group]
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give up those of `queues` that the client holds."""
        wanted = list(queues)
        with self._lock:
            self._give_up(group, client_id, wanted)

    def unlock_all(self, group: str, client_id: str) -> None:
        """Give up all that the client holds for the group."""
        with self._lock:
            self._give_up(group, client_id, list(self._leases.get(group, ())))

    def _give_up(self, group: str, client_id: str, queues: list[MessageQueue]) -> None:
        leases = self._leases.get(group, {})
        for queue in queues:
            lease = leases.get(queue)
            if lease is not None and lease.client_id == client_id:
                del leases[queue]
        if not leases:
            self._leases.pop(group, None)

    def are_held(self, group: str) -> bool:
        """Whether any client holds a lock for the group: it consumes in order."""
        with self._lock:
            return self._are_held(group)

    def _are_held(self, group: str) -> bool:
        now_s = self._now_s()
        return any(not _has_expired(lease, now_s) for lease in self._leases.get(group, {}).values())

    def __repr__(self) -> str:
        with self._lock:
            return f"QueueLocks({sum(map(len, self._leases.values()))} locks of {len(self._leases)} groups)"


def _has_expired(lease: _Lease, now_s: float) -> bool:
    return now_s - lease.renewed_s > LEASE_S
