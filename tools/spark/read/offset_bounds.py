"""Offset bounds: what the options say about queues, resolved against the queues of one store.

    assign                           these queues
    startingOffsets, endingOffsets   JSON: a number for each queue; -2 the first offset there is, -1 the end
    ...OffsetsByTimestamp            JSON: the first offset whose message was stored at or after a time
    ...Timestamp                     counts before the others, and is a matter of each record (selection.py)

As in Spark's Kafka source the numbers must name exactly the queues that are read. An offset that retention
has deleted is a loss; one behind the end of its queue is refused.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from mqstore.index.pull.offset_by_time import offset_in_queue_by_time
from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.store.errors import StoreError
from mqstore.store.log.commit_log import CommitLog
from mqstore.store_parts import StoreParts
from mqstore.tools.spark.options import EARLIEST, LATEST, QueueNumbers, ReadOptions, SparkOptionIllegal
from mqstore.tools.spark.read.queue_tail import QueueTail
from mqstore.tools.spark.read.selection import QueueRange

__all__ = ["OffsetsMissing", "first_at_or_after", "queue_at_time", "resolve_bounds"]


class OffsetsMissing(StoreError):
    """A queue does not begin as early as the read is to."""

    def __init__(self, path: Path | str, topic: str, queue_id: int, begin: int, min_offset: int) -> None:
        super().__init__(
            f"queue {queue_id} of topic {topic!r} in {path} begins at offset {min_offset}, and "
            f"startingOffsets say {begin}: retention has deleted what was there. Begin at -2 (the first "
            "there is), or set option failOnDataLoss to false"
        )
        self.topic, self.queue_id, self.begin, self.min_offset = topic, queue_id, begin, min_offset


TimeLookup = Callable[[QueueRange, int], int]
"""The first offset of a queue, given whole, whose message was stored at or after a time in epoch ms; its end
if there is none."""


def resolve_bounds(
    shown: str, options: ReadOptions, chosen: Sequence[QueueRange], at_time: TimeLookup
) -> list[QueueRange]:
    """The entries to read of the `chosen` queues, which are given whole. shown: what has them, for errors.

    Raises SparkOptionIllegal, OffsetsMissing.
    """
    starting, ending = options.starting.by_queue, options.ending.by_queue
    for option, numbers in (("startingOffsets", starting), ("endingOffsets", ending)):
        _refuse_other_queues(option, numbers, chosen)
    begins, ends = _by_queue(starting), _by_queue(ending)
    resolved = []
    for queue in chosen:
        name = (queue.topic, queue.queue_id)
        begin, end = queue.begin, queue.end
        if name in begins:
            begin = _begin(shown, options, queue, at_time, begins[name])
        if name in ends:
            end = _end(options, queue, at_time, ends[name])
        if begin > end:
            raise SparkOptionIllegal(
                f"of queue {queue.queue_id} of topic {queue.topic!r} the read would begin at offset {begin} "
                f"and end at {end}: give an end that is not before the beginning",
                key="startingOffsets",
                value=str(begin),
            )
        resolved.append(queue._replace(begin=begin, end=end))
    return resolved


def _by_queue(numbers: QueueNumbers | None) -> dict[tuple[str, int], int]:
    return {(topic, queue_id): number for topic, queues in numbers or () for queue_id, number in queues}


def _refuse_other_queues(name: str, numbers: QueueNumbers | None, chosen: Sequence[QueueRange]) -> None:
    if numbers is None:
        return
    given = set(_by_queue(numbers))
    wanted = {(queue.topic, queue.queue_id) for queue in chosen}
    if given != wanted:
        missing, excess = sorted(wanted - given), sorted(given - wanted)
        raise SparkOptionIllegal(
            f"{name} must name exactly the queues that are read: "
            + "; ".join(
                f"{what} {', '.join(f'{topic}/{queue_id}' for topic, queue_id in queues[:5])}"
                for what, queues in (("without", missing), ("not read:", excess))
                if queues
            ),
            key=name,
        )


def _begin(shown: str, options: ReadOptions, queue: QueueRange, at_time: TimeLookup, number: int) -> int:
    if options.starting.timestamps_ms is not None:
        begin = at_time(queue, number)
        if begin == queue.end and not options.latest_if_none:
            raise SparkOptionIllegal(
                f"queue {queue.queue_id} of topic {queue.topic!r} has no message that was stored at or after "
                f"{number}: give an earlier time, or set startingOffsetsByTimestampStrategy to latest",
                key="startingOffsetsByTimestamp",
                value=str(number),
            )
        return begin
    if number in (EARLIEST, LATEST):
        return queue.begin if number == EARLIEST else queue.end
    _refuse_behind(queue, number, "startingOffsets")
    if number < queue.begin and options.fail_on_data_loss:
        raise OffsetsMissing(shown, queue.topic, queue.queue_id, number, queue.begin)
    return max(number, queue.begin)


def _end(options: ReadOptions, queue: QueueRange, at_time: TimeLookup, number: int) -> int:
    if options.ending.timestamps_ms is not None:
        return at_time(queue, number)
    if number == LATEST:
        return queue.end
    _refuse_behind(queue, number, "endingOffsets")
    return max(number, queue.begin)


def _refuse_behind(queue: QueueRange, number: int, name: str) -> None:
    if number > queue.end:
        raise SparkOptionIllegal(
            f"{name} say {number} for queue {queue.queue_id} of topic {queue.topic!r}, which ends at "
            f"{queue.end}: give an offset from {queue.begin} to {queue.end}",
            key=name,
            value=str(number),
        )


def queue_at_time(parts: StoreParts, queue: QueueRange, tail: QueueTail, time_ms: int) -> int:
    """What `resolve_bounds` asks of a store: by the entries of the queue, and behind them by its tail."""
    found = parts.consume_queues.find(queue.topic, queue.queue_id)
    end = queue.end
    if found is not None:
        end = min(found.max_offset, queue.end)
        first = first_at_or_after(found, parts.commit_log, queue.begin, end, time_ms)
        if first < end:
            return first
    in_tail = tail.first_at_or_after(queue.topic, queue.queue_id, time_ms)
    return queue.end if in_tail is None else max(in_tail, queue.begin)


def first_at_or_after(queue: ConsumeQueue, log: CommitLog, begin: int, end: int, time_ms: int) -> int:
    """The first of these offsets whose message was stored at or after a time, epoch ms; `end`: there is none.

    Store times are taken to be in the order of the queue.
    """
    return min(max(offset_in_queue_by_time(queue, log, time_ms), begin), end)
