"""The page of delayed messages: the levels, and what waits in each, the next one first."""

import itertools
from typing import Any, NamedTuple

from mqstore.message_store import MessageStore
from mqstore.tools.cli.ui.pages.asked import Asked
from mqstore.tools.cli.ui.pages.message_line import MessageLine, lines_of

__all__ = ["MOST_WAITING", "WaitingLine", "delay"]

MOST_WAITING = 100
"""Messages of a page."""


class WaitingLine(NamedTuple):
    """A message that waits."""

    level: int
    due_ms: int
    to: str | None
    is_cancelled: bool
    message: MessageLine


def delay(store: MessageStore, asked: Asked) -> dict[str, Any]:
    """What the template needs. `level`: of this one only."""
    level = asked.number("level")
    found = list(itertools.islice(store.waiting_messages(level), MOST_WAITING + 1))
    waiting = [
        WaitingLine(each.level, each.due_ms, each.real_topic, each.is_cancelled, line)
        for each in found[:MOST_WAITING]
        for line in lines_of([each.message])
    ]
    levels = [row for row in store.stats().delay_levels if row.next_offset or row.pending]
    return {
        "level": level,
        "levels": levels,
        "waiting": waiting,
        "has_more": len(found) > MOST_WAITING,
        "most": MOST_WAITING,
    }
