"""The offset store: how far this consumer is in each of its queues, in memory, and kept somewhere else.

    CLUSTERING     the broker keeps the offsets of a group         broker_offset_store.py
    BROADCASTING   each member keeps its own in a local file       local_file_offset_store.py

`OffsetTable` is the part in memory that both have. An offset is that of the message to consume next.
Threads: any. Durability: an offset lasts once it was persisted, as the place where it is kept says.
Source: docs/spec/client_consume.md section 6; OffsetStore, ControllableOffset of Apache RocketMQ.
"""

from collections.abc import Iterable
from typing import Protocol

from mqstore.broker.broker import MessageQueue
from mqstore.store.threads.lock import Lock

__all__ = ["NO_OFFSET", "OffsetStore", "OffsetTable"]

NO_OFFSET = -1
"""What is read for a queue that has no offset."""


class OffsetStore(Protocol):
    """Offsets of one group, as one member of it sees them."""

    def load(self) -> None:
        """Read what was kept, once, before anything else. Raises StoreError, OSError."""
        ...

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """Note an offset in memory; with `increase_only` a smaller one changes nothing."""
        ...

    def update_and_freeze(self, queue: MessageQueue, offset: int) -> None:
        """Note an offset in memory that no `update` changes any more, until the queue is removed."""
        ...

    def read(self, queue: MessageQueue) -> int:
        """The offset in memory, or NO_OFFSET."""
        ...

    def read_kept(self, queue: MessageQueue) -> int:
        """The offset that is kept, and not in memory; NO_OFFSET without one. Raises StoreError, OSError."""
        ...

    def persist(self, queue: MessageQueue) -> None:
        """Keep the offset of one queue, if it has one. Raises StoreError, OSError."""
        ...

    def persist_all(self, owned: Iterable[MessageQueue]) -> None:
        """Keep the offsets of the queues that this consumer owns. Raises StoreError, OSError."""
        ...

    def remove(self, queue: MessageQueue) -> None:
        """Forget a queue in memory: it belongs to another member."""
        ...


class OffsetTable:
    """Offsets in memory."""

    def __init__(self) -> None:
        self._lock = Lock()
        # Both under the lock.
        self._offsets: dict[MessageQueue, int] = {}
        self._frozen: set[MessageQueue] = set()

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """As `OffsetStore`."""
        with self._lock:
            if queue in self._frozen:
                return
            if not increase_only or offset > self._offsets.get(queue, NO_OFFSET):
                self._offsets[queue] = offset

    def update_and_freeze(self, queue: MessageQueue, offset: int) -> None:
        """As `OffsetStore`."""
        with self._lock:
            self._offsets[queue] = offset
            self._frozen.add(queue)

    def read(self, queue: MessageQueue) -> int:
        """As `OffsetStore`."""
        return self._offsets.get(queue, NO_OFFSET)

    def remove(self, queue: MessageQueue) -> None:
        """As `OffsetStore`."""
        with self._lock:
            self._offsets.pop(queue, None)
            self._frozen.discard(queue)

    def retain(self, owned: Iterable[MessageQueue]) -> None:
        """Forget the queues that are not owned."""
        known = set(owned)
        with self._lock:
            for queue in self._offsets.keys() - known:
                del self._offsets[queue]
            self._frozen &= known

    def snapshot(self) -> dict[MessageQueue, int]:
        """All offsets as they are now."""
        with self._lock:
            return dict(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __repr__(self) -> str:
        return f"<OffsetTable of {len(self)} queues>"
