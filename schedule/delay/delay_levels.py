"""The delay levels: how long a message of level 1, 2, ... waits.

Parsed once from `message_delay_level`, "1s 5s 10s 30s 1m ... 2h" by default; immutable, any thread.
It does not know where the waiting messages are (delayed_message.py) nor which are due (due_entries.py).
Source: docs/spec/schedule_and_retry.md section 1; ScheduleMessageService#parseDelayLevel.
"""

import re
from typing import Final

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue_format import MISSING_LEVEL_DELAY_MS
from mqstore.store.errors import DelayLevelIllegal

__all__ = ["DEFAULT_DELAY_LEVELS", "DelayLevels"]

DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""RocketMQ's 18 levels."""

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_ITEM = re.compile(r"0*([0-9]{1,19})([smhd])")
_MAX_DELAY_MS: Final = 2**62
"""Keeps store time + delay within 64 bits."""
_ACCEPTED = "a whole number and one of s, m, h, d, as in '30s'; items are separated by one space"


class DelayLevels:
    """The table of delays; level 1 is its first item.

    >>> levels = DelayLevels.parse("1s 5s 2h")
    >>> levels.max_level, levels.delay_ms(3), levels.delay_ms(99)
    (3, 7200000, 1000)
    """

    __slots__ = ("_array", "_delays_ms", "text")

    def __init__(self, text: str, delays_ms: tuple[int, ...]) -> None:
        self.text = text
        self._delays_ms = delays_ms
        self._array = np.array((0, *delays_ms), dtype=np.int64)
        self._array.flags.writeable = False

    @classmethod
    def parse(cls, text: str) -> "DelayLevels":
        """The levels in `text`. Raises DelayLevelIllegal, which names the item that is wrong."""
        return cls(text, tuple(_delay_ms(item, at + 1, text) for at, item in enumerate(text.split(" "))))

    @property
    def max_level(self) -> int:
        """The highest level; a message that asks for more gets this one."""
        return len(self._delays_ms)

    def delay_ms(self, level: int) -> int:
        """How long a message of `level` waits; 1000 for a level outside the table."""
        return self._delays_ms[level - 1] if 0 < level <= len(self._delays_ms) else MISSING_LEVEL_DELAY_MS

    def level_of(self, delay_ms: int) -> int:
        """The level whose delay is the nearest that is not shorter; the longest one where all are shorter.

        >>> DelayLevels.parse("1s 5s 2h").level_of(1_001)
        2
        """
        longer = [(delay, level) for level, delay in enumerate(self._delays_ms, 1) if delay >= delay_ms]
        if longer:
            return min(longer)[1]
        return 1 + self._delays_ms.index(max(self._delays_ms))

    def as_array(self) -> npt.NDArray[np.int64]:
        """Delays in ms by level, read-only; element 0 is no level and holds 0."""
        return self._array

    def __len__(self) -> int:
        return len(self._delays_ms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DelayLevels) and self._delays_ms == other._delays_ms

    def __hash__(self) -> int:
        return hash(self._delays_ms)

    def __repr__(self) -> str:
        return f"DelayLevels.parse({self.text!r})"


def _delay_ms(item: str, level: int, text: str) -> int:
    match = _ITEM.fullmatch(item)
    delay_ms = int(match[1]) * _UNIT_MS[match[2]] if match else -1
    if not 0 <= delay_ms <= _MAX_DELAY_MS:
        raise DelayLevelIllegal(
            f"message_delay_level {text!r}: item {level} is {item!r}; accepted is {_ACCEPTED}",
            key="message_delay_level",
            value=item,
        )
    return delay_ms
