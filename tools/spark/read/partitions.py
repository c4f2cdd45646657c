"""Partitions: what one task of a batch read reads. The plan makes them, and Spark pickles them.

Offsets are fixed when the plan is made: each action on a DataFrame, and each attempt of a task, reads the
same records, however far the writer has come since.
"""

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from mqstore.tools.spark.read.selection import QueueRange, Selection
from mqstore.tools.spark.segments.segment_files import SegmentFile

__all__ = ["LogPartition", "QueuePartition", "SegmentRange"]


@dataclass(frozen=True)
class SegmentRange:
    """Records of one segment, between two physical offsets where records begin, or the log ends."""

    segment: SegmentFile
    begin: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Bytes between the two."""
        return self.end - self.begin


@dataclass(frozen=True)
class LogPartition(InputPartition):
    """Ranges of the log of one store, to be read one after another, and which of their records are wanted."""

    store: str
    selection: Selection
    ranges: tuple[SegmentRange, ...]


@dataclass(frozen=True)
class QueuePartition(InputPartition):
    """Entries of queues of one store, and which of the records that they point to are wanted."""

    store: str
    selection: Selection
    queues: tuple[QueueRange, ...]
