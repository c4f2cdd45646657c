"""A finding: one thing that verify has to say about a store directory.

Two kinds: damage, and what is normal after a crash and repaired by the next opening (a note).
"""

from pathlib import Path
from typing import NamedTuple

__all__ = ["Finding"]


class Finding(NamedTuple):
    """What is at `position` (a byte) of a file is not what is expected.

    kind: a word for programs, such as `segment-length`. times: how many such entries or keys there are from
    there on. is_damage: False for what the next opening repairs by itself.
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
