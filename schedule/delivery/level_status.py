"""The level status: how the delivery of one delay level is doing, as statistics and the command show it.

A value, made by level_delivery.py.
"""

from typing import NamedTuple

__all__ = ["LevelStatus"]


class LevelStatus(NamedTuple):
    """How one level is doing since the store was opened. `delay_ms` is None when it left the table.

    pending: entries not yet put, cancelled ones among them. next_due_ms: when the first of them is due (epoch
    ms); lateness_ms: how long ago that was. passed_over: entries that were no messages to deliver, or were
    cancelled. A blocked level has its error here, and since when.
    """

    level: int
    delay_ms: int | None
    next_offset: int
    pending: int
    next_due_ms: int | None
    lateness_ms: int
    delivered: int
    passed_over: int
    error: str | None
    blocked_since_ms: int | None
