"""A pace: lets costly work that is repeated take a tenth of the time at most.

Syncing the files of ten thousand queues takes a second where the disk is quick; once a second, it would take
half of the disk from the log. What is done quickly is never held back. It does not run anything by itself.
Threads: the caller lets one work at a time.
"""

import time
from collections.abc import Callable

__all__ = ["LONGEST_PAUSE_S", "Pace"]

LONGEST_PAUSE_S = 60.0
"""However long it took: as long as RocketMQ may leave queues unsynced (flushConsumeQueueThoroughInterval)."""

_PAUSE_FOR_WORK = 9


class Pace:
    """Measures work, and says when it may be done again. `now_s`: a clock that only goes forward."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._due_s = now_s()

    @property
    def is_due(self) -> bool:
        """Whether the pause after the last work is over."""
        return self._now_s() >= self._due_s

    def work(self, do: Callable[[], None]) -> None:
        """Do it, due or not. Work that fails may be tried again at once."""
        begun_s = self._now_s()
        do()
        ended_s = self._now_s()
        self._due_s = ended_s + min(_PAUSE_FOR_WORK * (ended_s - begun_s), LONGEST_PAUSE_S)

    def __repr__(self) -> str:
        return f"Pace(is_due={self.is_due})"
