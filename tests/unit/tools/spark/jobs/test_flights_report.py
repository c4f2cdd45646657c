"""Goal: the report calls good only what equals the CSV, and says what does not.

Method: a small CSV and findings made by hand, changed one at a time; Spark's part is tested in tests/spark.
"""

import zipfile
from collections import Counter
from pathlib import Path

import pytest

from mqstore.tools.spark.jobs.flights_chart import ReportRow, draw_chart
from mqstore.tools.spark.jobs.flights_csv import (
    FlightsCounted,
    carrier_names,
    count_flights,
    flights_csv_path,
)
from mqstore.tools.spark.jobs.flights_report import FlightsReport, _Found, _report

CSV = """year,month,day,carrier,arr_delay
2013,1,1,UA,11
2013,1,1,UA,NA
2013,2,1,AA,
2013,2,1,AA,-3
"""


@pytest.fixture
def csv_path(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", CSV)
    return path


def _found(counted: FlightsCounted) -> _Found:
    """What Spark finds when all went well."""
    messages = {
        "flights": Counter(counted.flights),
        "%RETRY%arrivals": Counter({key: 3 * count for key, count in counted.missing.items()}),
        "%DLQ%arrivals": Counter(counted.missing),
    }
    distinct = Counter({topic: count.total() for topic, count in messages.items()})
    return _Found(messages, distinct, set(counted.missing_rows))


def _report_of(found: _Found, counted: FlightsCounted) -> FlightsReport:
    return _report(found, counted, Path("chart.png"))


def test_the_csv_is_counted(csv_path: Path) -> None:
    """NA and an empty field are no arrival; rows are numbered from 0."""
    counted = count_flights(csv_path)
    assert counted == FlightsCounted(
        rows=4,
        flights=Counter({("UA", 1): 2, ("AA", 2): 2}),
        missing=Counter({("UA", 1): 1, ("AA", 2): 1}),
        missing_rows={1, 2},
    )
    assert count_flights(csv_path, limit=2).flights == {("UA", 1): 2}


@pytest.mark.slow
def test_the_real_flights_are_there() -> None:
    """The numbers that the demo is measured by."""
    counted = count_flights(flights_csv_path())
    assert (counted.rows, counted.missing.total(), len(counted.missing_rows)) == (336_776, 9_430, 9_430)
    assert carrier_names(flights_csv_path())["UA"] == "United Air Lines Inc."


def test_equal_sums_are_good(csv_path: Path) -> None:
    """Rows come by carrier and month."""
    counted = count_flights(csv_path)
    report = _report_of(_found(counted), counted)
    assert report.rows == (ReportRow("AA", 2, 2, 3, 1, 1), ReportRow("UA", 1, 2, 3, 1, 1))
    assert (report.flights, report.retry_deliveries, report.dead_letters) == (4, 6, 2)
    assert (report.lost, report.duplicated, report.mismatches) == (0, 0, ())
    assert report.matches_csv


def test_a_lost_flight_is_seen(csv_path: Path) -> None:
    """By its carrier and month, and over all."""
    counted = count_flights(csv_path)
    found = _found(counted)
    found.messages["flights"]["UA", 1] -= 1
    found.distinct["flights"] -= 1
    report = _report_of(found, counted)
    assert report.lost == 1
    assert report.mismatches == ("UA in month 1: 1 flights, 2 in the CSV",)
    assert not report.matches_csv


def test_a_duplicate_is_seen_even_beside_a_loss(csv_path: Path) -> None:
    """When the sums are right by chance."""
    counted = count_flights(csv_path)
    found = _found(counted)
    found.distinct["flights"] -= 1
    report = _report_of(found, counted)
    assert (report.lost, report.duplicated, report.mismatches) == (1, 1, ())
    assert not report.matches_csv


def test_a_wrong_dead_letter_is_seen(csv_path: Path) -> None:
    """A flight that arrived must not be one, and one that did not must."""
    counted = count_flights(csv_path)
    found = _found(counted)
    found.dead_rows.remove(1)
    found.dead_rows.add(0)
    report = _report_of(found, counted)
    assert report.lost == 1
    assert report.mismatches == ("1 dead letters are flights that arrived, such as row 0 of the CSV",)


def test_a_missing_retry_is_seen(csv_path: Path) -> None:
    """Three for each flight that fails."""
    counted = count_flights(csv_path)
    found = _found(counted)
    found.messages["%RETRY%arrivals"]["AA", 2] = 2
    found.distinct["%RETRY%arrivals"] -= 1
    assert _report_of(found, counted).mismatches == (
        "AA in month 2: 2 retries, not 3 for each of 1 flights without arrival",
    )


@pytest.mark.slow
def test_the_chart_is_a_png(tmp_path: Path) -> None:
    """In a directory that is made for it; an unknown carrier or month does no harm."""
    rows = [ReportRow("UA", 1, 10, 3, 1, 1), ReportRow("AA", 2, 5, 0, 0, 0), ReportRow("?", 0, 1, 0, 0, 0)]
    chart_path = tmp_path / "charts" / "flights.png"
    draw_chart(rows, {"UA": "United Air Lines Inc."}, chart_path)
    assert chart_path.read_bytes().startswith(b"\x89PNG")
    assert chart_path.stat().st_size > 20_000
