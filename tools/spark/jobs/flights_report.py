"""The flights report: what Spark finds in the segments that the demo wrote, against the CSV they came from.

Topics: `flights` (every row of the CSV as JSON), `%RETRY%arrivals` (deliveries of flights that failed),
`%DLQ%arrivals` (those that failed to the end). Per carrier and month there must be as many flights as in
the CSV, a dead letter for each flight without arrival delay, and three retries for each of these; over
all carriers and months, every row number must be there once.

Importing this module (the command line does) imports no Spark; running the report does.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mqstore.tools.spark.jobs.flights_chart import ReportRow, draw_chart
from mqstore.tools.spark.jobs.flights_csv import CarrierMonth, FlightsCounted, carrier_names, count_flights

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FlightsReport", "run_report"]

FLIGHTS_TOPIC = "flights"
RETRY_TOPIC = "%RETRY%arrivals"
DEAD_LETTER_TOPIC = "%DLQ%arrivals"
_TOPICS = (FLIGHTS_TOPIC, RETRY_TOPIC, DEAD_LETTER_TOPIC)
RETRIES_PER_MISSING_FLIGHT = 3


@dataclass(frozen=True, kw_only=True)
class FlightsReport:
    """What was found. `mismatches`: one sentence for each sum that differs from the CSV's."""

    rows: tuple[ReportRow, ...]
    lost: int
    duplicated: int
    mismatches: tuple[str, ...]
    chart_path: Path

    @property
    def flights(self) -> int:
        """Messages in `flights`."""
        return sum(row.flights for row in self.rows)

    @property
    def retry_deliveries(self) -> int:
        """Messages in `%RETRY%arrivals`."""
        return sum(row.retry_deliveries for row in self.rows)

    @property
    def dead_letters(self) -> int:
        """Messages in `%DLQ%arrivals`."""
        return sum(row.dead_letters for row in self.rows)

    @property
    def matches_csv(self) -> bool:
        """Whether every sum equals the CSV's, and nothing was lost or duplicated."""
        return not self.mismatches and self.lost == 0 and self.duplicated == 0


def run_report(
    store_path: Path,
    csv_path: Path,
    chart_path: Path,
    on_progress: Callable[[str], None] = lambda _: None,
    *,
    limit: int | None = None,
    spark: "SparkSession | None" = None,
) -> FlightsReport:
    """Read the store with Spark, check it against the CSV, draw the chart.

    `on_progress` is called with a text before each step. `limit`: only that many rows of the CSV, the
    first ones, were published. Without `spark` a session is started and stopped again. Raises
    JavaNotFound, SparkNotInstalled and what reading raises; a wrong result is not an error: `matches_csv`
    is then false.
    """
    on_progress("counting the flights of the CSV")
    counted = count_flights(csv_path, limit)
    on_progress("starting Spark")
    with _session(spark) as session:
        on_progress("reading the segments with Spark")
        found = _find(session, store_path)
    on_progress("drawing the chart")
    report = _report(found, counted, chart_path)
    draw_chart(report.rows, carrier_names(csv_path), chart_path)
    return report


@contextmanager
def _session(given: "SparkSession | None") -> "Iterator[SparkSession]":
    from mqstore.tools.spark.session import local_session

    if given is not None:
        yield given
        return
    spark = local_session()
    try:
        yield spark
    finally:
        spark.stop()


class _Found(NamedTuple):
    """What Spark found: messages per topic, carrier and month; how many of them are not alike; dead rows."""

    messages: dict[str, Counter[CarrierMonth]]
    distinct: Counter[str]
    dead_rows: set[int]


def _find(spark: "SparkSession", store_path: Path) -> _Found:
    """Two queries: all three topics in groups, and the row numbers of the dead letters."""
    from pyspark.sql import functions as sql

    found = _Found({topic: Counter() for topic in _TOPICS}, Counter(), set())
    groups = _deliveries(spark, store_path, _TOPICS).groupBy("topic", "carrier", "month")
    for group in groups.agg(
        sql.count("*").alias("messages"), sql.count_distinct("row", "attempt").alias("distinct")
    ).collect():
        found.messages[group.topic][group.carrier, group.month] = group.messages
        found.distinct[group.topic] += group.distinct
    dead_letters = _deliveries(spark, store_path, (DEAD_LETTER_TOPIC,))
    found.dead_rows.update(message.row for message in dead_letters.select("row").collect())
    return found


def _deliveries(spark: "SparkSession", store_path: Path, topics: tuple[str, ...]) -> "DataFrame":
    """The messages of some topics: topic, row, carrier, month, attempt.

    `attempt` tells the retries of one flight apart. In the other topics a flight may appear only once.
    """
    from pyspark.sql import functions as sql

    stored = (
        spark.read.format("mqstore")
        .schema("topic STRING, body BINARY, reconsumeTimes INT")
        .option("path", str(store_path))
        .option("topic", ",".join(topics))
        .load()
    )
    parsed = stored.select(  # parsed in a step of its own, or Spark parses once for each field
        "topic",
        sql.from_json(stored.body.cast("string"), "row INT, carrier STRING, month INT").alias("flight"),
        sql.when(stored.topic == RETRY_TOPIC, stored.reconsumeTimes).otherwise(0).alias("attempt"),
    )
    return parsed.select(
        "topic",
        parsed.flight["row"].alias("row"),
        sql.coalesce(parsed.flight["carrier"], sql.lit("?")).alias("carrier"),
        sql.coalesce(parsed.flight["month"], sql.lit(0)).alias("month"),
        "attempt",
    )


def _report(found: _Found, counted: FlightsCounted, chart_path: Path) -> FlightsReport:
    messages = sum(count.total() for count in found.messages.values())
    not_published = counted.rows - found.distinct[FLIGHTS_TOPIC]
    not_dead = counted.missing_rows - found.dead_rows
    return FlightsReport(
        rows=_rows(found, counted),
        lost=max(not_published, 0) + len(not_dead),
        duplicated=messages - found.distinct.total(),
        mismatches=tuple(_mismatches(found, counted)),
        chart_path=chart_path,
    )


def _rows(found: _Found, counted: FlightsCounted) -> tuple[ReportRow, ...]:
    keys = set(counted.flights).union(*found.messages.values())
    return tuple(
        ReportRow(
            carrier=key[0],
            month=key[1],
            flights=found.messages[FLIGHTS_TOPIC][key],
            retry_deliveries=found.messages[RETRY_TOPIC][key],
            dead_letters=found.messages[DEAD_LETTER_TOPIC][key],
            missing=counted.missing[key],
        )
        for key in sorted(keys)
    )


def _mismatches(found: _Found, counted: FlightsCounted) -> Iterator[str]:
    for row in _rows(found, counted):
        in_csv = counted.flights[row.carrier, row.month]
        where = f"{row.carrier} in month {row.month}"
        if row.flights != in_csv:
            yield f"{where}: {row.flights} flights, {in_csv} in the CSV"
        if row.dead_letters != row.missing:
            yield f"{where}: {row.dead_letters} dead letters, {row.missing} flights without arrival"
        if row.retry_deliveries != RETRIES_PER_MISSING_FLIGHT * row.missing:
            yield (
                f"{where}: {row.retry_deliveries} retries, not {RETRIES_PER_MISSING_FLIGHT} for each "
                f"of {row.missing} flights without arrival"
            )
    arrived = found.dead_rows - counted.missing_rows
    if arrived:
        yield f"{len(arrived)} dead letters are flights that arrived, such as row {min(arrived)} of the CSV"
