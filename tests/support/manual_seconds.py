"""Seconds that go forward when a test says so: in the place of time.monotonic."""

__all__ = ["ManualSeconds"]


class ManualSeconds:
    """Call it for the time; `advance` moves it."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self._now_s = now_s

    def __call__(self) -> float:
        return self._now_s

    def advance(self, duration_s: float) -> None:
        """Let time pass."""
        self._now_s += duration_s

    def __repr__(self) -> str:
        return f"ManualSeconds({self._now_s})"
