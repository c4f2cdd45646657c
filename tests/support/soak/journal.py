"""The journal of a soak: what the process that was killed has said, line by line, and how it is read.

A line is written by one call of the system to a file opened with O_APPEND: it is whole, it survives the
process, and lines of several threads stand in the order in which they were written.

    run RUN KIND                                  a process begins; KIND is steady or restless
    ready RUN                                     all groups have shared their queues
    sent RUN KEY                                  a message is acknowledged
    begin RUN GROUP MEMBER KEY QUEUE OFFSET TIMES a listener has a message
    end RUN GROUP MEMBER KEY QUEUE OFFSET TIMES OUTCOME    done or failed
    drained RUN                                   every group has consumed everything
    closed RUN                                    the process has closed what it had
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Journal", "Line", "read_journal"]


class Line(NamedTuple):
    """One line. words: all after the run."""

    kind: str
    run: int
    words: tuple[str, ...]


class Journal:
    """Writes lines; any thread."""

    def __init__(self, path: Path, run: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._run = run

    def write(self, kind: str, *words: object) -> None:
        """One line."""
        os.write(self._file, f"{kind} {self._run} {' '.join(map(str, words))}\n".encode())


def read_journal(path: Path) -> Iterator[Line]:
    """All lines, in order."""
    for text in path.read_text("utf-8").splitlines():
        kind, run, *words = text.split()
        yield Line(kind, int(run), tuple(words))
