"""The queue scan: chosen topics are read through their consume queues, if their share of the log is small.

The queues say where the records of a topic lie. So what is read is the topic and not the log: cheaper up to
about a quarter of the log, where the order of reading begins to cost more than what is left out. Messages
that are in no queue are then not seen: half and rolled-back ones. So that this does not depend on the share,
a read of chosen topics never has them (`Selection.is_listed`). A deleted topic is read from the log.

A task reads all of the queues, between two places of the log, and in its order: so it reads forward, and what
lies side by side at once.

The queues hold entries up to some physical offset at least (`complete_up_to`); what is behind it is read from
the log itself.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY_BYTES, ENTRY_DTYPE
from mqstore.index.queue.queue_manifest_format import QueueFiles, QueueManifest
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.record.record_format import FIXED_BYTES
from mqstore.store_parts import StoreParts
from mqstore.tools.spark.options import ReadOptions
from mqstore.tools.spark.read.offset_bounds import first_at_or_after
from mqstore.tools.spark.read.partitions import QueuePartition
from mqstore.tools.spark.read.selection import QueueRange, Selection

__all__ = [
    "MOST_SHARE",
    "chosen_queues",
    "complete_up_to",
    "is_known_by_queues",
    "narrowed",
    "pack_queues",
    "sample",
    "use_queues",
]

Int64s = npt.NDArray[np.int64]

MOST_SHARE = 0.25
"""Up to this share of the log's bytes the queues are read."""
# About so many entries of a queue are looked at.
_SAMPLES = 32


def complete_up_to(parts: StoreParts, safe_offset: int) -> int:
    """Physical offset up to which every message that belongs into a queue is in it.

    safe_offset: where a broker that runs, or has crashed, has surely come by now.
    """
    end_offset = parts.commit_log.max_offset
    point = parts.recovery_point.point
    if point is not None:
        return min(point.queues_offset, end_offset)
    # A broker of RocketMQ has written it. If it runs, or has crashed, its last entries may be missing.
    return min(safe_offset, end_offset) if parts.abort.exists() else end_offset


def chosen_queues(parts: StoreParts, selection: Selection, end_offset: int) -> list[QueueRange]:
    """All queues that the selection wants: their entries of messages before `end_offset`."""
    chosen = []
    for topic, queue_id in parts.consume_queues.queues():
        if selection.wants_topic(topic):
            queue = parts.consume_queues.find(topic, queue_id)
            if queue is not None:
                chosen.append(QueueRange(topic, queue_id, queue.min_offset, queue.end_below(end_offset)))
    return chosen


def is_known_by_queues(parts: StoreParts, selection: Selection, chosen: Sequence[QueueRange]) -> bool:
    """Whether the queues have all messages of the wanted topics, but for half and rolled-back ones.

    That is known where mqstore has written down which files of queues there are; elsewhere one that was lost
    would not be missed. A deleted topic has messages and no queues. A queue whose beginning is damaged is not
    believed.
    """
    topics = {queue.topic for queue in chosen}
    has_all = bool(chosen) and (selection.topics is None or selection.topics <= topics)
    settings = parts.settings_file.settings
    if settings is None or not has_all or any(map(selection.wants_topic, settings.deleted_topics)):
        return False
    known = parts.queue_names.known
    expected = {name: files for name, files in known.files.items() if selection.wants_topic(name[0])}
    found = {}
    for name in expected:
        queue = parts.consume_queues.find(*name)
        if queue is not None and queue.files and _begins_in_order(queue, parts.commit_log.min_offset):
            found[name] = QueueFiles(queue.files[0].start_offset, queue.files[-1].start_offset)
    manifest = QueueManifest(parts.commit_log.min_offset, found)
    return bool(expected) and manifest.has_all_of(QueueManifest(known.log_min_offset, expected))


