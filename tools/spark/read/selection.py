"""The selection: which records of a segment a read wants, by topic, tag and store time.

Decided before any column is built, so other records cost the walk and their topic only. Topics and
tags are compared once per distinct value of a piece, whatever the number of records.
A selection is pickled with the reader; it holds no files and no arrays.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mqstore.tools.spark.options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from mqstore.index.arrow.records import Records

__all__ = ["Selection"]

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What to keep; None means no restriction. The time range is half open: begin_ms <= t < end_ms."""

    topics: frozenset[str] | None = None
    topic_pattern: str | None = None
    tags: frozenset[str] | None = None
    begin_ms: int | None = None
    end_ms: int | None = None

    @classmethod
    def of(cls, options: ReadOptions) -> "Selection":
        """The selection that the read options ask for."""
        return cls(
            topics=options.topics,
            topic_pattern=options.topic_pattern,
            begin_ms=options.begin_ms,
            end_ms=options.end_ms,
        )

    def apply(self, records: "Records") -> "Records":
        """The wanted ones of `records`, in their order."""
        if self.begin_ms is not None or self.end_ms is not None:
            records = records.select(self._stored_in_time(records))
        if self.topics is not None or self.topic_pattern is not None:
            records = records.select(_among(records.topics, self._wants_topic))
        if self.tags is not None:
            records = records.select(_among(records.binary(*records.find_property("TAGS")), self._wants_tag))
        return records

    def _stored_in_time(self, records: "Records") -> Mask:
        times = records.store_timestamps_ms
        mask = np.ones(times.size, np.bool_)
        if self.begin_ms is not None:
            mask &= times >= self.begin_ms
        if self.end_ms is not None:
            mask &= times < self.end_ms
        return mask

    def _wants_topic(self, topic: str) -> bool:
        if self.topics is not None and topic not in self.topics:
            return False
        return self.topic_pattern is None or re.fullmatch(self.topic_pattern, topic) is not None

    def _wants_tag(self, tag: str) -> bool:
        return self.tags is None or tag in self.tags


def _among(values: "pa.Array", wanted: Callable[[str], bool]) -> Mask:
    """Where `values` (UTF-8 as binary) satisfy `wanted`, which is asked once per distinct value."""
    encoded = values.dictionary_encode()
    distinct = [wanted(str(value, "utf-8", "replace")) for value in encoded.dictionary.to_pylist()]
    mask: Mask = np.array(distinct, np.bool_)[encoded.indices.to_numpy()]
    return mask
