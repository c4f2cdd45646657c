"""What `MessageStore.stats` answers: numbers and states at one moment, as one value."""

import msgspec

from mqstore.schedule.delivery.delivery_service import LevelStatus
from mqstore.store_counters import CounterTables

__all__ = ["ConsumerLag", "StoreStats"]


class ConsumerLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group has consumed a queue, in RocketMQ's names.

    broker_offset: that the next message will get. consumer_offset: committed. lag: messages between them.
    """

    group: str
    topic: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    lag: int


class StoreStats(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets are physical, sizes in bytes. The names in brackets are RocketMQ's metrics.

    min_offset, max_offset, flushed_offset: the log, and how far it is durable.
    storage_size_bytes: bytes between the first two (rocketmq_storage_size).
    flush_behind_bytes: appended, not durable (rocketmq_storage_flush_behind_bytes).
    dispatch_behind_bytes: visible, not yet in the queues (rocketmq_storage_dispatch_behind_bytes).
    key_index_behind_bytes: visible, not yet in the key index; None without one.
    queues: number of consume queues; messages: entries in them.
    refusal: why puts are refused at the moment, None when they are not. On a full disk a put that still fits
    the room reserved before is not.
    errors: by service and dispatcher, what its last step failed with.
    delay_levels: one per level that has, or had, something to deliver.
    consumer_lags: one per group and queue with a committed offset.
    counters: of puts and gets since the store was opened here (store_counters.py).
    """

    path: str
    read_only: bool
    flush_disk_type: str
    min_offset: int
    max_offset: int
    flushed_offset: int
    storage_size_bytes: int
    flush_behind_bytes: int
    dispatch_behind_bytes: int
    key_index_behind_bytes: int | None
    segments: int
    topics: int
    queues: int
    messages: int
    refusal: str | None
    errors: dict[str, str]
    delay_levels: list[LevelStatus]
    consumer_lags: list[ConsumerLag]
    counters: CounterTables
