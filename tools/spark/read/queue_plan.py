"""The queue scan: chosen topics are read through their consume queues, if their share of the log is small.

The queues say where the records of a topic lie. So what is read is the topic and not the log: cheaper up to
about a quarter of the log, where the order of reading begins to cost more than what is left out. Messages
that are in no queue are then not seen: half and rolled-back ones. So that this does not depend on the share,
a read of chosen topics never has them (`Selection.is_listed`). A deleted topic is read from the log.

The queues hold entries up to some physical offset at least (`complete_up_to`); what is behind it is read from
the log itself.
"""

from collections.abc import Iterator, Sequence

from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.store.record.record_format import FIXED_BYTES
from mqstore.store_parts import StoreParts
from mqstore.tools.spark.options import ReadOptions
from mqstore.tools.spark.read.offset_bounds import first_at_or_after
from mqstore.tools.spark.read.partitions import QueuePartition, QueueRange
from mqstore.tools.spark.read.selection import Selection

__all__ = [
    "MOST_SHARE",
    "chosen_queues",
    "complete_up_to",
    "estimated_bytes",
    "is_known_by_queues",
    "narrowed",
    "pack_queues",
    "use_queues",
]

# Up to this share of the log's bytes.
MOST_SHARE = 0.25
# Sizes of so many records of a queue are looked at.
_SAMPLES = 32


def complete_up_to(parts: StoreParts, last_segment_offset: int) -> int:
    """Physical offset up to which every message that belongs into a queue is in it."""
    end_offset = parts.commit_log.max_offset
    point = parts.recovery_point.point
    if point is not None:
        return min(point.queues_offset, end_offset)
    # A broker of RocketMQ has written it. If it runs, or has crashed, its last entries may be missing.
    return min(last_segment_offset, end_offset) if parts.abort.exists() else end_offset


def chosen_queues(parts: StoreParts, selection: Selection, end_offset: int) -> list[QueueRange]:
    """All queues that the selection wants: their entries of messages before `end_offset`."""
    chosen = []
    for topic, queue_id in parts.consume_queues.queues():
        if selection.wants_queue(topic, queue_id):
            queue = parts.consume_queues.find(topic, queue_id)
            if queue is not None:
                chosen.append(QueueRange(topic, queue_id, queue.min_offset, queue.end_below(end_offset)))
    return chosen


def is_known_by_queues(parts: StoreParts, selection: Selection, chosen: Sequence[QueueRange]) -> bool:
    """Whether the queues have all messages of the wanted topics, but for half and rolled-back ones."""
    topics = {queue.topic for queue in chosen}
    has_all = bool(chosen) and (selection.topics is None or selection.topics <= topics)
    settings = parts.settings_file.settings
    return has_all and (settings is None or topics.isdisjoint(settings.deleted_topics))


def narrowed(parts: StoreParts, selection: Selection, chosen: Sequence[QueueRange]) -> list[QueueRange]:
    """The entries whose messages may be wanted, by store time and by queue offset."""
    found = []
    for one in chosen:
        queue = _find(parts, one)
        begin = max(one.begin, selection.begin_queue_offset or 0)
        end = one.end if selection.end_queue_offset is None else min(one.end, selection.end_queue_offset)
        if queue is not None and selection.begin_ms is not None and begin < end:
            begin = first_at_or_after(queue, parts.commit_log, begin, end, selection.begin_ms)
        if queue is not None and selection.end_ms is not None and begin < end:
            end = first_at_or_after(queue, parts.commit_log, begin, end, selection.end_ms)
        if begin < end:
            found.append(one._replace(begin=begin, end=end))
    return found


def _find(parts: StoreParts, one: QueueRange) -> ConsumeQueue | None:
    return parts.consume_queues.find(one.topic, one.queue_id)


def estimated_bytes(parts: StoreParts, one: QueueRange) -> int:
    """About how many bytes of the log the records of these entries take."""
    queue, count = _find(parts, one), one.end - one.begin
    if queue is None or count <= 0:
        return 0
    places = range(one.begin, one.end, max(count // _SAMPLES, 1))
    sizes = [entry[1] for entry in map(queue.entry_at, places) if entry is not None]
    return count * max(sum(sizes) // max(len(sizes), 1), FIXED_BYTES)


def pack_queues(
    store: str, selection: Selection, parts: StoreParts, chosen: Sequence[QueueRange], target: int
) -> Iterator[QueuePartition]:
    """Tasks of about `target` bytes: large queues are cut, small ones share a task."""
    waiting: list[QueueRange] = []
    waiting_bytes = 0
    for one in chosen:
        size_bytes = estimated_bytes(parts, one)
        for piece in _cut(one, -(-size_bytes // target)):
            piece_bytes = size_bytes * (piece.end - piece.begin) // max(one.end - one.begin, 1)
            if waiting and waiting_bytes + piece_bytes > target:
                yield QueuePartition(store, selection, tuple(waiting))
                waiting, waiting_bytes = [], 0
            waiting.append(piece)
            waiting_bytes += piece_bytes
    if waiting:
        yield QueuePartition(store, selection, tuple(waiting))


def _cut(one: QueueRange, count: int) -> Iterator[QueueRange]:
    """The entries in `count` parts of equal length."""
    count = max(min(count, one.end - one.begin), 1)
    for part in range(count):
        begin, end = (one.begin + (one.end - one.begin) * at // count for at in (part, part + 1))
        yield one._replace(begin=begin, end=end)


def use_queues(options: ReadOptions, selection: Selection) -> bool | None:
    """Whether the options demand the queues, or forbid them; None: as it is cheaper."""
    if options.is_by_queue:
        return True
    return options.queue_scan if options.queue_scan is not None else None if selection.is_listed else False
