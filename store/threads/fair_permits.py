"""Fair permits: a number of them is taken at once, and given back later; who came first gets them first.

Someone who wants many is not overtaken by those who want few. Threads: any.
Source: Semaphore of Java, fair, as RocketMQ's producer limits what is under way.
"""

from collections import deque

from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.lock import Lock

__all__ = ["FairPermits"]


class _Waiter:
    """A thread that waits for `count` permits; `event` is set once it has them."""

    __slots__ = ("count", "event")

    def __init__(self, count: int) -> None:
        self.count = count
        self.event = AutoResetEvent()


class FairPermits:
    """`count` permits, all of them free."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = Lock()
        self._waiters: deque[_Waiter] = deque()

    @property
    def free(self) -> int:
        """How many are free."""
        return self._free

    def acquire(self, count: int, timeout_s: float) -> bool:
        """Take `count`, waiting for them up to `timeout_s`; False, and none is taken, if they do not come."""
        with self._lock:
            if not self._waiters and self._free >= count:
                self._free -= count
                return True
            if timeout_s <= 0:
                return False
            waiter = _Waiter(count)
            self._waiters.append(waiter)
        try:
            has_them = waiter.event.wait(timeout_s)
        except BaseException:
            if self._give_up(waiter):
                self.release(count)
            raise
        return has_them or self._give_up(waiter)

    def _give_up(self, waiter: _Waiter) -> bool:
        """End a wait; True if the permits came at the last moment."""
        with self._lock:
            if waiter not in self._waiters:
                return True
            self._waiters.remove(waiter)
            self._hand_out()
            return False

    def release(self, count: int) -> None:
        """Give `count` back."""
        with self._lock:
            self._free += count
            self._hand_out()

    def _hand_out(self) -> None:
        """Serve those who wait, in their order, as far as it goes. With the lock."""
        while self._waiters and self._free >= self._waiters[0].count:
            waiter = self._waiters.popleft()
            self._free -= waiter.count
            waiter.event.set()

    def __repr__(self) -> str:
        return f"FairPermits(free={self._free}, waiting={len(self._waiters)})"
