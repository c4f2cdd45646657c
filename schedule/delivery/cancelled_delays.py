"""The cancelled delays: waiting messages that are not to be delivered, as the log remembers them.

RocketMQ's format has no cancelling for delay levels (its recall is the timer's). So a cancelling is a record
of ours, in the system topic rmq_sys_mqstore_cancelled_delays, queue 0; the waiting record stays as it is:

    body    3,17,20480      level, queue offset and physical offset of the waiting record, decimal

The delivery passes over an entry whose numbers it finds here (level_delivery.py). A broker that opens the
directory does not know the topic and delivers the message; docs/rocketmq_differences.md says so.

The record is behind the one that it cancels, so a log that has lost the message has lost the cancelling, and
no later message can be taken for the cancelled one; backups, repairs and retention need know nothing of it.
Records that name what is not there, are none of ours, or are damaged have no effect; `verify` finds damage.

Threads: any; one lock, held for moments. Durability: the caller puts the record, and syncs it before `add`.
"""

import re
from typing import Final, NamedTuple

from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.consume_queue_format import BLANK_SIZE
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.message.message import Message
from mqstore.store.message.topic_names import CANCELLED_DELAYS_TOPIC
from mqstore.store.threads.lock import Lock

__all__ = ["CancelledDelay", "CancelledDelays", "cancelling"]

_QUEUE_ID: Final = 0
_AT_ONCE: Final = 1024
_BODY = re.compile(rb"(\d{1,9}),(\d{1,18}),(\d{1,18})")


class CancelledDelay(NamedTuple):
    """Which waiting record is cancelled."""

    level: int
    queue_offset: int
    physical_offset: int


def cancelling(cancelled: CancelledDelay) -> Message:
    """The message to put."""
    return Message(CANCELLED_DELAYS_TOPIC, ",".join(map(str, cancelled)).encode(), queue_id=_QUEUE_ID)


class CancelledDelays:
    """Those of one store."""

    def __init__(self, consume_queues: ConsumeQueueStore, commit_log: CommitLog) -> None:
        """Nothing is read before `catch_up`."""
        self._consume_queues = consume_queues
        self._commit_log = commit_log
        self._lock = Lock()
        # Under the lock. level -> queue offset -> physical offset; and the next record to read.
        self._table: dict[int, dict[int, int]] = {}
        self._read_to = 0

    def catch_up(self) -> None:
        """Read the records that have come since the last time; all, at first."""
        queue = self._consume_queues.find(CANCELLED_DELAYS_TOPIC, _QUEUE_ID)
        if queue is None:
            return
        with self._lock:
            self._catch_up(queue)

    def _catch_up(self, queue: ConsumeQueue) -> None:
        self._read_to = max(self._read_to, queue.min_offset)
        while len(entries := queue.entries_from(self._read_to, _AT_ONCE)):
            for physical_offset, size, _ in entries.tolist():
                if size != BLANK_SIZE:
                    self._read(physical_offset)
            self._read_to += len(entries)

    def _read(self, physical_offset: int) -> None:
        stored = self._commit_log.look_message_by_offset(physical_offset)
        if stored is None or not stored.is_whole or stored.topic != CANCELLED_DELAYS_TOPIC:
            return
        if body := _BODY.fullmatch(stored.stored_body):
            self._add(CancelledDelay(*map(int, body.groups())))

    def add(self, cancelled: CancelledDelay) -> None:
        """Let the delivery know; the record is durable."""
        with self._lock:
            self._add(cancelled)

    def _add(self, cancelled: CancelledDelay) -> None:
        level, queue_offset, physical_offset = cancelled
        self._table.setdefault(level, {})[queue_offset] = physical_offset

    def has(self, cancelled: CancelledDelay) -> bool:
        """Whether it is cancelled."""
        with self._lock:
            return (
                self._table.get(cancelled.level, {}).get(cancelled.queue_offset) == cancelled.physical_offset
            )

    def forget_below(self, level: int, queue_offset: int) -> None:
        """Drop what a level has passed for good."""
        with self._lock:
            self._forget_below(self._table.get(level, {}), queue_offset)

    def _forget_below(self, table: dict[int, int], queue_offset: int) -> None:
        for passed in [each for each in table if each < queue_offset]:
            del table[passed]

    def has_any(self, level: int) -> bool:
        """Whether any of the level's messages is; asked before each batch."""
        return bool(self._table.get(level))

    def __repr__(self) -> str:
        with self._lock:
            return f"<CancelledDelays: {sum(map(len, self._table.values()))}>"
