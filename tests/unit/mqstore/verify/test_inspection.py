"""An inspection: what stands in for what a caller leaves out, and when the writer's lock is held.

Method: both file systems; a lock file that may not be opened.
"""

import errno
import os
from pathlib import Path

import pytest

from mqstore.store.clock import SystemClock
from mqstore.store.errors import StoreLocked
from mqstore.store.files.file_system import FileLock, FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store_layout import StoreLayout
from mqstore.verify.inspection import Inspection


def test_what_is_left_out() -> None:
    """The real files, the system's clock, a worker for each processor."""
    inspection = Inspection.of(None, None)
    assert isinstance(inspection.file_system, OsFileSystem)
    assert isinstance(inspection.clock, SystemClock)
    assert inspection.workers == os.cpu_count()
    assert Inspection.of(None, None, workers=3).workers == 3


def test_a_writer_is_kept_out(file_system: FileSystem, root: Path) -> None:
    """Until the block ends."""
    layout, inspection = StoreLayout(root), Inspection.of(file_system, None)
    file_system.write(layout.lock, b"")
    for hold in (inspection.locked, inspection.locked_if_writable):
        with hold(layout), pytest.raises(StoreLocked):
            file_system.lock(layout.lock)
        file_system.lock(layout.lock).release()


def test_a_directory_that_no_writer_had_open_gets_no_lock(file_system: FileSystem, root: Path) -> None:
    """A check changes nothing, so it creates no lock file."""
    with Inspection.of(file_system, None).locked_if_writable(StoreLayout(root)):
        assert file_system.list(root) == []


class Unlockable(MemoryFileSystem):
    """A file system whose lock files cannot be opened, for a reason."""

    def __init__(self, error_number: int) -> None:
        super().__init__()
        self.error_number = error_number

    def lock(self, path: Path) -> FileLock:
        raise OSError(self.error_number, os.strerror(self.error_number))


@pytest.mark.parametrize("error_number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_where_this_process_may_not_write_no_lock_is_taken(error_number: int) -> None:
    """But `locked` needs it."""
    layout, inspection = StoreLayout(Path("/store")), Inspection.of(Unlockable(error_number), None)
    inspection.file_system.make_directories(layout.root)
    inspection.file_system.write(layout.lock, b"")
    with inspection.locked_if_writable(layout):
        pass
    with pytest.raises(OSError, match=os.strerror(error_number)), inspection.locked(layout):
        pass


def test_another_error_ends_the_inspection() -> None:
    """A disk that fails is no directory without a writer."""
    layout, inspection = StoreLayout(Path("/store")), Inspection.of(Unlockable(errno.EIO), None)
    inspection.file_system.make_directories(layout.root)
    inspection.file_system.write(layout.lock, b"")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), inspection.locked_if_writable(layout):
        pass
