"""A finding: one thing that verify has to say about a store directory.

Two kinds: damage, and what is normal after a crash and put right by the next opening (a note).
"""

from pathlib import Path
from typing import NamedTuple

__all__ = ["Finding"]


class Finding(NamedTuple):
    """What is at `position` (a byte) of a file is not what is expected.

    kind: a word for the sort of thing, for machines. times: how many there are from there on, of entries or
    keys. is_damage: False for what the next opening puts right by itself.
    """

    kind: str
    path: Path
    position: int
    expected: str
    found: str
    times: int = 1
    is_damage: bool = True

    def __str__(self) -> str:
        times = f" ({self.times:,} of them)" if self.times > 1 else ""
        return f"{self.path} at byte {self.position}: expected {self.expected}, found {self.found}{times}"
