"""Arrivals: operations that are due at fixed times.

Goal: a store that stands still is late for everything that was due meanwhile, and the generator says so.
Method: a clock that is moved by hand, and operations that take a known time.
"""

from collections.abc import Callable

import pytest
from latency.arrivals import arrive, rate_of
from latency.latencies import Latencies

MS = 1_000_000


class HandMovedClock:
    """A clock that waits by moving on."""

    def __init__(self) -> None:
        self.time_ns = 0

    def now_ns(self) -> int:
        return self.time_ns

    def wait_until(self, due_ns: int) -> None:
        self.time_ns = max(self.time_ns, due_ns)


def operation_that_stalls(
    clock: HandMovedClock, *, at: int, stall_ns: int, usual_ns: int = 1_000
) -> Callable[[int], None]:
    def operation(number: int) -> None:
        clock.time_ns += stall_ns if number == at else usual_ns

    return operation


def test_a_stall_makes_all_late_that_were_due_meanwhile() -> None:
    """A stall of 100 ms at 1,000 a second shows as about 100 late operations: nothing is left out."""
    clock = HandMovedClock()
    stalls = operation_that_stalls(clock, at=500, stall_ns=100 * MS)

    arrivals = arrive(stalls, clock, rate=1_000, count=2_000)

    late = [number for number, ns in enumerate(arrivals.latencies_ns) if ns > MS / 2]
    assert late == list(range(500, 600))
    # The first waited for the whole stall, each next one for a millisecond less, but for the work in between.
    assert arrivals.latencies_ns[500] == 100 * MS
    assert arrivals.latencies_ns[550] == pytest.approx(50 * MS, rel=0.01)
    # One more is due while the 99 that waited are done, 1 us each.
    assert arrivals.latencies_ns[600] == 100_000
    assert set(arrivals.latencies_ns[601:]) == {1_000}


def test_a_loop_that_waits_would_have_hidden_it() -> None:
    """Of 2,000 operations, 5 % were late: p99 shows a stall that a closed loop would count once."""
    clock = HandMovedClock()
    arrivals = arrive(operation_that_stalls(clock, at=500, stall_ns=100 * MS), clock, rate=1_000, count=2_000)

    latencies = Latencies.of(arrivals.latencies_ns)

    assert latencies.at_us(50) == pytest.approx(1, rel=0.01)
    assert latencies.at_us(99) == pytest.approx(80_000, rel=0.02)
    assert latencies.at_us(100) == pytest.approx(100_000, rel=0.01)


@pytest.mark.parametrize("rate", [1, 3, 999, 33_333.3])
def test_due_times_do_not_drift(rate: float) -> None:
    """The last of a second's operations begins at the end of that second, whatever the interval is."""
    clock = HandMovedClock()
    begun: list[int] = []

    arrive(lambda number: begun.append(clock.time_ns), clock, rate=rate, count=int(rate) + 1)

    assert (begun[-1] - begun[0]) / 1e9 == pytest.approx(int(rate) / rate, rel=1e-6)


def test_a_store_that_is_too_slow_ends_the_run() -> None:
    """Who does 500 a second is 1 ms later with each of 1,000 a second, until the generator gives up."""
    clock = HandMovedClock()

    def operation(number: int) -> None:
        clock.time_ns += 2 * MS

    arrivals = arrive(operation, clock, rate=1_000, count=100_000, give_up_ns=1_000 * MS)

    assert arrivals.fell_behind
    assert len(arrivals.latencies_ns) == 1_000


def test_operations_are_numbered_from_the_first() -> None:
    """A run after a warm-up goes on counting: no key is put twice."""
    numbers: list[int] = []
    arrive(numbers.append, HandMovedClock(), rate=10, count=3, first=7)
    assert numbers == [7, 8, 9]


def test_the_rate_of_a_closed_loop() -> None:
    """Operations of a millisecond, one after the other, are 1,000 a second."""
    clock = HandMovedClock()

    def operation(number: int) -> None:
        clock.time_ns += MS

    assert rate_of(operation, clock, seconds=2) == (2_000, 1_000)
