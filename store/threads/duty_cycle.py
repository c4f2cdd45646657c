"""A duty-cycle limiter: repeated expensive work gets at most 10 % of the time.

Syncing the files of ten thousand queues takes a second even on a quick disk. Done once a second, it would
take half of the disk from the log. Quick work is never delayed. The limiter runs nothing by itself.
Threads: the caller lets one thread work at a time.
"""

import time
from collections.abc import Callable

__all__ = ["LONGEST_PAUSE_S", "DutyCycle"]

LONGEST_PAUSE_S = 60.0
"""No pause is longer: RocketMQ leaves queues unsynced as long (flushConsumeQueueThoroughInterval)."""

_PAUSE_FOR_WORK = 9


class DutyCycle:
    """Measures work, and says when it may be done again. `now_s`: a clock that only goes forward."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._due_s = now_s()

    @property
    def is_due(self) -> bool:
        """Whether the pause after the last work is over."""
        return self._now_s() >= self._due_s

    def run(self, work: Callable[[], None]) -> None:
        """Call `work`, due or not. Work that fails may be tried again at once."""
        begun_s = self._now_s()
        work()
        ended_s = self._now_s()
        self._due_s = ended_s + min(_PAUSE_FOR_WORK * (ended_s - begun_s), LONGEST_PAUSE_S)

    def __repr__(self) -> str:
        return f"DutyCycle(is_due={self.is_due})"
