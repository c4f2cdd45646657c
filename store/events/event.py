"""An event: a log line of consequence, with a name and fields that do not change.

    INFO mqstore.schedule.retry.dead_letter: a message of orders is a dead letter of group billing
        event=message.dead_lettered consumer_group=billing topic=orders message_id=... reconsume_times=16

They go through `logging` like all other lines. Name and fields are attributes of the record (`extra`): a
formatter for JSON writes them as they are. Texts may change from version to version; names and fields do not.
Which there are is in events.py.
Threads: any. No event is logged under the lock of the log, nor in a put of an ordinary message.
"""

import logging
from typing import NamedTuple

__all__ = ["Event", "log_event"]


class Event(NamedTuple):
    """What happens, how loud it is told, and what a line of it has."""

    name: str
    level: int
    fields: tuple[str, ...]
    meaning: str


def log_event(
    logger: logging.Logger, event: Event, text: str, *args: object, exc_info: bool = False, **fields: object
) -> None:
    """Log an event: `text` with its `args` for people, `fields` for machines."""
    assert set(fields) == set(event.fields), f"{event.name} has the fields {event.fields}, not {set(fields)}"
    logger.log(
        event.level, text, *args, exc_info=exc_info, extra={"event": event.name, **fields}, stacklevel=2
    )
