"""The tail of the queues: what lies in the log behind the place up to which the queues are complete.

A read that begins or ends at offsets of queues must know how far the queues go, and the entries of the last
messages may not be there yet. So their records are looked at.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mqstore.index.arrow.records import Records
from mqstore.store.record.record_format import QUEUE_ID_POSITION, QUEUE_OFFSET_POSITION
from mqstore.tools.spark.read.selection import QueueRange, Selection
from mqstore.tools.spark.segments.segment_files import SegmentFile
from mqstore.tools.spark.segments.segment_reader import read_range

__all__ = ["QueueTail", "read_tail"]


class QueueTail(NamedTuple):
    """(queue offset, store time in epoch ms) of the messages of each queue, in the order of the log."""

    messages: dict[tuple[str, int], list[tuple[int, int]]]

    def added_to(self, chosen: Sequence[QueueRange]) -> list[QueueRange]:
        """The queues with what follows behind their entries, and those that have no entries yet."""
        known = {(one.topic, one.queue_id): one for one in chosen}
        for (topic, queue_id), messages in self.messages.items():
            begin, end = messages[0][0], messages[-1][0] + 1
            one = known.get((topic, queue_id), QueueRange(topic, queue_id, begin, end))
            known[topic, queue_id] = one._replace(end=max(one.end, end))
        return [known[name] for name in sorted(known)]

    def first_at_or_after(self, topic: str, queue_id: int, time_ms: int) -> int | None:
        """The first queue offset here whose message was stored at or after a time; None: there is none."""
        messages = self.messages.get((topic, queue_id), [])
        return next((offset for offset, stored_ms in messages if stored_ms >= time_ms), None)


def read_tail(segments: Sequence[SegmentFile], begin: int, end: int, *, check_crc: bool) -> QueueTail:
    """The tail between two physical offsets. Damage is passed over: who reads the records reports it."""
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for segment in segments:
        if segment.end_offset > begin and segment.start_offset < end:
            first, stop = max(begin, segment.start_offset), min(end, segment.end_offset)
            for piece in read_range(segment, first, stop, check_crc=check_crc, passes_over=True):
                if isinstance(piece, Records):
                    _take(piece, found)
    return QueueTail(found)


def _take(records: Records, found: dict[tuple[str, int], list[tuple[int, int]]]) -> None:
    records = Selection(is_listed=True).apply(records)
    for topic, queue_id, offset, stored_ms in zip(
        records.topics.to_pylist(),
        records.int32(records.starts, QUEUE_ID_POSITION).tolist(),
        records.int64(records.starts, QUEUE_OFFSET_POSITION).tolist(),
        records.store_timestamps_ms.tolist(),
        strict=True,
    ):
        found.setdefault((str(topic, "utf-8", "replace"), queue_id), []).append((offset, stored_ms))
