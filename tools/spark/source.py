"""The Spark data source `mqstore`: the messages of a store as a DataFrame, and a DataFrame put into a store.

    from mqstore.tools.spark import register
    register(spark)
    spark.read.format("mqstore").option("path", directory).option("topic", "orders").load()

Options: options.py. Columns: schema.py. Both are told in docs/spark.md. It reads the segment files of a live
store or of a RocketMQ store directory; it takes no lock, changes nothing, and needs no broker. Spark plans a
DataFrame when it is first used; from then on it has the messages that were there by then: `load()` again to
see those that came since, or read them as they come: `spark.readStream.format("mqstore")`.

`df.write.format("mqstore")` and `writeStream` put rows into a store (sink/).

The Python workers of the session must have mqstore installed (set PYSPARK_PYTHON to such a Python, or
use session.py).
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from mqstore.tools.spark.options import ReadOptions, SparkOptionIllegal
from mqstore.tools.spark.read.batch_reader import MqstoreReader
from mqstore.tools.spark.schema import check_schema, schema_of

if TYPE_CHECKING:
    from mqstore.tools.spark.sink.sink_writers import MqstoreStreamWriter, MqstoreWriter
    from mqstore.tools.spark.stream.stream_reader import MqstoreStreamReader

__all__ = ["MqstoreDataSource"]


class MqstoreDataSource(DataSource):
    """Reads and writes of a store, in batches and streams. Who reads does not import what writes."""

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return "mqstore"

    def schema(self) -> StructType:
        """The columns. Raises SparkOptionIllegal and SchemaIllegal: a bad option fails at `load()`."""
        return schema_of(ReadOptions.parse(self.options))

    def reader(self, schema: StructType) -> MqstoreReader:
        """A reader of the columns of `schema`. Raises SparkOptionIllegal and SchemaIllegal."""
        options = ReadOptions.parse(self.options).for_batch()
        check_schema(schema, options)
        return MqstoreReader(schema, options)

    def streamReader(self, schema: StructType) -> "MqstoreStreamReader":  # noqa: N802 - Spark's name
        """A reader of a stream of the columns of `schema`. Raises SparkOptionIllegal and SchemaIllegal."""
        from mqstore.tools.spark.stream.stream_reader import MqstoreStreamReader

        options = ReadOptions.parse(self.options).for_stream()
        check_schema(schema, options)
        return MqstoreStreamReader(schema, options)

    def writer(self, schema: StructType, overwrite: bool) -> "MqstoreWriter":
        """A writer of rows of `schema`. Raises SparkOptionIllegal, SchemaIllegal, LockTimeout."""
        from mqstore.tools.spark.sink.sink_options import WriteOptions
        from mqstore.tools.spark.sink.sink_writers import MqstoreWriter

        if overwrite:
            raise SparkOptionIllegal(
                "mode 'overwrite' would delete a log: write with mode('append'), or to a new directory",
                key="mode",
                value="overwrite",
            )
        return MqstoreWriter(schema, WriteOptions.parse(self.options).for_batch())

    def streamWriter(self, schema: StructType, overwrite: bool) -> "MqstoreStreamWriter":  # noqa: N802
        """A writer of a stream of rows of `schema`. Raises as `writer`."""
        from mqstore.tools.spark.sink.sink_options import WriteOptions
        from mqstore.tools.spark.sink.sink_writers import MqstoreStreamWriter

        if overwrite:
            raise SparkOptionIllegal(
                "output mode 'complete' would write all rows again in each batch: use 'append' or 'update'",
                key="outputMode",
                value="complete",
            )
        return MqstoreStreamWriter(schema, WriteOptions.parse(self.options).for_stream())
