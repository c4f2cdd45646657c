"""Spark: the data source `mqstore`, the session of the jobs and the demo, and these jobs.

Importing this package imports no pyspark; `register` does.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Make `spark.read.format("mqstore")` available in a session."""
    from mqstore.tools.spark.source import MqstoreDataSource

    spark.dataSource.register(MqstoreDataSource)
