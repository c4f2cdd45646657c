"""What is in a segment, for its entry in the manifest; and the counter that finds it out, piece by piece.

A segment has parts, so that a reader of a time range or a topic fetches few bytes of it. The counter keeps
tables, not records: it needs as much memory as there are queues and names of topics, whatever the segment's
size. The loops over records are in content_kernels.py: import this module inside the function that needs it.
Threads: one at a time.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.tools.archive.manifest import ArchivedPart, ArchivedTopic
from mqstore.tools.archive.segments import content_kernels as kernels

__all__ = ["ContentCounter", "SegmentContent"]

_PARTS = 128
"""A segment has about so many parts: one of 1 GiB has parts of 8 MiB, which is what one request reads."""
_LEAST_PART_BYTES = 64 << 10
# Room at first; a table that is full is doubled.
_TOPICS = 64
_NAMES_BYTES = 64 << 10
_QUEUES = 512
# A length is 15 bits.
_LONGEST_NAME_BYTES = 1 << 15


class SegmentContent(NamedTuple):
    """What is in a segment. Timestamps: the least and the greatest store time, epoch ms.

    parts: of the records, in their order; see `ArchivedPart`.
    """

    records: int
    min_store_timestamp: int
    max_store_timestamp: int
    topics: dict[str, ArchivedTopic]
    parts: tuple[ArchivedPart, ...]


class ContentCounter:
    """Counts the records of one segment, whose pieces it is given in their order."""

    def __init__(self, segment_bytes: int) -> None:
        self._part_bytes = max(segment_bytes // _PARTS, _LEAST_PART_BYTES)
        self._position = 0
        self._counts = np.zeros(kernels.COUNTS, np.int64)
        self._names = np.empty(_NAMES_BYTES, np.uint8)
        self._name_ends = np.zeros(_TOPICS + 1, np.int64)
        self._topic_slots = _slots_for(_TOPICS)
        self._queues = np.empty((_QUEUES, kernels.QUEUE_FIELDS), np.int64)
        self._queue_slots = _slots_for(_QUEUES)
        self._parts = np.empty((segment_bytes // self._part_bytes + 1, kernels.PART_FIELDS), np.int64)
        self._part_topics = np.zeros(len(self._parts) * kernels.TOLD_TOPICS, np.bool_)

    def count(self, data: npt.NDArray[np.uint8]) -> None:
        """Count the next piece of the segment: uint8, whole records that were checked."""
        at = 0
        while at < len(data):
            at = kernels.count_records(
                data,
                at,
                self._position,
                self._part_bytes,
                self._names,
                self._name_ends,
                self._topic_slots,
                self._queues,
                self._queue_slots,
                self._parts,
                self._part_topics,
                self._counts,
            )
            if at < len(data):
                self._double_full_tables()
        self._position += len(data)

    def content(self) -> SegmentContent:
        """What was counted."""
        names = self._topic_names()
        topics = self._topics(names)
        parts = self._archived_parts(names, list(topics))
        return SegmentContent(
            sum(part.records for part in parts),
            min((part.min_store_timestamp for part in parts), default=0),
            max((part.max_store_timestamp for part in parts), default=0),
            topics,
            tuple(parts),
        )

    def _double_full_tables(self) -> None:
        topics, queues, _ = self._counts.tolist()
        is_full = (
            len(self._names) - self._name_ends[topics] < _LONGEST_NAME_BYTES,
            topics + 1 == len(self._name_ends),
            queues == len(self._queues),
        )
        assert any(is_full), "a piece holds bytes that are no record"
        if is_full[0]:
            self._names = np.resize(self._names, 2 * len(self._names))
        if is_full[1]:
            self._name_ends = np.resize(self._name_ends, 2 * len(self._name_ends))
            self._topic_slots = _slots_for(len(self._name_ends))
            kernels.place_topics(self._names, self._name_ends, topics, self._topic_slots)
        if is_full[2]:
            self._queues = np.resize(self._queues, (2 * queues, kernels.QUEUE_FIELDS))
            self._queue_slots = _slots_for(len(self._queues))
            kernels.place_queues(self._queues, queues, self._queue_slots)

    def _topic_names(self) -> list[str]:
        """The topics in the order in which they were found."""
        ends = self._name_ends[: self._counts[kernels.TOPICS] + 1].tolist()
        return [self._names[begin:end].tobytes().decode("utf-8", "replace") for begin, end in pairwise(ends)]

    def _topics(self, names: list[str]) -> dict[str, ArchivedTopic]:
        """By name, sorted."""
        messages: dict[str, int] = dict.fromkeys(names, 0)
        queues: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in names}
        for topic, queue_id, count, least, greatest in self._queues[: self._counts[kernels.QUEUES]].tolist():
            name, begin, end = names[topic], least, greatest + 1
            messages[name] += count
            # Names that are no text may be alike when they are shown.
            known_begin, known_end = queues[name].get(queue_id, (begin, end))
            queues[name][queue_id] = min(known_begin, begin), max(known_end, end)
        return {
            name: ArchivedTopic(messages=messages[name], queues=dict(sorted(queues[name].items())))
            for name in sorted(messages)
        }

    def _archived_parts(self, names: list[str], sorted_names: list[str]) -> list[ArchivedPart]:
        rows = self._parts[: self._counts[kernels.PARTS]].tolist()
        told: list[tuple[int, ...] | None] = [None] * len(rows)
        # With more topics the parts would tell of all of them anyway.
        if len(names) <= kernels.TOLD_TOPICS:
            place_of = {name: place for place, name in enumerate(sorted_names)}
            places = [place_of[name] for name in names]
            flags = self._part_topics.reshape(-1, kernels.TOLD_TOPICS)[: len(rows), : len(names)]
            told = [tuple(sorted({places[topic] for topic in np.flatnonzero(part)})) for part in flags]
        return [
            ArchivedPart(begin, size_bytes, records, least, greatest, topics)
            for (begin, size_bytes, records, least, greatest), topics in zip(rows, told, strict=True)
        ]

    def __repr__(self) -> str:
        return f"ContentCounter(position={self._position})"


def _slots_for(rows: int) -> npt.NDArray[np.int32]:
    return np.full(2 << rows.bit_length(), -1, np.int32)
