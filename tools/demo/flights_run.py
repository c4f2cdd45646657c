"""The main job of `mqstore demo`: publish all flights, consume them, and retry those that never arrived.

    flights -> group arrivals -> a flight without an arrival delay fails, and is sent back:
    SCHEDULE_TOPIC_XXXX level 3 -> %RETRY%arrivals -> level 4 -> ... -> level 5 -> ... -> %DLQ%arrivals

A run can end at any point; the next one continues from the state of the store. Publishing: row r is
message r // 4 of queue r % 4, so the queues show which rows are missing. Consuming: from the
committed offsets.

After a kill (not after Ctrl-C) the committed offsets and the progress of delivery are a few seconds old,
and messages come a second time: RocketMQ's promise is at-least-once. The consumer recognises a failed
attempt that it has sent back before (the store shows it) and does not send it back again, so no
later hop has it twice; flights_audit.py counts the repeated messages.

It shows nothing itself; `on_progress` is called with counts. Threads: the caller's, beside the store's.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus
from mqstore.client.consumer.push_consumer import PushConsumer
from mqstore.client.offsets.consume_from_where import ConsumeFromWhere
from mqstore.message_store import MessageStore
from mqstore.store.config import StoreConfig
from mqstore.store.message import topic_names
from mqstore.store.message.message import Message
from mqstore.store.message.stored_message import StoredMessage
from mqstore.tools.demo.flights import (
    FLIGHTS_TOPIC,
    QUEUE_COUNT,
    Arrival,
    flight_message,
    read_flights,
)

__all__ = [
    "DEAD_LETTER_TOPIC",
    "DEMO_CONFIG",
    "GROUP",
    "MAX_RECONSUME_TIMES",
    "RETRY_TOPIC",
    "Arrivals",
    "ConsumeProgress",
    "DeliveryStuck",
    "committed_count",
    "messages_of",
    "publish",
]

GROUP: Final = "arrivals"
RETRY_TOPIC: Final = topic_names.retry_topic(GROUP)
DEAD_LETTER_TOPIC: Final = topic_names.dead_letter_topic(GROUP)
MAX_RECONSUME_TIMES: Final = 3

DEMO_CONFIG: Final = StoreConfig(
    # Several segments, so that Spark has several partitions.
    mapped_file_size_commit_log=33_554_432,
    # The first retry waits in level 3, the next ones in 4 and 5. RocketMQ's defaults go up to minutes.
    message_delay_level="1s 1s 1s 1s 1s 1s",
)

_SETTINGS: Final = ConsumerSettings(
    max_reconsume_times=MAX_RECONSUME_TIMES,
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    # One after the other: a run that is interrupted then leaves nothing that the next one does again.
    consume_thread_min=1,
)
_PUBLISH_BATCH = 1_000
_PULL_BATCH = 32
_PAUSE_SECONDS = 0.02

IsStopping = Callable[[], bool]


def publish(
    store: MessageStore,
    flights_file: Path,
    limit: int | None = None,
    *,
    on_progress: Callable[[int], None] = lambda rows: None,
    is_stopping: IsStopping = lambda: False,
) -> int:
    """Put every flight that the queues do not hold yet; returns how many were put by this call."""
    if store.topics.get(FLIGHTS_TOPIC) is None:
        store.topics.create(FLIGHTS_TOPIC, QUEUE_COUNT)
    published = 0
    missing = _missing_flights(store, flights_file, limit)
    while batch := list(islice(missing, _PUBLISH_BATCH)):
        if is_stopping():
            break
        store.put_messages([message for _, message in batch])
        published += len(batch)
        on_progress(batch[-1][0] + 1)
    return published


def _missing_flights(
    store: MessageStore, flights_file: Path, limit: int | None
) -> Iterator[tuple[int, Message]]:
    """(row, message) of the rows behind the end of their queue."""
    encoder = msgspec.json.Encoder()
    held = [store.get_max_offset_in_queue(FLIGHTS_TOPIC, queue_id) for queue_id in range(QUEUE_COUNT)]
    for flight in read_flights(flights_file, limit):
        if flight.row // QUEUE_COUNT >= held[flight.row % QUEUE_COUNT]:
            yield flight.row, flight_message(flight, encoder)


class DeliveryStuck(Exception):
    """A delay level cannot deliver: the retries will not come."""

    def __init__(self, level: int, error: str) -> None:
        super().__init__(f"delay level {level} cannot deliver: {error}")


class ConsumeProgress(NamedTuple):
    """How far the group is: its committed offsets, and the number of retries and dead letters."""

    first_attempts: int
    retries: int
    dead_letters: int


class Arrivals:
    """The consumer group: counts arrivals, and fails on flights that have none."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._decoder = msgspec.json.Decoder(Arrival)
        # (row, attempt) of what was sent back -> physical offset of the message that had failed. Before
        # this run, perhaps by a run that was killed, it is unknown: -1.
        self._sent_back = {
            (self._decoder.decode(message.body_view).row, message.reconsume_times): -1
            for topic in (topic_names.SCHEDULE_TOPIC, DEAD_LETTER_TOPIC)
            for message in messages_of(store, topic)
        }
        self.arrived = 0
        """Flights consumed with success by this object."""
        self.failed = 0
        """Attempts that failed and were sent back."""
        self.recognised = 0
        """Second copies of an attempt, after a run that was killed; they were not sent back again."""

    def _consume(
        self, messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        """The listener: one flight a call, and one call at a time."""
        message = messages[0]
        flight = self._decoder.decode(message.body_view)
        if flight.arr_delay is not None:
            self.arrived += 1
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        attempt = flight.row, message.reconsume_times + 1
        # The same message again is no second copy: its send-back was refused.
        if self._sent_back.setdefault(attempt, message.physical_offset) != message.physical_offset:
            self.recognised += 1
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        self.failed += 1
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    def run(
        self,
        *,
        on_progress: Callable[[ConsumeProgress], None] = lambda progress: None,
        is_stopping: IsStopping = lambda: False,
    ) -> None:
        """Consume until every flight has arrived or is a dead letter. Raises DeliveryStuck, StoreError."""
        pause = threading.Event()
        with EmbeddedBroker(self._store) as broker, PushConsumer(broker, GROUP, _SETTINGS) as consumer:
            consumer.subscribe(FLIGHTS_TOPIC)
            consumer.listener(self._consume)
            consumer.start()
            while not is_stopping():
                for error in consumer.errors.values():
                    raise error
                consumer.persist_consumer_offset()
                on_progress(self.progress())
                if self._is_finished():
                    return
                pause.wait(_PAUSE_SECONDS)

    def progress(self) -> ConsumeProgress:
        """How far the group is now."""
        return ConsumeProgress(
            committed_count(self._store, FLIGHTS_TOPIC),
            committed_count(self._store, RETRY_TOPIC),
            self._store.get_max_offset_in_queue(DEAD_LETTER_TOPIC, 0),
        )

    def _is_finished(self) -> bool:
        """Nothing waits in a delay level, then nothing in a queue: messages move in this order."""
        self._store.get_max_offset_in_queue(topic_names.SCHEDULE_TOPIC, 0)
        levels = self._store.stats().delay_levels
        for level in levels:
            if level.error is not None:
                raise DeliveryStuck(level.level, level.error)
        return not any(level.pending for level in levels) and all(
            committed_count(self._store, topic) >= _length(self._store, topic)
            for topic in (FLIGHTS_TOPIC, RETRY_TOPIC)
        )


def committed_count(store: MessageStore, topic: str) -> int:
    """Messages of the topic that the group has consumed."""
    return sum(
        max(0, store.consumer_offsets.query(GROUP, topic, queue_id)) for queue_id in _queue_ids(store, topic)
    )


def _length(store: MessageStore, topic: str) -> int:
    return sum(store.get_max_offset_in_queue(topic, queue_id) for queue_id in _queue_ids(store, topic))


def _queue_ids(store: MessageStore, topic: str) -> range:
    config = store.topics.get(topic)
    return range(config.read_queue_nums if config is not None else 0)


def messages_of(store: MessageStore, topic: str) -> Iterator[StoredMessage]:
    """Every message in the queues of a topic, queue by queue."""
    for queue_id in _queue_ids(store, topic):
        offset, end_offset = 0, store.get_max_offset_in_queue(topic, queue_id)
        while offset < end_offset:
            result = store.get_message("TOOLS_CONSUMER", topic, queue_id, offset, _PULL_BATCH)
            yield from result.messages
            if result.next_begin_offset <= offset:
                break
            offset = result.next_begin_offset
