"""An inspection: what verify, repair and rebuild work with, passed as one object.

The public calls take these parts one by one, and fill in what their caller leaves out. Frozen; any thread.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from mqstore.store.clock import Clock, SystemClock
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.progress import Progress
from mqstore.store_layout import StoreLayout

__all__ = ["Inspection", "ScanProgress"]

ScanProgress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all), from several threads, one at a time."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """Files, clock, threads and progress of one inspection of a directory.

    workers: segments scanned at a time. on_scan: progress of the scan. on_opening: progress of the opening
    that rebuilds what is derived, as MessageStore.open reports it.
    """

    file_system: FileSystem
    clock: Clock
    workers: int
    on_scan: ScanProgress | None = None
    on_opening: Progress | None = None

    @classmethod
    def of(
        cls,
        file_system: FileSystem | None,
        clock: Clock | None,
        *,
        workers: int | None = None,
        on_scan: ScanProgress | None = None,
        on_opening: Progress | None = None,
    ) -> Self:
        """With the real files, the system's clock and one worker for each processor where None is given."""
        return cls(
            file_system or OsFileSystem(),
            clock or SystemClock(),
            workers or os.cpu_count() or 1,
            on_scan,
            on_opening,
        )

    @contextlib.contextmanager
    def locked(self, layout: StoreLayout) -> Iterator[None]:
        """Hold the writer's lock. Raises StoreLocked."""
        lock = self.file_system.lock(layout.lock)
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def locked_if_writable(self, layout: StoreLayout) -> Iterator[None]:
        """Hold the writer's lock if there can be a writer. Raises StoreLocked.

        Without a lock file, or where this process may not write, no lock is taken.
        """
        lock = None
        if self.file_system.exists(layout.lock):
            try:
                lock = self.file_system.lock(layout.lock)
            except OSError as error:
                raise_foreign(error)
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
        try:
            yield
        finally:
            if lock is not None:
                lock.release()
