"""The page of a group's dead letters: which, from where, how often they failed, when they died, and how."""

import itertools
from typing import Any, NamedTuple

from mqstore.client.dead_letters.dead_letter import Arrival
from mqstore.client.dead_letters.dead_letter_filter import DeadLetterFilter
from mqstore.client.dead_letters.dead_letters import DeadLetters
from mqstore.message_store import MessageStore
from mqstore.tools.cli.administration.topics import queue_rows
from mqstore.tools.cli.ui.pages.asked import Asked, PageProblem
from mqstore.tools.cli.ui.pages.group import group_asked
from mqstore.tools.cli.ui.pages.message_line import MessageLine, lines_of

__all__ = ["MOST_LETTERS", "LetterLine", "dead_letters"]

MOST_LETTERS = 50
"""Dead letters of a page."""

_WHY: dict[Arrival, str] = {
    "SENT_BACK": "its consumer sent it back once more than the group retries, or gave it up",
    "DIVERTED": "a client put its own retry once more than the group retries",
    "PUT": "a program put it here",
}
_PLACEHOLDER = "a repair put it here, in the place of a message that is lost"


class LetterLine(NamedTuple):
    """A dead letter. origin: physical offset of its first record, which may have expired."""

    message: MessageLine
    original_topic: str | None
    why: str
    born_timestamp: int
    born_host: str
    is_resent: bool


def dead_letters(store: MessageStore, asked: Asked) -> dict[str, Any]:
    """What the template needs: a page from `offset` on, else the last one. Raises PageProblem."""
    name, offset, queue_id = group_asked(asked), asked.number("offset"), asked.number("queue") or 0
    letters = DeadLetters(store, name)
    queues = [row for row in queue_rows(store) if row.topic == letters.topic]
    queue = next((row for row in queues if row.queue_id == queue_id), None)
    if queue is None:
        raise PageProblem(f"group {name} has no dead letters in queue {queue_id}")
    begin = max(queue.min_offset, queue.max_offset - MOST_LETTERS if offset is None else offset)
    end = min(begin + MOST_LETTERS, queue.max_offset)
    wanted = DeadLetterFilter(queue_id=queue_id, begin_offset=begin, end_offset=end)
    lines = [
        LetterLine(
            line,
            letter.original_topic,
            _PLACEHOLDER if letter.is_placeholder else _WHY[letter.arrival],
            letter.born_timestamp,
            str(letter.born_host),
            letters.is_resent(letter),
        )
        for letter in itertools.islice(letters.find(wanted), MOST_LETTERS)
        for line in lines_of([letter.message])
    ]
    return {
        "name": name,
        "topic": letters.topic,
        "queue": queue,
        "queues": queues,
        "lines": lines,
        "older": max(queue.min_offset, begin - MOST_LETTERS) if begin > queue.min_offset else None,
        "newer": end if end < queue.max_offset else None,
    }
