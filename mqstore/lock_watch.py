"""The lock watch: notices that the writer's lock was lost, and stops the writer.

A lock belongs to a file. Once that file has been deleted or replaced, another writer gets a lock of its
own, and two writers overwrite each other's messages. So the watch checks that the file of that name is
still the one that is locked: once a second, before each round of persistence and of retention, before a
segment is added, and at closing. After a loss nothing is written: not to the log, the queues, the keys or
the state files, and `abort` stays. What was put in the second before may be lost, and the error says so.

It costs one `stat`, and no put or get waits for it. Threads: any.
"""

from collections.abc import Callable
from pathlib import Path

from mqstore.store.errors import StoreLockLost
from mqstore.store.files.file_system import FileLock

__all__ = ["LockWatch"]


class LockWatch:
    """Watches the lock of one open store; a store that is read only has none."""

    def __init__(
        self, path: Path, lock: FileLock | None, on_loss: Callable[[Callable[[], StoreLockLost]], None]
    ) -> None:
        """`on_loss` is called once, with what makes the error, and with no lock of the store held."""
        self._path = path
        self._lock = lock
        self._on_loss = on_loss
        self._is_reported = False
        # How the lock was lost. Set once, by the first thread that sees it.
        self._how: str | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the loss has been noticed."""
        return self._how is not None

    def look(self) -> StoreLockLost | None:
        """The error of a lock that is lost, else None; for a caller who holds locks of the store."""
        if self._how is None and self._lock is not None:
            self._how = self._lock.loss()
        return None if self._how is None else self._error()

    def check(self) -> None:
        """Stop the store if the lock is lost, and raise StoreLockLost."""
        error = self.look()
        if error is not None:
            if not self._is_reported:
                self._on_loss(self._error)
                self._is_reported = True
            raise error

    def _error(self) -> StoreLockLost:
        assert self._how is not None
        return StoreLockLost(self._path, self._how)

    def __repr__(self) -> str:
        return f"LockWatch({str(self._path)!r}, is_lost={self.is_lost})"
