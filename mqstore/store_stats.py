"""What `MessageStore.stats` answers: numbers and states at one moment, as one value."""

from collections.abc import Iterator

import msgspec

from mqstore.metadata.consumer_offsets import NO_OFFSET
from mqstore.schedule.delivery.delivery_service import DeliveryService
from mqstore.schedule.delivery.level_status import LevelStatus
from mqstore.services import Services
from mqstore.store.log.flusher import Flusher
from mqstore.store_counters import CounterTables, StoreCounters
from mqstore.store_parts import StoreParts

__all__ = ["ConsumerLag", "StoreStats", "collect_stats"]


class ConsumerLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group has consumed a queue, in RocketMQ's names.

    broker_offset: that the next message will get. consumer_offset: committed; NO_OFFSET (-1) if the group
    has committed none in this queue, but in another one of the topic. lag: messages between them, all of the
    queue if none is committed.
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
    consumer_lags: one per queue of each topic in which a group has committed an offset.
    counters: of puts and gets since the store was opened here (store_counters.py).

    >>> from mqstore import MessageStore
    >>> with MessageStore.open("data") as store:
    ...     put = store.put("orders", b"first")
    ...     stats = store.stats()
    >>> stats.max_offset == put.end_offset, stats.refusal, stats.errors
    (True, None, {})
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


def collect_stats(
    parts: StoreParts,
    flusher: Flusher,
    delivery: DeliveryService,
    services: Services,
    counters: StoreCounters,
) -> StoreStats:
    """How an open store is doing. Counts what was put since the last time, so entries are read."""
    log = parts.commit_log
    names = parts.consume_queues.queues()
    queues = [parts.consume_queues.find(*name) for name in names]
    # What fits the room that is reserved may still be put.
    refusal = log.refusal or next((file.lack_of_room for file in log.files.files[-1:]), None)
    return StoreStats(
        path=str(parts.layout.root),
        read_only=parts.read_only,
        flush_disk_type=parts.config.flush_disk_type,
        min_offset=log.min_offset,
        max_offset=log.max_offset,
        flushed_offset=log.flushed_offset,
        storage_size_bytes=log.max_offset - log.min_offset,
        flush_behind_bytes=flusher.behind_bytes,
        dispatch_behind_bytes=max(0, log.visible_offset - parts.dispatcher.dispatched_offset),
        key_index_behind_bytes=max(
            (max(0, log.visible_offset - feed.dispatcher.dispatched_offset) for feed in parts.key_feeds),
            default=None,
        ),
        segments=len(log.files.files),
        topics=len(parts.topics),
        queues=len(queues),
        messages=sum(queue.max_offset - queue.min_offset for queue in queues if queue is not None),
        refusal=None if refusal is None else str(refusal),
        errors=services.errors(),
        delay_levels=list(delivery.status()),
        consumer_lags=list(_lags(parts, names)),
        counters=counters.tables(),
    )


def _lags(parts: StoreParts, queue_names: list[tuple[str, int]]) -> Iterator[ConsumerLag]:
    """Of each group and topic: the queues with an offset, and those that are there without one."""
    queue_ids: dict[str, list[int]] = {}
    for topic, queue_id in queue_names:
        queue_ids.setdefault(topic, []).append(queue_id)
    committed: dict[tuple[str, str], dict[int, int]] = {}
    for row in parts.consumer_offsets:
        committed.setdefault((row.group, row.topic), {})[row.queue_id] = row.offset
    for (group, topic), offsets in committed.items():
        for queue_id in sorted({*offsets, *queue_ids.get(topic, ())}):
            yield _lag(parts, group, topic, queue_id, offsets.get(queue_id, NO_OFFSET))


def _lag(parts: StoreParts, group: str, topic: str, queue_id: int, consumer_offset: int) -> ConsumerLag:
    queue = parts.consume_queues.find(topic, queue_id)
    broker_offset = 0 if queue is None else queue.end_below(parts.commit_log.visible_offset)
    begin = consumer_offset
    if consumer_offset == NO_OFFSET:
        begin = 0 if queue is None else queue.min_offset
    return ConsumerLag(
        group=group,
        topic=topic,
        queue_id=queue_id,
        broker_offset=broker_offset,
        consumer_offset=consumer_offset,
        lag=max(0, broker_offset - begin),
    )
