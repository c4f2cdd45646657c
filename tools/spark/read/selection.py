"""The selection: which records of a piece a query wants, decided column by column before rows are built.

Topics and tags are compared as their distinct values, so a topic name is decoded once per piece and not once
per record. What is wanted is decided exactly here, whichever way the records were found; plans leave out what
cannot be wanted.
A selection is pickled with the reader; it holds no files and no arrays.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.store.record.record_format import (
    QUEUE_ID_POSITION,
    QUEUE_OFFSET_POSITION,
)
from mqstore.store.record.sys_flag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from mqstore.tools.spark.options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from mqstore.index.arrow.records import Records

__all__ = ["QueueRange", "Selection"]

Mask = npt.NDArray[np.bool_]


class QueueRange(NamedTuple):
    """Entries of one queue: queue offsets, `end` not included."""

    topic: str
    queue_id: int
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What to keep; None means no restriction. Ranges are half open: begin <= value < end.

    queue_bounds: of each queue that is wanted, if not all are.
    is_listed: without messages that are in no queue, half and rolled-back ones.
    """

    topics: frozenset[str] | None = None
    topic_pattern: str | None = None
    tags: frozenset[str] | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    queue_bounds: tuple[QueueRange, ...] | None = None
    is_listed: bool = False

    @classmethod
    def of(cls, options: ReadOptions) -> "Selection":
        """The selection that the read options ask for, without what a store must be asked for.

        Who chooses topics or queues gets what consumers of them get; who does not, or wants no queue scan,
        gets every record.
        """
        has_chosen = options.topics is not None or options.topic_pattern is not None or options.is_by_queue
        return cls(
            is_listed=options.queue_scan if options.queue_scan is not None else has_chosen,
            topics=options.topics,
            topic_pattern=options.topic_pattern,
            tags=options.tags,
            begin_ms=options.starting.timestamp_ms,
            end_ms=options.ending.timestamp_ms,
        )

    def wants_topic(self, topic: str) -> bool:
        """Whether messages of a topic may be wanted."""
        if self.topics is not None and topic not in self.topics:
            return False
        return self.topic_pattern is None or re.fullmatch(self.topic_pattern, topic) is not None

    def apply(self, records: "Records") -> "Records":
        """The wanted ones of `records`, in their order."""
        if self.begin_ms is not None or self.end_ms is not None:
            records = records.select(_within(records.store_timestamps_ms, self.begin_ms, self.end_ms))
        if self.topics is not None or self.topic_pattern is not None:
            records = records.select(_among(records.topics, self.wants_topic))
        if self.queue_bounds is not None:
            records = records.select(self._within_bounds(records))
        if self.is_listed:
            types = records.sys_flags & TRANSACTION_MASK
            records = records.select((types != TRANSACTION_PREPARED) & (types != TRANSACTION_ROLLBACK))
        if self.tags is not None:
            records = records.select(_among(records.binary(*records.find_property("TAGS")), self._wants_tag))
        return records

    def _within_bounds(self, records: "Records") -> Mask:
        ids = records.int32(records.starts, QUEUE_ID_POSITION)
        offsets = records.int64(records.starts, QUEUE_OFFSET_POSITION)
        encoded = records.topics.dictionary_encode()
        topics, numbers = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        mask = np.zeros(ids.size, np.bool_)
        for topic, queue_id, begin, end in self.queue_bounds or ():
            if topic.encode() in topics:
                of_queue = (numbers == topics.index(topic.encode())) & (ids == queue_id)
                mask |= of_queue & _within(offsets, begin, end)
        return mask

    def _wants_tag(self, tag: str) -> bool:
        return self.tags is None or tag in self.tags


def _within(values: npt.NDArray[np.int64], begin: int | None, end: int | None) -> Mask:
    mask = np.ones(values.size, np.bool_)
    if begin is not None:
        mask &= values >= begin
    if end is not None:
        mask &= values < end
    return mask


def _among(values: "pa.Array", wanted: Callable[[str], bool]) -> Mask:
    """Where `values` (UTF-8 as binary) satisfy `wanted`, which is asked once per distinct value."""
    encoded = values.dictionary_encode()
    distinct = [wanted(str(value, "utf-8", "replace")) for value in encoded.dictionary.to_pylist()]
    mask: Mask = np.array(distinct, np.bool_)[encoded.indices.to_numpy()]
    return mask