def _begins_in_order(queue: ConsumeQueue, log_min_offset: int) -> bool:
    """Whether all entries before the queue's first message are of messages that the log has no more.

    The first message is found by bisection, which a damaged entry leads astray: then rows would be missing.
    """
    for file in queue.files:
        count = queue.min_offset - file.start_offset // ENTRY_BYTES
        if count <= 0:
            break
        try:
            view = file.view
        except FileNotFoundError as error:
            raise_foreign(error)
            # Deleted by retention of the writer before it was first mapped here.
            continue
        entries = np.frombuffer(view[: count * ENTRY_BYTES], ENTRY_DTYPE)
        physical_offsets = entries["physical_offset"]
        is_gone = (physical_offsets >= 0) & (physical_offsets < log_min_offset)
        if not (is_gone | (entries["size"] == BLANK_SIZE)).all():
            return False
    return True


def narrowed(parts: StoreParts, selection: Selection, chosen: Sequence[QueueRange]) -> list[QueueRange]:
    """The entries whose messages may be wanted, by store time."""
    found = []
    for one in chosen:
        queue = _find(parts, one)
        begin, end = one.begin, one.end
        if queue is not None and selection.begin_ms is not None and begin < end:
            begin = first_at_or_after(queue, parts.commit_log, begin, end, selection.begin_ms)
        if queue is not None and selection.end_ms is not None and begin < end:
            end = first_at_or_after(queue, parts.commit_log, begin, end, selection.end_ms)
        if begin < end:
            found.append(one._replace(begin=begin, end=end))
    return found


def _find(parts: StoreParts, one: QueueRange) -> ConsumeQueue | None:
    return parts.consume_queues.find(one.topic, one.queue_id)


class Sample(NamedTuple):
    """Some entries of the queues to read, in the order of the log.

    physical_offsets: of their messages, int64. weights: bytes of the log that each stands for, int64.
    """

    physical_offsets: Int64s
    weights: Int64s

    @property
    def total_bytes(self) -> int:
        """About how many bytes of the log the records of all entries take."""
        return int(self.weights.sum())

    def cuts(self, count: int) -> list[int]:
        """Physical offsets that cut what is read into `count` parts of about equal size."""
        ends = np.cumsum(self.weights)
        if not ends.size:
            return []
        count = min(count, ends.size)
        places = np.searchsorted(ends, ends[-1] * np.arange(1, count) // count, side="right")
        return sorted(set(self.physical_offsets[np.minimum(places, ends.size - 1)].tolist()))


def sample(parts: StoreParts, chosen: Sequence[QueueRange]) -> Sample:
    """Look at some entries of each queue."""
    found: list[tuple[int, int]] = []
    for one in chosen:
        queue, count = _find(parts, one), one.end - one.begin
        if queue is not None and count > 0:
            step = max(count // _SAMPLES, 1)
            for place in range(one.begin, one.end, step):
                entry = queue.entry_at(place)
                if entry is not None:
                    found.append((entry[0], max(entry[1], FIXED_BYTES) * min(step, one.end - place)))
    found.sort()
    table = np.array(found, np.int64).reshape(-1, 2)
    return Sample(table[:, 0], table[:, 1])


def pack_queues(
    store: str, selection: Selection, parts: StoreParts, chosen: Sequence[QueueRange], cuts: Sequence[int]
) -> Iterator[QueuePartition]:
    """A task for each part of the log between two of the `cuts`: it reads all queues there."""
    begins = [one.begin for one in chosen]
    for cut in (*cuts, None):
        ends = [_end_below(parts, one, cut) for one in chosen]
        queues = tuple(
            one._replace(begin=begin, end=end)
            for one, begin, end in zip(chosen, begins, ends, strict=True)
            if begin < end
        )
        if queues:
            yield QueuePartition(store, selection, queues)
        begins = [max(begin, end) for begin, end in zip(begins, ends, strict=True)]


def _end_below(parts: StoreParts, one: QueueRange, physical_offset: int | None) -> int:
    queue = _find(parts, one)
    if queue is None or physical_offset is None:
        return one.end
    return min(one.end, queue.end_below(physical_offset))


def use_queues(options: ReadOptions, selection: Selection) -> bool | None:
    """Whether the options demand the queues, or forbid them; None: as it is cheaper."""
    if options.is_by_queue:
        return True
    return options.queue_scan if options.queue_scan is not None else None if selection.is_listed else False
