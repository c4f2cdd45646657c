"""Spark: the data source `mqstore`, the session of the jobs and the demo, and these jobs.

Importing this package imports no pyspark; `register` does.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_PUSHES_FILTERS = "spark.sql.python.filterPushdown.enabled"


def register(spark: "SparkSession") -> None:
    """Make `spark.read.format("mqstore")` available in a session.

    Filters are then pushed into it, and into other data sources in Python, which Spark does not do by
    default, unless the session says otherwise.
    """
    from mqstore.tools.spark.source import MqstoreDataSource

    spark.dataSource.register(MqstoreDataSource)
    if spark.conf.get(_PUSHES_FILTERS, None) is None:
        spark.conf.set(_PUSHES_FILTERS, "true")
