"""An object of an archive that is being written, in an object store or as a file of this machine.

What makes it visible once it is written whole is known to the place (archive_place.py). Durability: a file's
bytes, when `complete` returns; elsewhere as the place promises it. Threads: one at a time.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.threads.run_in_thread import CallInThread, run_in_thread

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow.fs as pa_fs

__all__ = ["UnfinishedFile", "UnfinishedObject"]

_WRITTEN_AT_ONCE_BYTES = 256 << 10
_SYNCED_AT_ONCE_BYTES = 16 << 20


class UnfinishedObject:
    """An object that is being written. It is either completed or abandoned. Threads: one at a time."""

    def __init__(
        self, files: "pa_fs.FileSystem", path: str, name: Callable[[], object] = lambda: None
    ) -> None:
        """path: what is written. name: what makes it visible once it is written whole."""
        self._files, self._path, self._name = files, path, name
        self._stream = files.open_output_stream(path, buffer_size=0)

    def write(self, data: "bytes | npt.NDArray[np.uint8]") -> None:
        """Send bytes, which stay unchanged from now on."""
        self._stream.write(data)

    def complete(self) -> None:
        """Wait until the place has all bytes: the object is there. Another thread may call it."""
        self._stream.close()
        self._name()

    def abandon(self) -> None:
        """Leave nothing of it behind, as far as the place allows."""
        # Closing is all that pyarrow offers, and it may complete the object with what was written.
        with suppress(OSError):
            self._stream.close()
        with suppress(OSError):
            self._files.delete_file(self._path)


class UnfinishedFile(UnfinishedObject):
    """A file of this machine. A thread syncs it now and then, so the disk is at work while it is written.

    The last sync is then short, and few bytes wait for the disk in memory.
    """

    def __init__(self, files: "pa_fs.FileSystem", path: str, name: Callable[[], object]) -> None:
        super().__init__(files, path, name)
        self._unsynced_bytes = 0
        self._sync: CallInThread[None] | None = None

    def write(self, data: "bytes | npt.NDArray[np.uint8]") -> None:
        # Calls of 4 MiB took more processor time, up to twice as much.
        for begin in range(0, len(data), _WRITTEN_AT_ONCE_BYTES):
            super().write(data[begin : begin + _WRITTEN_AT_ONCE_BYTES])
        self._unsynced_bytes += len(data)
        if self._unsynced_bytes >= _SYNCED_AT_ONCE_BYTES:
            self._wait_for_sync()
            self._unsynced_bytes = 0
            self._sync = run_in_thread(partial(OsFileSystem().sync, Path(self._path)))

    def complete(self) -> None:
        try:
            self._stream.close()
            self._wait_for_sync()
            OsFileSystem().sync(Path(self._path))
        except BaseException:
            self.abandon()
            raise
        self._name()

    def abandon(self) -> None:
        if self._sync is not None:
            self._sync.wait()
        super().abandon()

    def _wait_for_sync(self) -> None:
        """Raises OSError when the disk failed: what was written may be lost."""
        if self._sync is not None:
            self._sync.result()
