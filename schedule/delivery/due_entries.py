"""The due entries: how many at the head of a level's queue may be delivered now.

An entry of SCHEDULE_TOPIC_XXXX has its deliver time where others have the tag's hash. Within a level all
wait equally long, so queue order is time order and the due entries are a prefix. One comparison over the
queue's array finds its end.

The clock guard. An entry that is further away than its level's delay has either met a shorter level table
or a clock that was set back. RocketMQ delivers it at once in both cases (correctDeliverTimestamp). Here:
 - stored at or before now: the table changed. Due at once, as in RocketMQ.
 - stored after now: the clock was set back, even if by a millisecond only. To deliver at once would be
   early by a whole delay, so the entry waits one delay of its level from the moment it was first seen in
   this state: it is never early, and does not wait for as long as the clock was wrong.

Threads: one at a time, the one that delivers (level_delivery.py). No I/O except reading a store time.
Source: docs/spec/schedule_and_retry.md section 4; ScheduleMessageService#correctDeliverTimestamp.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["DueEntries", "Entries", "due_prefix", "leading"]

Entries: TypeAlias = npt.NDArray[np.void]
"""A view of a consume queue (ENTRY_DTYPE); here the field tags_code is the deliver time."""


def due_prefix(deliver_ms: npt.NDArray[Any], now_ms: int) -> int:
    """How many leading deliver times are reached.

    >>> due_prefix(np.array([5, 7, 9]), now_ms=7)
    2
    """
    return leading(deliver_ms <= now_ms)


def leading(claims: npt.NDArray[np.bool_]) -> int:
    """How many of `claims` are true before the first that is not."""
    return len(claims) if claims.all() else int(claims.argmin())


class DueEntries:
    """The clock guard of one level, and its state between two calls."""

    __slots__ = ("_delay_ms", "_held_to_offset", "_held_until_ms", "_store_timestamp_at")

    def __init__(self, delay_ms: int | None, store_timestamp_at: Callable[[int], int]) -> None:
        """`delay_ms` is None for a level that is no longer in the table: its entries keep their time.

        `store_timestamp_at(physical_offset)`: epoch ms of the record there, -1 when it is not readable.
        """
        self._delay_ms = delay_ms
        self._store_timestamp_at = store_timestamp_at
        # Entries below this queue offset that were stored in the future are due at _held_until_ms.
        self._held_to_offset = 0
        self._held_until_ms = 0

    def count(self, entries: Entries, first_offset: int, max_offset: int, now_ms: int) -> int:
        """How many of `entries`, which begin at queue offset `first_offset`, are due at `now_ms`.

        `max_offset` is the queue's: all entries up to there are held together, once.
        """
        deliver_ms = entries["tags_code"]
        due = due_prefix(deliver_ms, now_ms)
        if due or not len(entries) or self._delay_ms is None:
            return due
        too_far = leading(deliver_ms > now_ms + self._delay_ms)
        return self._overdue_by_guard(entries[:too_far], first_offset, max_offset, now_ms) if too_far else 0

    def _overdue_by_guard(self, entries: Entries, first_offset: int, max_offset: int, now_ms: int) -> int:
        for index, physical_offset in enumerate(entries["physical_offset"].tolist()):
            stored_later = self._store_timestamp_at(physical_offset) > now_ms
            if stored_later and self._is_held(first_offset + index, max_offset, now_ms):
                return index
        return len(entries)

    def _is_held(self, queue_offset: int, max_offset: int, now_ms: int) -> bool:
        assert self._delay_ms is not None
        latest_ms = now_ms + self._delay_ms
        if queue_offset >= self._held_to_offset:
            self._held_to_offset, self._held_until_ms = max_offset, latest_ms
        # The clock may be set back once more.
        self._held_until_ms = min(self._held_until_ms, latest_ms)
        return now_ms < self._held_until_ms
