"""Spark: the data source `mqstore`, the session of the jobs and the demo, and these jobs.

Importing this package imports no pyspark; `register` and the jobs do. A job is loaded when its name is first
used, for Spark's workers import the package and need none.
"""

from typing import TYPE_CHECKING

from mqstore.loading.lazy_names import lazy_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mqstore.tools.spark.jobs.parquet_export import export_parquet
    from mqstore.tools.spark.jobs.segment_check import check_segments
    from mqstore.tools.spark.rebuild.queue_rebuild import rebuild_queues
    from mqstore.tools.spark.report.retry_report import make_report

__all__ = ["check_segments", "export_parquet", "make_report", "rebuild_queues", "register"]


def register(spark: "SparkSession") -> None:
    """Make `spark.read.format("mqstore")` available in a session."""
    from mqstore.tools.spark.source import MqstoreDataSource

    spark.dataSource.register(MqstoreDataSource)


__getattr__ = lazy_names(
    __name__,
    {
        "check_segments": "mqstore.tools.spark.jobs.segment_check",
        "export_parquet": "mqstore.tools.spark.jobs.parquet_export",
        "make_report": "mqstore.tools.spark.report.retry_report",
        "rebuild_queues": "mqstore.tools.spark.rebuild.queue_rebuild",
    },
)
