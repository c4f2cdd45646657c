"""Arrivals: an operation that is due at fixed times, whether or not the one before it has ended.

A loop that waits for each answer before it asks again leaves out the requests that would have come while the
store stood still. One stall of 100 ms then shows as one slow operation, although at 1,000 a second 100 of
them would have waited (coordinated omission). So each operation here has a due time, and its latency is the
time from there to its end: what comes late because the one before it was slow is counted as late.

Time comes in as a `GeneratorClock`; spinning_clock.py has the real one.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Arrivals", "GeneratorClock", "Operation", "arrive", "rate_of"]

Operation = Callable[[int], object]
"""Called with the number of the operation, from 0."""


class GeneratorClock(Protocol):
    """Tells the time and waits."""

    def now_ns(self) -> int:
        """Nanoseconds since any moment; never less than before."""
        ...

    def wait_until(self, due_ns: int) -> object:
        """Return at `due_ns`, or at once if that is past."""
        ...


@dataclass(frozen=True)
class Arrivals:
    """latencies_ns: from due time to end, one for each operation. fell_behind: the generator gave up."""

    latencies_ns: "array[int]"
    fell_behind: bool


def arrive(
    operation: Operation,
    clock: GeneratorClock,
    *,
    rate: float,
    count: int,
    first: int = 0,
    give_up_ns: int = 10_000_000_000,
) -> Arrivals:
    """Do `count` operations, `rate` of them due in each second, numbered from `first`.

    An operation begins when it is due, or at the end of the one before it where that comes later. When one
    ends more than `give_up_ns` after it was due, no more are begun: the store cannot do that many.
    """
    now_ns, wait_until = clock.now_ns, clock.wait_until
    latencies_ns = array("q", bytes(8 * count))
    interval_ns = 1e9 / rate
    begun_ns = now_ns() + int(interval_ns)
    for number in range(count):
        due_ns = begun_ns + int(number * interval_ns)
        if now_ns() < due_ns:
            wait_until(due_ns)
        operation(first + number)
        latency_ns = now_ns() - due_ns
        latencies_ns[number] = latency_ns
        if latency_ns > give_up_ns:
            return Arrivals(latencies_ns[: number + 1], fell_behind=True)
    return Arrivals(latencies_ns, fell_behind=False)


def rate_of(
    operation: Operation, clock: GeneratorClock, *, seconds: float, first: int = 0
) -> tuple[int, float]:
    """How many operations one after the other end in `seconds`, and how many that are in each second."""
    now_ns = clock.now_ns
    begun_ns = now_ns()
    end_ns = begun_ns + int(seconds * 1e9)
    count, ended_ns = 0, begun_ns
    while ended_ns < end_ns:
        operation(first + count)
        count += 1
        ended_ns = now_ns()
    return count, count / (ended_ns - begun_ns) * 1e9
