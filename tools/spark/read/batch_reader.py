"""The reader: plans the partitions of a batch read and reads one of them as Arrow batches.

Spark pickles a reader and its partitions and reads in other processes, so files are opened in `read`
only. The reader that plans and the one that reads are different objects.

Filters: Spark refuses a reader that has `pushFilters` unless spark.sql.python.filterPushdown.enabled is
true (it is false by default), and does not say whether it is. source.py therefore hands out
`FilteringReader` only in the worker that Spark starts for pushing filters. A pushed filter only saves
decoding: Spark still checks every one of them, so it does not matter if our comparison differs from its.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, In, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mqstore.store.errors import BodyTooLarge, CorruptBody
from mqstore.tools.spark.options import ReadOptions
from mqstore.tools.spark.read.segment_plan import SegmentPartition, plan_segments
from mqstore.tools.spark.read.selection import Selection
from mqstore.tools.spark.schema import FIELDS

if TYPE_CHECKING:
    from mqstore.index.arrow.records import Records

__all__ = ["FilteringReader", "MqstoreReader"]


class MqstoreReader(DataSourceReader):
    """Reads the columns of `schema` of the records that `options` ask for."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._selection = Selection.of(options)

    def partitions(self) -> list[InputPartition]:
        """One partition per segment that holds records."""
        return list(plan_segments(self._options.path, fail_on_data_loss=self._options.fail_on_data_loss))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The wanted records of one segment, a batch for each 2 MiB piece of it."""
        if not isinstance(partition, SegmentPartition):  # Spark replaces an empty list of partitions
            return
        from mqstore.index.arrow.record_columns import build_column
        from mqstore.tools.spark.read.segment_reader import read_segment

        schema = to_arrow_schema(self._schema, timezone="UTC")
        for piece in read_segment(partition, fail_on_data_loss=self._options.fail_on_data_loss):
            records = self._selection.apply(piece)
            for shown in self._shown(records, schema) if len(records) else ():
                columns = [build_column(FIELDS[field.name], shown, field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _shown(self, records: "Records", schema: pa.Schema) -> Iterable["Records"]:
        """The records with bodies as the options want them, in one batch or several."""
        if not self._options.decompress:
            return (records,)
        from mqstore.index.arrow.sent_bodies import as_sent

        return _told_the_option(as_sent(records, schema, keep_broken=not self._options.fail_on_data_loss))


def _told_the_option(shown: Iterator["Records"]) -> Iterator["Records"]:
    """Add to an error what to do about it in Spark."""
    try:
        yield from shown
    except (CorruptBody, BodyTooLarge) as error:
        error.add_note(
            "With Spark, set option decompress to false to read all bodies as stored, or failOnDataLoss to "
            "false to read those as stored that cannot be decompressed."
        )
        raise


class FilteringReader(MqstoreReader):
    """A reader that lets Spark push `topic` and `tags` comparisons down."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Narrow the selection; every filter goes back to Spark."""
        for pushed in filters:
            self._push(pushed)
        return filters

    def _push(self, pushed: Filter) -> None:
        match pushed:
            case EqualTo(attribute=(column,), value=str(value)):
                self._narrow(column, frozenset([value]))
            case In(attribute=(column,), value=values) if all(isinstance(value, str) for value in values):
                self._narrow(column, frozenset(values))

    def _narrow(self, column: str, values: frozenset[str]) -> None:
        selection = self._selection
        if column == "topic":
            topics = values if selection.topics is None else selection.topics & values
            self._selection = replace(selection, topics=topics)
        elif column == "tags":
            tags = values if selection.tags is None else selection.tags & values
            self._selection = replace(selection, tags=tags)
