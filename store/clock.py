"""The clock: the one place that asks the machine what time it is.

Every part that needs the time takes a `Clock`; tests hand in one that they advance by hand.
It does not measure durations for benchmarks and does not sleep.
Threads: `now_ms` may be called from any thread.
"""

import time
from typing import Protocol

__all__ = ["END_OF_TIME_MS", "Clock", "SystemClock"]

END_OF_TIME_MS = 2**63 - 1
"""A time that no clock reaches: it stands for no upper bound. The greatest time that can be stored."""


class Clock(Protocol):
    """Something that tells wall-clock time in epoch milliseconds."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z; may step back when the system clock is set."""
        return time.time_ns() // 1_000_000

    def __repr__(self) -> str:
        return "SystemClock()"
