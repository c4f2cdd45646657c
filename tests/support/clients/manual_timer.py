"""A timer that stands still until a test moves it."""

from collections.abc import Callable

__all__ = ["ManualTimer"]


class ManualTimer:
    """A `Timer`; `advance` lets time pass and makes the calls that come due, in their order."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self._calls: list[tuple[float, int, list[Callable[[], object]]]] = []
        self._count = 0

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Callable[[], None]:
        self._count += 1
        pending = [call]
        self._calls.append((self.now_ms + delay_ms, self._count, pending))
        return pending.clear

    def now_s(self) -> float:
        """The time, as a clock that only goes forward."""
        return self.now_ms / 1000

    @property
    def delays_ms(self) -> list[float]:
        """In how long each pending call is due, the next one first."""
        return sorted(due_ms - self.now_ms for due_ms, _, pending in self._calls if pending)

    def advance(self, duration_ms: float) -> None:
        """Let time pass; calls that are made due by calls are made too."""
        until_ms = self.now_ms + duration_ms
        while due := [entry for entry in self._calls if entry[0] <= until_ms]:
            entry = min(due, key=lambda candidate: candidate[:2])
            self._calls.remove(entry)
            self.now_ms = max(self.now_ms, entry[0])
            if entry[2]:
                entry[2][0]()
        self.now_ms = until_ms
