"""Flights and their messages: types of the fields, missing values, keys, queues."""

import zipfile
from pathlib import Path

import msgspec
import pytest

from mqstore.tools.demo.flights import Arrival, Flight, flight_key, flight_message, read_flights
from mqstore.tools.spark.jobs.flights_csv import flights_csv_path


def test_the_first_flight() -> None:
    """Numbers are numbers, text is text, and the row is numbered from 0."""
    first = next(read_flights(flights_csv_path()))
    assert first == Flight(
        0, 2013, 1, 1, 517, 515, 2, 830, 819, 11, "UA", 1545, "N14228", "EWR", "IAH", 227, 1400, 5, 15,
        "2013-01-01T10:00:00Z",
    )  # fmt: skip


def test_missing_values_are_none() -> None:
    """NA in the file is None, in text and in numbers, and never the text NA."""
    flights = list(read_flights(flights_csv_path(), 5_000))
    assert sum(flight.arr_delay is None for flight in flights) == 50
    assert sum(flight.tailnum is None for flight in flights) > 0
    assert not any("NA" in (flight.tailnum, flight.carrier) for flight in flights)


def test_the_message_of_a_flight() -> None:
    """Tag, keys, queue and body; the consumer reads back row and arrival delay."""
    flight = list(read_flights(flights_csv_path(), 6))[5]
    message = flight_message(flight, msgspec.json.Encoder())
    assert (message.topic, message.queue_id, message.tags) == ("flights", 1, flight.origin)
    assert message.keys == (flight.tailnum, flight_key(flight))
    assert msgspec.json.decode(message.body, type=Arrival) == Arrival(5, flight.arr_delay)
    assert msgspec.json.decode(message.body)["row"] == 5


def test_a_flight_without_a_tail_number_has_one_key() -> None:
    """A missing tail number is no key."""
    flight = next(flight for flight in read_flights(flights_csv_path()) if flight.tailnum is None)
    assert flight_message(flight, msgspec.json.Encoder()).keys == (flight_key(flight),)


def test_another_file_is_refused(tmp_path: Path) -> None:
    """Columns that are not those of the flights end the reading at once."""
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", "a,b\n1,2\n")
    with pytest.raises(ValueError, match="has columns"):
        next(read_flights(path))
