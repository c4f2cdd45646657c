"""What of an archive is read: decided by its manifest, before a byte of an object is read.

An entry tells the times and topics of each part of its segment, and where the part begins, which is at a
record. Parts that cannot hold wanted records are left out. What is left is cut between parts, where a record
surely begins; inside of a part only if tasks are to be as small as that. An entry of version 1 tells of the
segment as a whole.

    topics      only where no half messages are in a segment, or none are wanted: entries count the others
    queues      of the segment as a whole
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mqstore.tools.archive.manifest import ArchivedPart, ArchivedSegment
from mqstore.tools.spark.read.partitions import SegmentRange
from mqstore.tools.spark.read.range_plan import wanted_ranges
from mqstore.tools.spark.read.selection import Selection
from mqstore.tools.spark.segments.log_source import ListedLog

__all__ = ["joined", "log_ranges"]


def log_ranges(log: ListedLog, begin: int, end: int, selection: Selection) -> list[SegmentRange]:
    """The parts of the log from `begin` to `end` that may hold wanted records, in its order.

    begin, end: physical offsets where a record begins, or the log ends.
    """
    found = []
    for segment in log.segments:
        entry = log.entries.get(segment.start_offset)
        if entry is None:
            continue
        for part_begin, part_end in _wanted(entry, selection):
            first, stop = max(part_begin, begin), min(part_end, end)
            if first < stop:
                found.append(SegmentRange(segment, first, stop))
    local = log.local
    return found + (wanted_ranges(local, begin, end, selection) if local else [])


def _wanted(entry: ArchivedSegment, selection: Selection) -> Iterator[tuple[int, int]]:
    """Physical offsets of what may be wanted of a segment."""
    names = sorted(entry.topics)
    has_others = sum(topic.messages for topic in entry.topics.values()) < entry.records
    by_topic = selection.is_listed or not has_others
    wanted = {place for place, name in enumerate(names) if _wants_queues(entry, name, selection)}
    if by_topic and not wanted:
        return
    parts = entry.parts or (_whole(entry),)
    for part in parts:
        is_in_time = (selection.end_ms is None or part.min_store_timestamp < selection.end_ms) and (
            selection.begin_ms is None or part.max_store_timestamp >= selection.begin_ms
        )
        has_topic = not by_topic or part.topics is None or not wanted.isdisjoint(part.topics)
        if is_in_time and has_topic:
            first = entry.start_offset + part.position
            yield first, first + part.size_bytes


def _whole(entry: ArchivedSegment) -> ArchivedPart:
    return ArchivedPart(
        0, entry.size_bytes, entry.records, entry.min_store_timestamp, entry.max_store_timestamp
    )


def _wants_queues(entry: ArchivedSegment, topic: str, selection: Selection) -> bool:
    if not selection.wants_topic(topic):
        return False
    if selection.queue_bounds is None:
        return True
    queues = entry.topics[topic].queues
    return any(
        bound.topic == topic
        and bound.queue_id in queues
        and bound.begin < queues[bound.queue_id][1]
        and bound.end > queues[bound.queue_id][0]
        for bound in selection.queue_bounds
    )


def joined(ranges: Sequence[SegmentRange]) -> tuple[SegmentRange, ...]:
    """The ranges of a task, those that follow each other in a segment as one."""
    found: list[SegmentRange] = []
    for one in ranges:
        if found and found[-1].segment == one.segment and found[-1].end == one.begin:
            found[-1] = replace(found[-1], end=one.end)
        else:
            found.append(one)
    return tuple(found)
