"""What `mqstore demo` shows at its end: the hops, the checks, Spark's report, and further commands."""

import calendar
import itertools
from collections import Counter
from pathlib import Path
from shlex import quote

from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.demo.demo_directory import DemoDirectory
from mqstore.tools.demo.flights import FLIGHTS_TOPIC
from mqstore.tools.demo.flights_audit import Audit, Check
from mqstore.tools.demo.flights_run import DEAD_LETTER_TOPIC
from mqstore.tools.spark.jobs.flights_chart import ReportRow
from mqstore.tools.spark.jobs.flights_report import FlightsReport

__all__ = ["report_problems", "show_audit", "show_commands", "show_end"]


class HopRow(Row):
    """One station."""

    what: str
    topic: str
    messages: int


class CheckRow(Row):
    """One check."""

    what: str
    expected: int
    found: int
    passed: bool


class CarrierRow(Row):
    """One carrier over the year; `by_month` are its dead letters."""

    carrier: str
    flights: int
    retry_deliveries: int
    dead_letters: int
    by_month: dict[int, int]


class CarrierMonthRow(Row):
    """One carrier in one month."""

    carrier: str
    month: int
    flights: int
    retry_deliveries: int
    dead_letters: int


class ReportSummary(Row):
    """Spark's report."""

    flights: int
    retry_deliveries: int
    dead_letters: int
    lost: int
    duplicated: int
    matches_csv: bool
    chart: str
    carrier_months: list[CarrierMonthRow]


class DemoRow(Row):
    """The whole demo, for JSON. `report` is null where Spark was left out."""

    path: str
    passed: bool
    seconds: float
    repeated_deliveries: int
    hops: list[HopRow]
    checks: list[CheckRow]
    report: ReportSummary | None


_HOP_COLUMNS = (
    Column[HopRow]("hop", lambda row: row.what),
    Column[HopRow]("topic", lambda row: row.topic),
    Column[HopRow]("messages", lambda row: f"{row.messages:,}", "right"),
)
_CHECK_COLUMNS = (
    Column[CheckRow]("check", lambda row: row.what),
    Column[CheckRow]("expected", lambda row: f"{row.expected:,}", "right"),
    Column[CheckRow]("found", lambda row: f"{row.found:,}", "right"),
    Column[CheckRow]("", lambda row: "ok" if row.passed else "WRONG"),
)


def show_audit(output: Output, found: Audit) -> None:
    """The hops and the checks."""
    if output.is_json:
        return
    output.listing(_hop_rows(found), _HOP_COLUMNS, title="What happened at each hop")
    output.listing(_check_rows(found.checks), _CHECK_COLUMNS, title="Checked, flight by flight")
    if found.repeated_deliveries:
        output.text(
            f"{found.repeated_deliveries:,} retries were delivered a second time after a run was killed: the "
            "promise is at-least-once. The consumer recognised them, and nothing doubled further on."
        )


def _hop_rows(found: Audit) -> list[HopRow]:
    return [HopRow(what=hop.what, topic=hop.topic, messages=hop.messages) for hop in found.hops]


def _check_rows(checks: list[Check]) -> list[CheckRow]:
    return [
        CheckRow(what=check.what, expected=check.expected, found=check.found, passed=check.passed)
        for check in checks
    ]


def report_problems(report: FlightsReport, found: Audit) -> list[str]:
    """Where Spark's counts are not the CSV's. Retries that a kill repeated are expected, and no problem."""
    if found.repeated_deliveries and not report.lost and report.duplicated == found.repeated_deliveries:
        return [line for line in report.mismatches if " retries, not " not in line]
    problems = list(report.mismatches)
    for name, count in (("lost", report.lost), ("duplicated", report.duplicated)):
        if count:
            problems.append(f"{count:,} {name}")
    return problems


