"""The stream reader: where each batch of a stream begins and ends, and what its tasks read.

Spark asks for `latestOffset` again and again, writes what it is told into the checkpoint, and only then asks
for the `partitions` between two offsets, after a crash for the same two again. These are ranges of the log,
which does not change, so a batch has the same rows each time: with a sink that commits a batch once, each
message is there once. The plan and the decoder are those of batch reads (read/read_plan.py,
read/batch_reader.py). `commit` does nothing: the checkpoint is Spark's, and groups of consumers are not
touched.

Spark asks for one kind of limit (`getDefaultReadLimit`) and hands it back, so it carries only that there is
one: what the options say, of bytes and of messages, is applied together. Where a trigger has none
(`Trigger.Once`), Spark asks for everything, and gets it. Threads: one process on the driver plans, for one
query; others read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from mqstore.store.clock import Clock, SystemClock
from mqstore.tools.spark.options import OffsetOptions, ReadOptions
from mqstore.tools.spark.read.batch_reader import MqstoreReader
from mqstore.tools.spark.read.selection import QueueRange, Selection
from mqstore.tools.spark.stream.stream_offset import StreamOffset

__all__ = ["MqstoreStreamReader"]

_NO_END = 2**63 - 1


class MqstoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the columns of `schema` of the messages that `options` ask for, as they come."""

    def __init__(self, schema: StructType, options: ReadOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._path = Path(options.paths[0])
        self._reader = MqstoreReader(schema, options)
        self._clock = clock or SystemClock()
        self._target: int | None = None
        # When a batch was last let through; None: none was yet, and the first one does not wait.
        self._batch_ms: int | None = None
        self._known_end: int | None = None
        self._report: dict[str, Any] | None = None

    # -- offsets ----------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query begins. Raises StoreNotFound, SparkOptionIllegal, OffsetsMissing."""
        from mqstore.tools.spark.stream.stream_start import initial_offset

        return initial_offset(self._path, self._options).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """That there is a limit, if options name one; which, `latestOffset` takes from the options."""
        limits = self._options.trigger
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.min_offsets is not None:
            return ReadMinRows(limits.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the log ends now: this run ends there. Raises StoreNotFound."""
        from mqstore.tools.spark.stream.stream_start import initial_offset

        latest = replace(self._options, starting=OffsetOptions(word="latest"))
        self._target = initial_offset(self._path, latest).phy

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The end of the next batch; `start` if there is none now.

        Raises StreamOffsetIllegal, OtherStore, OffsetExpired, LogCutBack, SegmentMissing.
        """
        from mqstore.tools.spark.stream.batch_end import batch_end
        from mqstore.tools.spark.stream.store_identity import identity_at
        from mqstore.tools.spark.stream.stream_log import log_behind, log_end

        offset = StreamOffset.parse(start)
        behind = log_behind(self._path, self._options, offset)
        there = self._known_end = log_end(self._path, self._options, behind, self._known_end)
        end = there if self._target is None else min(there, max(self._target, behind.begin))
        if offset.begins is not None and offset.until > behind.begin:
            # Up to there the queues begin where the options said, and behind it they are read whole.
            end = min(end, offset.until)
        if not isinstance(limit, ReadAllAvailable):
            selection = self._selection(offset)
            if self._waits(behind, end, selection):
                end = behind.begin
            end = batch_end(behind, end, selection, self._options.trigger)
        self._report = {"phy": there, "store": offset.store, "backlogBytes": there - end}
        if end == offset.phy:
            return dict(start)
        return offset.moved_to(end, identity_at(self._path, end)).as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Where the log ends, and how many bytes of it are behind the batch that is next."""
        return self._report

    def _waits(self, behind: Any, end: int, selection: Selection) -> bool:
        """Whether there are too few messages for a batch, and they have not waited for too long."""
        from mqstore.tools.spark.stream.batch_end import has_messages

        limits = self._options.trigger
        # A run that ends at what is there now cannot wait for more.
        if limits.min_offsets is None or self._target is not None or end <= behind.begin:
            return False
        now_ms = self._clock.now_ms()
        is_due = self._batch_ms is None or now_ms - self._batch_ms >= limits.max_delay_ms
        if not is_due and not has_messages(behind, end, selection, limits.min_offsets):
            return True
        self._batch_ms = now_ms
        return False

    # -- a batch ----------------------------------------------------------------------------------------

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """What each task reads of the log between two offsets.

        Raises StreamOffsetIllegal, OtherStore, OffsetExpired, LogCutBack, SegmentMissing.
        """
        from mqstore.tools.spark.read.read_plan import plan_range
        from mqstore.tools.spark.segments.log_source import source_of
        from mqstore.tools.spark.stream.stream_log import LogCutBack, log_behind, log_end

        first, last = StreamOffset.parse(start), StreamOffset.parse(end)
        if first.phy >= last.phy:
            return []
        behind = log_behind(self._path, self._options, first)
        if self._known_end is None or self._known_end < last.phy:
            # A batch that was begun before a restart.
            self._known_end = log_end(self._path, self._options, behind)
            if self._known_end < last.phy:
                raise LogCutBack(self._path, last.phy, self._known_end)
        if behind.begin >= last.phy:
            # Retention has deleted all of it, which failOnDataLoss=false accepts.
            return []
        options = replace(self._options, assign=None, starting=OffsetOptions())
        selection = self._selection(first)
        source = source_of(str(self._path), options)
        return list(plan_range(source, options, selection, behind.begin, last.phy))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The wanted records of one partition, as a batch read has them."""
        return self._reader.read(partition)

    def _selection(self, offset: StreamOffset) -> Selection:
        """Which records of a batch that begins at `offset` are wanted."""
        bounds = None
        if offset.begins is not None:
            queues = [(topic, *one) for topic, numbers in offset.begins for one in numbers]
            bounds = tuple(QueueRange(topic, queue_id, begin, _NO_END) for topic, queue_id, begin in queues)
        elif self._options.assign is not None:
            queues = [(topic, queue_id, 0) for topic, ids in self._options.assign for queue_id in sorted(ids)]
            bounds = tuple(QueueRange(*queue, _NO_END) for queue in queues)
        return replace(Selection.of(self._options), begin_ms=offset.since_ms, queue_bounds=bounds)
