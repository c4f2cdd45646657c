"""The messages of the power-cut campaign: each is made from its key alone, so that with the key one can
check every byte of what was stored. No code of the store is used here.
"""

import random
from typing import NamedTuple

__all__ = ["DELAY_MS", "GROUP", "LEVELS", "QUEUES", "Sent", "key_of", "sent"]

QUEUES = 3
GROUP = "billing"
LEVELS = "1s 2s"
DELAY_MS = (1_000, 2_000)
_PER_NEW_TOPIC = 60


class Sent(NamedTuple):
    """A message as its producer made it."""

    key: str
    topic: str
    queue_id: int
    body: bytes
    tags: str | None
    delay_level: int
    properties: dict[str, str]


def key_of(run: str, thread: int, number: int) -> str:
    """The key of the `number`-th message of a thread."""
    return f"{run}:{thread}:{number}"


def sent(key: str) -> Sent:
    """The message with this key."""
    run, thread, number = key.split(":")
    choice = random.Random(key)
    topic = choice.choice(("orders", "events", f"new-{run}-{int(number) // _PER_NEW_TOPIC}"))
    return Sent(
        key,
        topic,
        choice.randrange(QUEUES),
        choice.randbytes(choice.choice((0, 10, 300, 1_500, 4_000, 9_000))),
        choice.choice((None, "created", "paid")),
        choice.choice((0, 0, 0, 0, 0, 0, 1, 2)),
        {"thread": thread, "check": f"{choice.randrange(10**9):09d}"},
    )
