"""Delayed messages that come due together: how many a second, how late, and whether any is early.

One row: the time of one delivery, from the moment the first is due to the store time of the last copy. A
round puts messages of delay level 2 (five seconds) in batches, waits, and reads the copies: the lateness
of each is its copy's store time less its due time, both as the records state them. The store runs as it
comes, with its own delivery service. Where many come due in one moment, the last of them cannot be on
time: 100,000 at 50,000/s are two seconds late at the end. So the rate is that of 100,000, and the lateness
that of 5,000 due at once, and both are shown for both. Dishonest would be: to call the delivery by hand at
the right moment, or to leave the first or last of them out.
"""

import struct
import time
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from rivals.contestant import Round
from turns import ROUNDS, at_once, in_turn

from mqstore import Message, MessageStore

DELAY_MS = 5_000
BATCH = 1_000
NUMBER = struct.Struct(">I")
FILLING = bytes(124)


class DelayedRound:
    """Put, wait, read, reckon."""

    def __init__(self, directory: Path, messages: int) -> None:
        self._directory = directory
        self._messages = messages
        self.figures: dict[str, list[float]] = {"p50 lateness, ms": [], "p99 lateness, ms": [], "early": []}
        self._rounds = 0

    def __call__(self) -> Round:
        self._rounds += 1
        with MessageStore.open(self._directory / str(self._rounds)) as store:
            due = self._put(store)
            delivered = self._delivered(store)
        late = delivered - due
        self.figures["p50 lateness, ms"].append(float(np.percentile(late, 50)))
        self.figures["p99 lateness, ms"].append(float(np.percentile(late, 99)))
        self.figures["early"].append(float((late < 0).sum()))
        return Round(self._messages, max(1.0, delivered.max() - due.min()) / 1_000)

    def _put(self, store: MessageStore) -> np.ndarray:
        """The due time of each message, by its number."""
        stored = []
        for first in range(0, self._messages, BATCH):
            numbers = range(first, first + BATCH)
            stored += store.put_messages(
                [Message("orders", NUMBER.pack(number) + FILLING, delay_level=2) for number in numbers]
            )
        return np.array([put.store_timestamp for put in stored]) + DELAY_MS

    def _delivered(self, store: MessageStore) -> np.ndarray:
        """The store time of each copy, by its number. Nothing is read until the last has arrived."""
        while store.get_max_offset_in_queue("orders", 0) < self._messages:
            time.sleep(0.1)
        times = np.zeros(self._messages)
        offset = 0
        while offset < self._messages:
            got = store.get_message("billing", "orders", 0, offset)
            for message in got.messages:
                times[NUMBER.unpack_from(message.body_view)[0]] = message.store_timestamp
            offset = got.next_begin_offset
        assert times.all(), "each was delivered"
        return times


@pytest.mark.parametrize("messages", [5_000, 100_000])
def test_delivery(benchmark: BenchmarkFixture, tmp_path: Path, messages: int) -> None:
    delayed = DelayedRound(tmp_path, messages)
    title = f"delivery, {messages:,} due together, 128 B"
    in_turn(benchmark, title, {"mqstore": at_once(delayed)}, rounds=min(3, ROUNDS))
    rounds = min(3, ROUNDS)
    benchmark.extra_info["figures"] = {
        name: of_rounds[-rounds:] for name, of_rounds in delayed.figures.items()
    }
