"""The Spark data source `mqstore`: the messages of a store as a DataFrame.

    from mqstore.tools.spark import register
    register(spark)
    spark.read.format("mqstore").option("path", directory).option("topic", "orders").load()

Options: options.py. Columns: schema.py. It reads the segment files of a live store or of a RocketMQ
store directory; it takes no lock, changes nothing, and needs no broker. Spark plans the segments of a
DataFrame when it is first used, and a query reads the newest of them as far as its writer has come:
`load()` again to see segments that were begun since.

The Python workers of the session must have mqstore installed (set PYSPARK_PYTHON to such a Python, or
use session.py).
"""

import sys

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from mqstore.tools.spark.options import ReadOptions
from mqstore.tools.spark.read.batch_reader import FilteringReader, MqstoreReader
from mqstore.tools.spark.schema import SCHEMA, check_schema

__all__ = ["MqstoreDataSource"]

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class MqstoreDataSource(DataSource):
    """Batch reads of a store's commit log."""

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return "mqstore"

    def schema(self) -> StructType:
        """All columns. Raises SparkOptionIllegal, so that a bad option fails at `load()`."""
        ReadOptions.parse(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> MqstoreReader:
        """A reader of the columns of `schema`. Raises SparkOptionIllegal and SchemaIllegal."""
        options = ReadOptions.parse(self.options)
        check_schema(schema)
        kind = FilteringReader if _PUSHDOWN_WORKER in sys.modules else MqstoreReader
        return kind(schema, options)
