"""A clock that stands still until a test moves it."""

__all__ = ["ManualClock"]


class ManualClock:
    """A `Clock` at `now_ms`; `advance` moves it."""

    def __init__(self, now_ms: int = 1_726_740_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, duration_ms: int) -> None:
        """Let time pass."""
        self._now_ms += duration_ms

    def __repr__(self) -> str:
        return f"ManualClock({self._now_ms})"
