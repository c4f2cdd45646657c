"""The entry that a queue had reached at a time.

Store times ascend along a queue, so the entry is found by bisection, after a guess by the first and the
last time; each step reads one entry and the store time of its record. If the clock was set back while
messages were stored, the answer is one of the entries where the times cross, as in RocketMQ, but not always
the same one.

RocketMQ first chooses a file by the times of its ends, then searches inside; one search over the queue, as
here, gives the same answers. A time before the first message gives the queue's minimum for both boundaries,
and an empty queue gives its minimum, both as in RocketMQ. One answer differs: if a record cannot be read,
RocketMQ answers the minimum; here its entry counts as older than all others.

A compiled loop, or the direct read of a wheel, takes nearly all steps: those that stay in one file of the
queue and one segment.

Threads: any; no lock. Source: ConsumeQueue#getOffsetInQueueByTime, spec of the consume queue, section 9.
"""

import functools
from types import ModuleType
from typing import Literal

import numpy as np

from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.consume_queue_format import ENTRY, ENTRY_BYTES
from mqstore.store.clock import END_OF_TIME_MS
from mqstore.store.errors import ConfigIllegal
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.log.commit_log import CommitLog

__all__ = ["Boundary", "offset_in_queue_by_time"]

Boundary = Literal["LOWER", "UPPER"]


@functools.cache
def _kernels() -> ModuleType:
    """The compiled loop. Cached, for an import statement costs a microsecond each time that it is run."""
    from mqstore.index.pull import pull_kernels

    return pull_kernels


def offset_in_queue_by_time(
    queue: ConsumeQueue, commit_log: CommitLog, timestamp_ms: int, boundary: Boundary = "LOWER"
) -> int:
    """LOWER: the first entry stored at or after `timestamp_ms`, or the queue's end.

    UPPER: the last entry stored at or before it, or the queue's first. Times are store times in epoch ms.
    Raises ConfigIllegal for another boundary.
    """
    if boundary not in ("LOWER", "UPPER"):
        raise ConfigIllegal(
            f"boundary is {boundary!r}, but must be 'LOWER' or 'UPPER'", key="boundary", value=boundary
        )
    # The caller may give a time that no record can have.
    timestamp_ms = min(max(timestamp_ms, -END_OF_TIME_MS), END_OF_TIME_MS)
    if boundary == "LOWER":
        return _first_stored(queue, commit_log, timestamp_ms, is_upper=False)
    later = _first_stored(queue, commit_log, timestamp_ms, is_upper=True)
    return max(queue.min_offset, later - 1)


def _first_stored(queue: ConsumeQueue, commit_log: CommitLog, timestamp_ms: int, *, is_upper: bool) -> int:
    """The first entry stored at or after `timestamp_ms`, or, `is_upper`, after it; else the queue's end."""
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        low, high = _narrowed(queue, commit_log, timestamp_ms, is_upper, low, high)
        if low < high:
            middle = (low + high) // 2
            entry = queue.entry_at(middle)
            store_timestamp = commit_log.store_timestamp_at(entry[0]) if entry is not None else -1
            if store_timestamp > timestamp_ms or (store_timestamp == timestamp_ms and not is_upper):
                high = middle
            else:
                low = middle + 1
    return low


def _narrowed(
    queue: ConsumeQueue, commit_log: CommitLog, timestamp_ms: int, is_upper: bool, low: int, high: int
) -> tuple[int, int]:
    """`low` and `high` after the steps that stay in one file of the queue and the segment in the middle."""
    entries = queue.view_from(low, high - low)
    if commit_log.direct_reader is not None:
        first, stop = commit_log.direct_reader.narrowed(entries, timestamp_ms, is_upper, high - low)
        return low + first, low + stop
    if (high - low) // 2 >= len(entries) // ENTRY_BYTES:
        return low, high
    segment = commit_log.files.file_for(ENTRY.unpack_from(entries, (high - low) // 2 * ENTRY_BYTES)[0])
    if segment is None:
        return low, high
    try:
        data = segment.array
    except FileNotFoundError as error:
        raise_foreign(error)
        # Deleted by retention (of another process, perhaps) before it was first mapped here.
        return low, high
    start_offset = segment.start_offset
    end = min(commit_log.visible_offset - start_offset, segment.size_bytes)
    narrowed = _kernels().narrow_by_time(
        np.frombuffer(entries, np.uint8), data, start_offset, end, timestamp_ms, is_upper, 0, high - low
    )
    return low + narrowed[0], low + narrowed[1]
