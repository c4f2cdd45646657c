"""The offsets of a group that brokers keep: memory first, and what is there goes to the broker of its queue.

The broker writes them to consumerOffset.json by itself some seconds later. If a queue cannot be persisted,
the others are, and the first error is raised at the end.
Threads: any. Durability: as the broker's `update_consumer_offset`.
Source: docs/spec/client_consume.md section 6; RemoteBrokerOffsetStore of Apache RocketMQ. Its answers -2 and
-3 for what could not be read are exceptions here.
"""

from collections.abc import Iterable, Mapping

from mqstore.broker.broker import Broker, MessageQueue
from mqstore.client.offsets.offset_store import NO_OFFSET, OffsetTable
from mqstore.store.errors import StoreError

__all__ = ["BrokerOffsetStore"]


class BrokerOffsetStore:
    """An `OffsetStore` over brokers, by name."""

    def __init__(self, brokers: Mapping[str, Broker], group: str) -> None:
        self._brokers = brokers
        self._group = group
        self._table = OffsetTable()
        self.update = self._table.update
        self.update_and_freeze = self._table.update_and_freeze
        self.read = self._table.read
        self.remove = self._table.remove

    def load(self) -> None:
        """Nothing: the broker is asked for each queue."""

    def read_kept(self, queue: MessageQueue) -> int:
        """What the broker has; NO_OFFSET if nothing. Raises StoreError."""
        broker = self._brokers[queue.broker_name]
        return broker.query_consumer_offset(self._group, queue.topic, queue.queue_id)

    def persist(self, queue: MessageQueue) -> None:
        """Commit the offset of one queue. Raises StoreError."""
        offset = self._table.read(queue)
        if offset != NO_OFFSET:
            broker = self._brokers[queue.broker_name]
            broker.update_consumer_offset(self._group, queue.topic, queue.queue_id, offset)

    def persist_all(self, owned: Iterable[MessageQueue]) -> None:
        """Commit the offsets of queues that are owned, and forget all others. Raises the first StoreError."""
        known = list(owned)
        self._table.retain(known)
        first_error: StoreError | None = None
        for queue in known:
            try:
                self.persist(queue)
            except StoreError as error:
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    def __repr__(self) -> str:
        return f"BrokerOffsetStore({self._group!r}, {self._table!r})"
