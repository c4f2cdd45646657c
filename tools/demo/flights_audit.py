"""The audit of `mqstore demo`: what the store holds at each hop, compared with the flights file.

Every count is taken from the store's own queues, message by message and row by row, so a flight that is
missing at one hop and doubled at another cannot hide in a sum. A flight that has no arrival delay in the file
must be in the first retry, the second, the third and the dead letters, once in each, and no other flight in
any of them.

It only reads; every run gets the same result.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from mqstore.message_store import MessageStore
from mqstore.store.message import topic_names
from mqstore.store.message.stored_message import StoredMessage
from mqstore.tools.demo.flights import FLIGHTS_TOPIC, Arrival
from mqstore.tools.demo.flights_run import (
    DEAD_LETTER_TOPIC,
    MAX_RECONSUME_TIMES,
    RETRY_TOPIC,
    committed_count,
    messages_of,
)
from mqstore.tools.spark.jobs.flights_csv import count_flights

__all__ = ["Audit", "Check", "Hop", "audit"]

RowCounts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Hop:
    """One hop: how many messages it holds."""

    what: str
    topic: str
    messages: int


@dataclass(frozen=True)
class Check:
    """One thing that must hold."""

    what: str
    expected: int
    found: int

    @property
    def passed(self) -> bool:
        """Whether it holds."""
        return self.expected == self.found


@dataclass(frozen=True)
class Audit:
    """The hops in order, the checks, and how many deliveries came a second time after a kill."""

    hops: list[Hop]
    checks: list[Check]
    repeated_deliveries: int

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.passed for check in self.checks)


def audit(
    store: MessageStore, flights_file: Path, limit: int | None = None, *, was_killed: bool = False
) -> Audit:
    """Count everything. Takes a few seconds for all flights.

    `was_killed`: a run was killed, so deliveries may have been repeated.
    """
    in_file = count_flights(flights_file, limit)
    missing = np.zeros(in_file.rows, np.bool_)
    missing[list(in_file.missing_rows)] = True
    published = _count_rows(store, FLIGHTS_TOPIC, len(missing))
    dead = _count_rows(store, DEAD_LETTER_TOPIC, len(missing))
    waiting = _count_attempts(store, topic_names.SCHEDULE_TOPIC, len(missing))
    retried = _count_attempts(store, RETRY_TOPIC, len(missing))
    arrived = _arrived(store, published, waiting[0])
    once = np.minimum(retried, 1)
    repeated = int((retried - once).sum())
    return Audit(
        _hops(published, arrived, waiting, retried, dead),
        [
            Check("flights published", len(missing), int(published.sum())),
            Check("flights lost on publishing", 0, int((published == 0).sum())),
            Check("flights published twice", 0, int((published > 1).sum())),
            Check("consumed at first attempt", int((~missing).sum()), arrived),
            Check("retry deliveries", MAX_RECONSUME_TIMES * int(missing.sum()), int(once.sum())),
            Check("flights not retried exactly as often as they should", 0, _wrong_retries(once, missing)),
            Check("sent back twice for the same attempt", 0, int((waiting > 1).sum())),
            Check("delivered twice without a kill", 0, 0 if was_killed else repeated),
            Check("dead letters", int(missing.sum()), int(dead.sum())),
            Check("lost or doubled among the dead letters", 0, int((dead != missing).sum())),
        ],
        repeated_deliveries=repeated,
    )


def _arrived(store: MessageStore, published: RowCounts, sent_back: RowCounts) -> int:
    """Messages that the group has consumed and did not send back."""
    return min(committed_count(store, FLIGHTS_TOPIC), int(published.sum())) - int((sent_back > 0).sum())


def _wrong_retries(once: RowCounts, missing: npt.NDArray[np.bool_]) -> int:
    return int((once.sum(axis=0) != MAX_RECONSUME_TIMES * missing).sum())


def _hops(
    published: RowCounts, arrived: int, waiting: RowCounts, retried: RowCounts, dead: RowCounts
) -> list[Hop]:
    hops = [
        Hop("published", FLIGHTS_TOPIC, int(published.sum())),
        Hop("consumed at first attempt", FLIGHTS_TOPIC, arrived),
    ]
    for attempt in range(MAX_RECONSUME_TIMES):
        waited = f"sent back, delay level {3 + attempt}"
        hops.append(Hop(waited, topic_names.SCHEDULE_TOPIC, int(waiting[attempt].sum())))
        hops.append(Hop(f"retry {attempt + 1} delivered", RETRY_TOPIC, int(retried[attempt].sum())))
    return [*hops, Hop("given up", DEAD_LETTER_TOPIC, int(dead.sum()))]


def _count_rows(store: MessageStore, topic: str, row_count: int) -> RowCounts:
    """How often each row of the file is in a topic."""
    rows = np.fromiter((row for row, _ in _rows_of(store, topic)), np.int64)
    return np.bincount(rows, minlength=row_count)


def _count_attempts(store: MessageStore, topic: str, row_count: int) -> RowCounts:
    """As [attempt - 1][row]: how often each row is in a topic, by the number of its attempt."""
    counts = np.zeros((MAX_RECONSUME_TIMES, row_count), np.int64)
    for row, message in _rows_of(store, topic):
        counts[message.reconsume_times - 1, row] += 1
    return counts


def _rows_of(store: MessageStore, topic: str) -> Iterator[tuple[int, StoredMessage]]:
    decoder = msgspec.json.Decoder(Arrival)
    for message in messages_of(store, topic):
        yield decoder.decode(message.body_view).row, message
