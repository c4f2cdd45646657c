"""diskcache's Deque: bodies appended one at a time. It does not sync them (SQLite, WAL, synchronous NORMAL).

`extend` would append one at a time as well, so batches are not asked of it. A body from 32 KiB on would go
into a file of its own.
"""

from pathlib import Path

import diskcache

from rivals.contestant import PythonContestant, Work

__all__ = ["DISKCACHE"]


class DiskcacheWriter:
    """Appends to a deque."""

    def __init__(self, directory: Path, work: Work) -> None:
        self._deque = diskcache.Deque(directory=str(directory))

    def put(self, body: bytes, thread: int) -> None:
        self._deque.append(body)

    def put_batch(self, bodies: list[bytes], thread: int) -> None:
        self._deque.extend(bodies)

    def close(self) -> None:
        self._deque.cache.close()


class _Diskcache(PythonContestant):
    def can(self, work: Work) -> bool:
        return not work.sync and work.batch == 1 and super().can(work)


DISKCACHE = _Diskcache("diskcache Deque", DiskcacheWriter, part=1 / 50)
