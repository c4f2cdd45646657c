"""The queues of a log whose beginning is in an archive: how far each goes, and where a time is in it.

An archive has no consume queues. Its entries say of each queue the first offset and the last one in each
segment; a time within a segment is looked for in its records.
"""

from collections.abc import Sequence

import numpy as np

from mqstore.index.arrow.records import Records
from mqstore.store.record.record_format import QUEUE_OFFSET_POSITION
from mqstore.tools.spark.read.archive_plan import log_ranges
from mqstore.tools.spark.read.selection import QueueRange, Selection
from mqstore.tools.spark.segments.log_source import ListedLog
from mqstore.tools.spark.segments.segment_reader import read_range

__all__ = ["archived_queues", "archived_time", "with_archived"]

_NO_END = 2**63 - 1


def archived_queues(log: ListedLog, selection: Selection) -> list[QueueRange]:
    """The queues that the selection wants, as far as they are in the archive."""
    found: dict[tuple[str, int], QueueRange] = {}
    for entry in log.entries.values():
        for topic, content in entry.topics.items():
            if selection.wants_topic(topic):
                for queue_id, (begin, end) in content.queues.items():
                    one = found.get((topic, queue_id), QueueRange(topic, queue_id, begin, end))
                    found[topic, queue_id] = one._replace(begin=min(one.begin, begin), end=max(one.end, end))
    return [found[name] for name in sorted(found)]


def with_archived(archived: Sequence[QueueRange], local: Sequence[QueueRange]) -> list[QueueRange]:
    """The queues of the store, from where they begin in the archive on."""
    found = {(one.topic, one.queue_id): one for one in archived}
    for one in local:
        before = found.get((one.topic, one.queue_id))
        found[one.topic, one.queue_id] = (
            one if before is None else one._replace(begin=before.begin, end=max(before.end, one.end))
        )
    return [found[name] for name in sorted(found)]


def archived_time(log: ListedLog, queue: QueueRange, time_ms: int, *, check_crc: bool) -> int | None:
    """The first offset of a queue, in the archive, whose message was stored at or after a time, if one was.

    Raises CorruptRecord, SegmentMissing.
    """
    wanted = Selection(
        is_listed=True,
        topics=frozenset({queue.topic}),
        begin_ms=time_ms,
        queue_bounds=(QueueRange(queue.topic, queue.queue_id, 0, _NO_END),),
    )
    archived = ListedLog([each for each in log.segments if each.start_offset in log.entries], log.entries)
    for one in log_ranges(archived, 0, _NO_END, wanted):
        for piece in read_range(one.segment, one.begin, one.end, check_crc=check_crc):
            if isinstance(piece, Records):
                found = wanted.apply(piece)
                if len(found):
                    return int(np.min(found.int64(found.starts, QUEUE_OFFSET_POSITION)))
    return None
