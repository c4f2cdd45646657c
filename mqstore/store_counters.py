"""Counters of what was put and got since the store was opened, by topic, and by group and topic.

Names and keys are those of RocketMQ's BrokerStatsManager: TOPIC_PUT_NUMS is `topic_put_nums`, and what is
counted for a group has the key `topic@group`. Nothing is written to disk.

A put counts nothing. Puts are counted later from the dispatched entries of the queues, by `count_puts`,
which `stats` calls, and retention before it deletes entries. A get leaves one
tuple in a list, which is added up when it has become long.
Each table has `_MOST_KEYS` keys at most; what comes later is counted under OTHERS.

Threads: any. Tables are changed under `_lock`; `got` may be called without it.
"""

from collections import deque
from typing import Final, NamedTuple

import numpy as np

from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY_BYTES, ENTRY_DTYPE
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.store.threads.lock import Lock

__all__ = ["OTHERS", "CounterTables", "StoreCounters"]

OTHERS: Final = "*"
"""The key of all that comes after a table is full, in a store with very many topics and groups."""

_MOST_KEYS = 10_000
_MOST_GETS_WAITING = 1_024


class CounterTables(NamedTuple):
    """By topic: messages put, and bytes of their records. By `topic@group`: got, and messages sent back.

    OTHERS is the key of all that came when a table was full.
    """

    topic_put_nums: dict[str, int]
    topic_put_size: dict[str, int]
    group_get_nums: dict[str, int]
    group_get_size: dict[str, int]
    sndbck_put_nums: dict[str, int]


class StoreCounters:
    """Counts for one store, which begins at `opened_at_offset` of the log."""

    def __init__(self, consume_queues: ConsumeQueueStore, opened_at_offset: int) -> None:
        self._consume_queues = consume_queues
        self._opened_at_offset = opened_at_offset
        self._lock = Lock()
        self._tables = CounterTables({}, {}, {}, {}, {})
        # Up to which entry each queue has been counted. Under _lock.
        self._counted: dict[tuple[str, int], int] = {}
        # (group, topic, messages, bytes) of pulls. Appended to by anyone; taken from under _lock.
        self._gets: deque[tuple[str, str, int, int]] = deque()

    def got(self, group: str, topic: str, count: int, size_bytes: int) -> None:
        """Count the messages of a pull."""
        self._gets.append((group, topic, count, size_bytes))
        if len(self._gets) >= _MOST_GETS_WAITING:
            with self._lock:
                self._count_gets()

    def sent_back(self, group: str, topic: str) -> None:
        """Count a message that a group sent back."""
        with self._lock:
            _add(self._tables.sndbck_put_nums, f"{topic}@{group}", 1)

    def count_puts(self) -> None:
        """Count the entries that have come since the last time."""
        with self._lock:
            queues = self._consume_queues.loaded()
            self._forget_deleted({(queue.topic, queue.queue_id) for queue in queues})
            for queue in queues:
                self._count_entries(queue)

    def _forget_deleted(self, names: set[tuple[str, int]]) -> None:
        """A topic that was deleted and created again is counted from its start."""
        self._counted = {name: end for name, end in self._counted.items() if name in names}

    def tables(self) -> CounterTables:
        """Copies of all tables as they are now."""
        self.count_puts()
        with self._lock:
            self._count_gets()
            return CounterTables(*map(dict, self._tables))

    def _count_entries(self, queue: ConsumeQueue) -> None:
        name, end = (queue.topic, queue.queue_id), queue.max_offset
        offset = self._counted.get(name)
        if offset is None:
            offset = self._consume_queues.entries_below(*name, self._opened_at_offset)
        offset = max(offset, queue.min_offset)
        count, size_bytes = 0, 0
        while offset < end:
            view = queue.view_from(offset, end - offset)
            if not view:
                break
            sizes = np.frombuffer(view, ENTRY_DTYPE)["size"]
            sizes = sizes[sizes != BLANK_SIZE]
            count += sizes.size
            size_bytes += int(sizes.sum(dtype=np.int64))
            offset += len(view) // ENTRY_BYTES
        self._counted[name] = end
        if count:
            _add(self._tables.topic_put_nums, queue.topic, count)
            _add(self._tables.topic_put_size, queue.topic, size_bytes)

    def _count_gets(self) -> None:
        gets = self._gets
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        for _ in range(len(gets)):
            group, topic, count, size_bytes = gets.popleft()
            before = sums.get((topic, group), (0, 0))
            sums[topic, group] = before[0] + count, before[1] + size_bytes
        for (topic, group), (count, size_bytes) in sums.items():
            _add(self._tables.group_get_nums, f"{topic}@{group}", count)
            _add(self._tables.group_get_size, f"{topic}@{group}", size_bytes)

    def __repr__(self) -> str:
        return f"StoreCounters({len(self._counted)} queues)"


def _add(table: dict[str, int], key: str, number: int) -> None:
    if key not in table and len(table) >= _MOST_KEYS:
        key = OTHERS
    table[key] = table.get(key, 0) + number
