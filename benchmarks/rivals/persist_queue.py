"""persist-queue: its queue in files, which does not sync each put, and its queue in SQLite, which does.

The queue in SQLite is in WAL mode with SQLite's default, synchronous FULL. Neither has batches.
"""

from pathlib import Path

import persistqueue

from rivals.contestant import PythonContestant, Work

__all__ = ["PERSIST_QUEUE_FILE", "PERSIST_QUEUE_SQLITE"]


class PersistQueueWriter:
    """Bodies into a queue; pickled by the library, as it does with all items."""

    def __init__(self, directory: Path, work: Work) -> None:
        if work.sync:
            self._queue = persistqueue.SQLiteQueue(str(directory), auto_commit=True, multithreading=True)
        else:
            # On the queue's own file system: its information file is renamed into place.
            self._queue = persistqueue.Queue(str(directory), tempdir=str(directory))

    def put(self, body: bytes, thread: int) -> None:
        self._queue.put(body)

    def put_batch(self, bodies: list[bytes], thread: int) -> None:
        for body in bodies:
            self._queue.put(body)

    def close(self) -> None:
        # The queue in files has no close: it gives its files back when it is collected.
        close = getattr(self._queue, "close", None)
        if close is not None:
            close()
        del self._queue


class _PersistQueue(PythonContestant):
    def __init__(self, name: str, *, sync: bool) -> None:
        super().__init__(name, PersistQueueWriter, part=0.1 if sync else 0.01)
        self._sync = sync

    def can(self, work: Work) -> bool:
        return work.sync is self._sync and work.batch == 1 and super().can(work)


PERSIST_QUEUE_FILE = _PersistQueue("persist-queue file", sync=False)
PERSIST_QUEUE_SQLITE = _PersistQueue("persist-queue SQLite", sync=True)
