"""At which entry a queue stood at a time.

Store times ascend along a queue, so the entry is found by bisection; each step reads one entry and the
store time of its record. Where the clock was set back while messages were stored, the answer is one of the
entries where the times cross, as in RocketMQ, though not always the same one.

RocketMQ first chooses a file by the times of its ends and then searches inside; the answers are those of
one search over the queue, which this is. Two of its answers are kept: a time before the first message
gives the queue's minimum for both boundaries, and an empty queue its minimum too. One is not: an entry
whose record cannot be read makes it answer the minimum, here it counts as older than everything.

Threads: any; no lock. Source: ConsumeQueue#getOffsetInQueueByTime, spec of the consume queue, section 9.
"""

import bisect
from typing import Literal

from mqstore.index.consume_queue import ConsumeQueue
from mqstore.store.commit_log import CommitLog
from mqstore.store.errors import ConfigIllegal

__all__ = ["Boundary", "offset_in_queue_by_time"]

Boundary = Literal["LOWER", "UPPER"]


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

    def store_timestamp(queue_offset: int) -> int:
        entry = queue.entry_at(queue_offset)
        return commit_log.store_timestamp_at(entry[0]) if entry is not None else -1

    min_offset = queue.min_offset
    entries = range(min_offset, queue.max_offset)
    if boundary == "LOWER":
        return min_offset + bisect.bisect_left(entries, timestamp_ms, key=store_timestamp)
    later = bisect.bisect_right(entries, timestamp_ms, key=store_timestamp)
    return min_offset + max(0, later - 1)
