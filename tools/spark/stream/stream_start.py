"""The beginning of a new query: what the options say of it, as an offset.

    startingTimestamp                    the first message that was stored then or later, and no earlier one
    startingOffsets, ...ByTimestamp      JSON: the first of the messages that are named; what lies before the
                                         beginning of its own queue is left out until the end of today's log
    startingOffsets=earliest, latest     where the log begins, or ends now; latest if nothing is said

A query that goes on takes its offset from its checkpoint and does not come here.
"""

from pathlib import Path

import numpy as np

from mqstore.index.arrow.records import Records
from mqstore.store.record.record_format import PHYSICAL_OFFSET_POSITION
from mqstore.store_parts import StoreParts
from mqstore.tools.spark.options import QueueNumbers, ReadOptions
from mqstore.tools.spark.read.archive_plan import log_ranges
from mqstore.tools.spark.read.read_plan import log_end_of, open_if_possible, resolve_queues
from mqstore.tools.spark.read.selection import QueueRange, Selection
from mqstore.tools.spark.segments.log_source import ListedLog, source_of
from mqstore.tools.spark.segments.segment_reader import read_range
from mqstore.tools.spark.stream.store_identity import identity_at
from mqstore.tools.spark.stream.stream_offset import StreamOffset

__all__ = ["initial_offset"]


def initial_offset(path: Path, options: ReadOptions) -> StreamOffset:
    """Where a new query begins. Raises StoreNotFound, SparkOptionIllegal, OffsetsMissing, SegmentMissing."""
    source = source_of(str(path), options)
    log = source.listed(options)
    segments = log.segments
    starting = options.starting
    since_ms, begins, until = starting.timestamp_ms, None, 0
    with open_if_possible(path) as parts:
        begin = end = 0
        if segments:
            begin = segments[0].start_offset
            end = log_end_of(log, parts, options)
        phy = begin if starting.word == "earliest" else end
        if since_ms is not None:
            phy = _first_since(log, begin, end, since_ms)
        elif starting.by_queue is not None:
            queues, complete = resolve_queues(source, parts, options, Selection.of(options), log, end)
            assert parts is not None
            places = [_place(log, parts, one, complete) for one in queues if one.begin < one.end]
            phy = max(begin, min(places, default=end))
            begins, until = _begins(queues), end
    offset = StreamOffset(phy=phy, store="", since_ms=since_ms, begins=begins, until=until)
    return offset.moved_to(phy, identity_at(path, phy))


def _first_since(log: ListedLog, begin: int, end: int, since_ms: int) -> int:
    """Physical offset of the first record that was stored at or after a time; `end`: there is none."""
    for one in log_ranges(log, begin, end, Selection(begin_ms=since_ms)):
        for piece in read_range(one.segment, one.begin, one.end, check_crc=False, passes_over=True):
            if isinstance(piece, Records):
                found = piece.select(piece.store_timestamps_ms >= np.int64(since_ms))
                if len(found):
                    return int(found.int64(found.starts, PHYSICAL_OFFSET_POSITION)[0])
    return end


def _place(log: ListedLog, parts: StoreParts, queue: QueueRange, complete: int) -> int:
    """A physical offset before which no message of these entries lies."""
    for entry in log.entries.values():
        topic = entry.topics.get(queue.topic)
        if topic is not None and queue.begin < topic.queues.get(queue.queue_id, (0, 0))[1]:
            return entry.start_offset
    found = parts.consume_queues.find(queue.topic, queue.queue_id)
    place = found.entry_at(queue.begin) if found is not None and queue.begin < found.max_offset else None
    return complete if place is None else place[0]


def _begins(queues: list[QueueRange]) -> QueueNumbers:
    topics: dict[str, list[tuple[int, int]]] = {}
    for queue in queues:
        topics.setdefault(queue.topic, []).append((queue.queue_id, queue.begin))
    return tuple((topic, tuple(sorted(found))) for topic, found in sorted(topics.items()))
