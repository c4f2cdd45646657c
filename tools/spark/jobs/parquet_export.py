"""The Parquet export: messages as files by topic and date, written by all tasks at once.

    <target>/topic=orders/date=2026-11-22/part-....parquet
    <target>/topic=%25RETRY%25billing/date=2026-11-23/part-....parquet

The columns are those of the data source, and `date`, the day of the store time in UTC, whatever the time
zone of the session. `topic` and `date` are in the path and not in the files, as Hive has it. Spark takes a
topic that looks like a number for one, unless its spark.sql.sources.partitionColumnTypeInference.enabled is
false.
The target is any path that Spark can write to. It appears with its first task, and `_SUCCESS` in it with the
last: without that file the export is not whole.

For one machine without Spark: tools/export/store_export.py.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mqstore.store.errors import ConfigIllegal
from mqstore.store_layout import user_path
from mqstore.tools.spark.jobs.job_errors import TargetTaken
from mqstore.tools.spark.jobs.job_session import ANY_CORES, job_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["COMPRESSIONS", "ExportCount", "export_parquet"]

COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "none")
"""The first is the default."""
_DAY_MS: Final = 86_400_000
_FIRST_DAY: Final = (date.min - date(1970, 1, 1)).days
_LAST_DAY: Final = (date.max - date(1970, 1, 1)).days
_OF_AN_EXPORT: Final = ("topic=", "_SUCCESS", "_temporary", "._SUCCESS")


class ExportCount(NamedTuple):
    """Rows that were written of one topic."""

    topic: str
    rows: int


def export_parquet(
    stores: Sequence[str | Path],
    target: str,
    *,
    topics: Sequence[str] = (),
    begin_ms: int | None = None,
    end_ms: int | None = None,
    overwrite: bool = False,
    compression: str = COMPRESSIONS[0],
    options: Mapping[str, str] | None = None,
    spark: "SparkSession | None" = None,
    master: str = ANY_CORES,
    settings: Mapping[str, str] | None = None,
) -> tuple[ExportCount, ...]:
    """Write messages of `stores` to `target`; returns how many of each topic.

    topics: without any, every record of the log. begin_ms, end_ms: stored at or after, and before, epoch ms.
    options: further ones of the data source. Raises TargetTaken unless `overwrite`, ConfigIllegal,
    StoreNotFound, LogDamaged, SparkJobFailed, SparkNotInstalled, JavaNotFound.
    """
    target = str(user_path(target)) if target.startswith("~") else target
    if compression not in COMPRESSIONS:
        raise ConfigIllegal(
            f"there is no compression {compression!r}: there are {', '.join(COMPRESSIONS)}",
            key="compression",
            value=compression,
        )
    chosen = dict(options or {}) | {"paths": json.dumps([str(store) for store in stores])}
    if topics:
        chosen["topic"] = ",".join(topics)
    if begin_ms is not None:
        chosen["startingTimestamp"] = str(begin_ms)
    if end_ms is not None:
        chosen["endingTimestamp"] = str(end_ms)
    with job_session(spark, master, settings) as session:
        _refuse_taken(session, target, overwrite=overwrite)
        writer = _with_date(session, chosen).write.partitionBy("topic", "date").mode("overwrite")
        # Whatever the session says of dates that are not among the rows: the whole target is replaced.
        writer.option("partitionOverwriteMode", "static").option("compression", compression).parquet(target)
        return _count(session, target)


def _with_date(session: "SparkSession", options: Mapping[str, str]) -> "DataFrame":
    """The rows, and the day of each in UTC."""
    from pyspark.sql import functions as sql

    from mqstore.tools.spark.schema import SCHEMA, STORE

    names = [*SCHEMA.fieldNames(), *([STORE] if len(json.loads(options["paths"])) > 1 else ())]
    columns = ", ".join((*names, "storeTimestampMs"))
    frame = session.read.format("mqstore").options(**options).option("columns", columns).load()
    day = sql.floor(frame.storeTimestampMs / _DAY_MS)
    # A store time that no calendar has is damaged: it gets Hive's null.
    known_day = sql.when(day.between(_FIRST_DAY, _LAST_DAY), day.cast("int"))
    return frame.withColumn("date", sql.date_from_unix_date(known_day)).drop("storeTimestampMs")


def _refuse_taken(session: "SparkSession", target: str, *, overwrite: bool) -> None:
    """Raise TargetTaken unless nothing is there, or an earlier export that may be replaced."""
    names = _names_in(session, target)
    if names is None:
        return
    if not overwrite:
        raise TargetTaken(target, "give another path, or --force (overwrite=True) to replace it")
    others = [name for name in names if not name.startswith(_OF_AN_EXPORT)]
    if others:
        raise TargetTaken(target, f"it holds {others[0]!r}, which no export wrote, and is not replaced")


def _names_in(session: "SparkSession", target: str) -> list[str] | None:
    """What lies in the directory, its own name if it is a file; None if there is nothing of that name."""
    java: Any = session._jvm
    path = java.org.apache.hadoop.fs.Path(target)
    file_system = path.getFileSystem(session._jsc.hadoopConfiguration())
    if not file_system.exists(path):
        return None
    return [entry.getPath().getName() for entry in file_system.listStatus(path)]


def _count(session: "SparkSession", target: str) -> tuple[ExportCount, ...]:
    """Rows of each topic, as the files that were written say."""
    written = session.read.schema("topic STRING, date DATE, queueOffset LONG").parquet(target)
    rows = written.groupBy("topic").count().orderBy("topic").collect()
    return tuple(ExportCount(row["topic"], row["count"]) for row in rows)
