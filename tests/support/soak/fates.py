"""The fates of messages: what each group's listener does with a message, decided by the seed alone.

Whoever gets a message, in whatever run and at whatever time, does the same with it. So what must have become
of each message in the end is known beforehand, though threads and kills come as they like.
"""

import random
from typing import NamedTuple

__all__ = ["ALWAYS", "GROUPS", "ORDERLY_GROUP", "RETRIES", "TOPIC", "Fate", "fate_of"]

TOPIC = "work"
ORDERLY_GROUP = "ledger"
GROUPS = ("billing", "mail", ORDERLY_GROUP)
RETRIES = 3
ALWAYS = 1_000
"""More failures than there are retries: a dead letter."""


class Fate(NamedTuple):
    """failures: so many deliveries fail before one succeeds. way: how. slow_s: each takes so long."""

    failures: int
    way: str
    slow_s: float

    @property
    def is_dead(self) -> bool:
        """Whether the message becomes a dead letter."""
        return self.failures > RETRIES

    @property
    def deliveries(self) -> int:
        """How often it is delivered where nothing is moved and nobody is killed."""
        return 1 + min(self.failures, RETRIES)


def fate_of(seed: int, group: str, key: str) -> Fate:
    """What becomes of the message with this key in this group."""
    chance = random.Random(f"{seed} {group} {key}")
    draw = chance.random()
    failures = 0 if draw < 0.85 else ALWAYS if draw < 0.88 else chance.randint(1, RETRIES)
    way = chance.choice(("answer", "raise", "exit"))
    slow_s = chance.uniform(0.005, 0.05) if chance.random() < 0.03 else 0.0
    return Fate(failures, way, slow_s)