def show_end(
    output: Output,
    directory: DemoDirectory,
    found: Audit,
    report: FlightsReport | None,
    problems: list[str],
    seconds: float,
) -> None:
    """Spark's report, the verdict, and the commands."""
    passed = found.passed and not problems
    if output.is_json:
        output.facts(_demo_row(directory.path, found, report, passed, seconds))
        return
    if report is not None:
        _show_report(output, report, problems)
    verdict = "all checks passed" if passed else "A CHECK FAILED"
    output.text(f"\n{verdict}; {seconds:.1f} s")
    show_commands(output, directory.path)


def _demo_row(
    path: Path, found: Audit, report: FlightsReport | None, passed: bool, seconds: float
) -> DemoRow:
    return DemoRow(
        path=str(path),
        passed=passed,
        seconds=seconds,
        repeated_deliveries=found.repeated_deliveries,
        hops=_hop_rows(found),
        checks=_check_rows(found.checks),
        report=None if report is None else _summary(report),
    )


def _summary(report: FlightsReport) -> ReportSummary:
    return ReportSummary(
        flights=report.flights,
        retry_deliveries=report.retry_deliveries,
        dead_letters=report.dead_letters,
        lost=report.lost,
        duplicated=report.duplicated,
        matches_csv=report.matches_csv,
        chart=str(report.chart_path),
        carrier_months=[
            CarrierMonthRow(
                carrier=row.carrier,
                month=row.month,
                flights=row.flights,
                retry_deliveries=row.retry_deliveries,
                dead_letters=row.dead_letters,
            )
            for row in report.rows
        ],
    )


# -- Spark's report -------------------------------------------------------------------------------------


def _show_report(output: Output, report: FlightsReport, problems: list[str]) -> None:
    rows = [_carrier_row(carrier, list(months)) for carrier, months in _by_carrier(report)]
    output.listing(
        [*rows, _total(rows)], _carrier_columns(), title="Read by Spark: dead letters per carrier and month"
    )
    for problem in problems:
        output.text(f"WRONG: {problem}")
    if not problems:
        output.text("Spark's sums equal those of the CSV, per carrier and month.")
    output.text(f"Chart: {report.chart_path}")


def _by_carrier(report: FlightsReport) -> "itertools.groupby[str, ReportRow]":
    return itertools.groupby(report.rows, key=lambda row: row.carrier)


def _carrier_row(carrier: str, months: list[ReportRow]) -> CarrierRow:
    return CarrierRow(
        carrier=carrier,
        flights=sum(row.flights for row in months),
        retry_deliveries=sum(row.retry_deliveries for row in months),
        dead_letters=sum(row.dead_letters for row in months),
        by_month={row.month: row.dead_letters for row in months},
    )


def _total(rows: list[CarrierRow]) -> CarrierRow:
    by_month: Counter[int] = Counter()
    for row in rows:
        by_month.update(row.by_month)
    return CarrierRow(
        carrier="all",
        flights=sum(row.flights for row in rows),
        retry_deliveries=sum(row.retry_deliveries for row in rows),
        dead_letters=sum(row.dead_letters for row in rows),
        by_month=dict(by_month),
    )


def _carrier_columns() -> list[Column[CarrierRow]]:
    months = [_month_column(month) for month in range(1, 13)]
    return [
        Column("carrier", lambda row: row.carrier),
        Column("flights", lambda row: row.flights, "right"),
        Column("retries", lambda row: row.retry_deliveries, "right"),
        Column("dead", lambda row: row.dead_letters, "right"),
        *months,
    ]


def _month_column(month: int) -> Column[CarrierRow]:
    return Column(calendar.month_abbr[month], lambda row: row.by_month.get(month, ""), "right")


def show_commands(output: Output, path: Path) -> None:
    """Three commands that work on the store that the demo left."""
    store = quote(str(path))
    output.text("\nLook at the store that it left:")
    output.text(f"  mqstore topics {store} --queues")
    output.text(f"  mqstore get {store} {quote(DEAD_LETTER_TOPIC)} --count 5")
    output.text(f"  mqstore query {store} {FLIGHTS_TOPIC} --key UA-1545-2013-01-01")
