"""The generator's clock: it waits by asking for the time, since a sleep ends when the kernel likes.

A sleep of 50 µs lasts 100 µs or more, which is longer than most puts. So only what is more than
`SLEEP_ABOVE_NS` away is slept for, up to `AWAKE_BEFORE_NS` before it. The rest is spun for without the GIL,
as a thread that waits for a request does not hold it: the store's services run on the other processor
meanwhile. The thread then needs the GIL for its operation, and waits for it if a service holds it. That wait
is part of the latency, as it is in a program.
"""

import time

import numpy as np

from latency.spin_kernels import spin_until

__all__ = ["SpinningClock"]

SLEEP_ABOVE_NS = 5_000_000
AWAKE_BEFORE_NS = 2_000_000


class SpinningClock:
    """`time.perf_counter_ns`, and waits that end within a microsecond of it on a quiet machine."""

    def __init__(self) -> None:
        self._timespec = np.zeros(2, np.int64)
        self.now_ns = time.perf_counter_ns

    def wait_until(self, due_ns: int) -> int:
        """Return at `due_ns`, or at once if that is past: the time before it waited for the GIL."""
        ahead_ns = due_ns - time.perf_counter_ns()
        if ahead_ns > SLEEP_ABOVE_NS:
            time.sleep((ahead_ns - AWAKE_BEFORE_NS) / 1e9)
        seen_ns: int = spin_until(due_ns, self._timespec)
        return seen_ns
