"""The reader: plans the partitions of a batch read and reads one of them as Arrow batches.

Spark pickles a reader and its partitions and reads in other processes, so files are opened in `read`
only. The reader that plans and the one that reads are different objects.

Spark's filters are not pushed into it: Spark 4.3 keeps what a filter left of a DataFrame for later queries on
the same DataFrame, which then miss rows (docs/decisions/0023-filters-are-not-pushed.md).
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mqstore.store.errors import BodyTooLarge, CorruptBody
from mqstore.tools.spark.options import ReadMode, ReadOptions
from mqstore.tools.spark.read.partitions import LogPartition, QueuePartition
from mqstore.tools.spark.read.selection import Selection
from mqstore.tools.spark.schema import CORRUPT_RECORD, FIELDS, STORE
from mqstore.tools.spark.worker_heap import freeze_imports

if TYPE_CHECKING:
    from mqstore.index.arrow.records import Records
    from mqstore.tools.spark.segments.segment_reader import PassedOver

__all__ = ["MqstoreReader"]

_logger = logging.getLogger(__name__)

_GATHERED_BYTES = 512 << 10


class MqstoreReader(DataSourceReader):
    """Reads the columns of `schema` of the records that `options` ask for."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._selection = Selection.of(options)

    def partitions(self) -> list[InputPartition]:
        """What each task reads; decided here once, with the end of the log."""
        from mqstore.tools.spark.read.read_plan import plan_read

        planned: list[InputPartition] = list(plan_read(self._options, self._selection))
        freeze_imports()
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The wanted records of one partition: small batches at first, then of half a MiB and more."""
        yield from _gathered(self._batches(partition))
        freeze_imports()

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A batch for each piece of 4 MiB of the log."""
        if not isinstance(partition, LogPartition | QueuePartition):
            # Spark replaces an empty list of partitions by one without a value.
            return
        from mqstore.tools.spark.segments.segment_reader import PassedOver

        schema = to_arrow_schema(self._schema, timezone="UTC")
        passed_bytes = 0
        for piece in self._pieces(partition):
            if isinstance(piece, PassedOver):
                passed_bytes += piece.end - piece.begin
                _logger.warning("passed over: %s", piece)
                if CORRUPT_RECORD in schema.names and self._options.mode is ReadMode.PERMISSIVE:
                    yield _tell(piece, partition.store, schema)
                continue
            records = partition.selection.apply(piece)
            for shown in self._shown(records, schema) if len(records) else ():
                yield _batch(shown, partition.store, schema)
        if passed_bytes:
            _logger.warning("%s: passed over %d bytes in all of this task", partition.store, passed_bytes)

    def _pieces(self, partition: LogPartition | QueuePartition) -> Iterator["Records | PassedOver"]:
        if isinstance(partition, LogPartition):
            return self._through_log(partition)
        return self._through_queues(partition)

    def _through_log(self, partition: LogPartition) -> Iterator["Records | PassedOver"]:
        from mqstore.tools.spark.segments.segment_files import SegmentMissing
        from mqstore.tools.spark.segments.segment_reader import PassedOver, read_range

        for one in partition.ranges:
            try:
                yield from read_range(
                    one.segment,
                    one.begin,
                    one.end,
                    check_crc=self._options.check_crc,
                    passes_over=self._passes_over,
                )
            except SegmentMissing:
                if self._options.fail_on_data_loss:
                    raise
                yield PassedOver(one.segment.path, one.begin, one.end, "the segment is gone")

    def _through_queues(self, partition: QueuePartition) -> Iterator["Records | PassedOver"]:
        from mqstore.tools.spark.read.queue_reader import QueueReader
        from mqstore.tools.spark.read.read_plan import open_store

        with open_store(Path(partition.store)) as parts:
            reader = QueueReader(
                parts,
                check_crc=self._options.check_crc,
                passes_over=self._passes_over,
                skips_missing=not self._options.fail_on_data_loss,
            )
            with closing(reader):
                yield from reader.read(partition.queues)

    @property
    def _passes_over(self) -> bool:
        return self._options.mode is not ReadMode.FAILFAST

    def _shown(self, records: "Records", schema: pa.Schema) -> Iterable["Records"]:
        """The records with bodies as the options want them, in one batch or several."""
        if not self._options.decompress:
            return (records,)
        from mqstore.index.arrow.sent_bodies import as_sent

        return _told_the_option(as_sent(records, schema, keep_broken=self._passes_over))


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches together: each costs Spark about as much as a thousand rows of one column.

    The first goes alone, and more and more of those behind it go together: a query that wants some rows only
    does not wait for others. Large ones are not copied.
    """
    small: list[pa.RecordBatch] = []
    small_bytes, least_bytes = 0, 1
    for batch in batches:
        size_bytes = batch.get_total_buffer_size()  # `nbytes` looks at each column, and takes 40 us
        if size_bytes >= _GATHERED_BYTES:
            if small:
                yield _together(small)
                small, small_bytes = [], 0
            yield batch
            continue
        small.append(batch)
        small_bytes += size_bytes
        if small_bytes >= least_bytes:
            yield _together(small)
            least_bytes = min(least_bytes + small_bytes, _GATHERED_BYTES)
            small, small_bytes = [], 0
    if small:
        yield _together(small)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def _batch(records: "Records", store: str, schema: pa.Schema) -> pa.RecordBatch:
    from mqstore.index.arrow.record_columns import build_column, repeated_text

    columns = []
    for field in schema:
        if field.name == STORE:
            columns.append(repeated_text(store, len(records)))
        elif field.name == CORRUPT_RECORD:
            columns.append(pa.nulls(len(records), pa.string()))
        else:
            columns.append(build_column(FIELDS[field.name], records, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _tell(passed: "PassedOver", store: str, schema: pa.Schema) -> pa.RecordBatch:
    """One row that tells of damage: where it is, what it is, and nothing else."""
    values = {
        CORRUPT_RECORD: str(passed),
        STORE: store,
        "physicalOffset": passed.begin if passed.begin >= 0 else None,
    }
    columns = [pa.array([values.get(field.name)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _told_the_option(shown: Iterator["Records"]) -> Iterator["Records"]:
    """Add to an error what to do about it in Spark."""
    try:
        yield from shown
    except (CorruptBody, BodyTooLarge) as error:
        error.add_note(
            "With Spark, set option decompress to false to read all bodies as stored, or mode to PERMISSIVE "
            "to read those as stored that cannot be decompressed."
        )
        raise
