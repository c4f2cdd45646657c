"""The retry report: the retry tables of some logs as rows, and as one page.

    report = make_report(["data"])
    report.tables["attempts"]
    Path("report.html").write_text(report.page())

The DataFrames themselves: retry_tables.py. What each number means: definitions.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqstore.tools.spark.jobs.job_session import ANY_CORES, job_session
from mqstore.tools.spark.report.definitions import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RetryReport", "make_report"]


@dataclass(frozen=True, kw_only=True)
class RetryReport:
    """The rows of each table, by the names of definitions.py, each a dictionary by column."""

    stores: tuple[str, ...]
    tables: Mapping[str, Sequence[Mapping[str, Any]]]

    def page(self) -> str:
        """One HTML page with charts, which loads nothing. Raises ChartsNotInstalled."""
        from mqstore.tools.spark.report.report_charts import require_charts
        from mqstore.tools.spark.report.report_page import report_page

        require_charts()
        return report_page(self.tables, self.stores)


def make_report(
    stores: Sequence[str | Path],
    *,
    spark: "SparkSession | None" = None,
    master: str = ANY_CORES,
    settings: Mapping[str, str] | None = None,
) -> RetryReport:
    """Read the logs of `stores`, and count. Without `spark` a session is started.

    Raises StoreNotFound, LogDamaged, SparkJobFailed, SparkNotInstalled, JavaNotFound.
    """
    from mqstore.tools.spark.report.retry_tables import retry_tables

    with job_session(spark, master, settings) as session:
        tables = retry_tables(session, stores)
        try:
            rows = {
                table.name: [row.asDict() for row in getattr(tables, table.name).collect()]
                for table in TABLES
            }
        finally:
            tables.unpersist()
    return RetryReport(stores=tuple(map(str, stores)), tables=rows)
