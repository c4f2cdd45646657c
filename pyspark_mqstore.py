"""By this module Spark finds the data source: `spark.read.format("mqstore")` works without `register`.

PySpark 4 imports every top-level module whose name begins with `pyspark_`, and registers its `DefaultSource`.
It does so in each session that asks for a data source written in Python, whichever that is. So this module
imports nothing of mqstore before a store is to be read.

An editable install does not show it to Spark, which lists the folders of `sys.path`: call `register` there.
"""

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Stands for `MqstoreDataSource` (tools/spark/source.py) until one is made."""

    def __new__(cls, options: MutableMapping[str, str]) -> DataSource:  # type: ignore[misc]  # of another class
        """A `MqstoreDataSource`, and none of this class."""
        from mqstore.tools.spark.source import MqstoreDataSource

        return MqstoreDataSource(options)

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return "mqstore"
