"""Files in memory, for tests and for stores that need not outlive the process.

The same contract as the real disk (tests/contract/): missing files raise FileNotFoundError, locks
exclude, directories list in order. What is synced and what is not makes no difference here.
Threads: one lock around the table of names; the bytes of a file are as unguarded as mapped memory.
"""

import ctypes
import errno
import os
from collections.abc import Sequence
from pathlib import Path

from mqstore.store.clock import Clock, SystemClock
from mqstore.store.errors import StoreFull, StoreLocked
from mqstore.store.files.file_system import BytesLike, DiskUsage, FileEntry, MappedRegion
from mqstore.store.threads.lock import RLock

__all__ = ["MemoryFileLock", "MemoryFileSystem", "MemoryMappedRegion"]


class MemoryMappedRegion:
    """A file of fixed length in memory."""

    def __init__(
        self, path: Path, content: bytearray, file_system: "MemoryFileSystem", *, read_only: bool
    ) -> None:
        self._path = path
        self._file_system = file_system
        self.size_bytes = len(content)
        self.view = memoryview(content).toreadonly() if read_only else memoryview(content)
        # The view keeps the bytes where they are.
        self.address = (
            ctypes.addressof(ctypes.c_ubyte.from_buffer(content)) if not read_only and content else 0
        )

    def write(self, position: int, data: BytesLike) -> None:
        self.view[position : position + len(data)] = data

    def publish(self, position: int, record: BytesLike) -> None:
        self.view[position + 8 : position + len(record)] = memoryview(record)[8:]
        self.view[position : position + 8] = record[:8]

    def reserve(self, position: int, length_bytes: int) -> None:
        self._file_system.take_room(self._path, length_bytes)

    def populate(self, position: int, length_bytes: int, *, writable: bool = True) -> None:
        return

    def read_ahead(self, position: int, *, is_wanted: bool) -> None:
        return

    def next_data(self, position: int) -> int:
        rest = bytes(self.view[position:])
        return position + len(rest) - len(rest.lstrip(b"\0"))

    def sync_within(self, timeout_s: float) -> bool:
        self.sync()
        return True

    def sync(self) -> None:
        return

    def release_descriptor(self) -> None:
        return

    def __repr__(self) -> str:
        return f"MemoryMappedRegion({str(self._path)!r}, size_bytes={self.size_bytes})"


class MemoryFileLock:
    """A lock on a name of one `MemoryFileSystem`."""

    def __init__(self, locked: dict[Path, bytearray], files: dict[Path, bytearray], path: Path) -> None:
        self._locked = locked
        self._files = files
        self._path = path
        self._file = files[path]
        self._released = False

    def loss(self) -> str | None:
        if self._released:
            return None
        if self._path not in self._files:
            return "its lock file was deleted"
        if self._files[self._path] is not self._file:
            return "its lock file was replaced by another"
        return None

    def release(self) -> None:
        if not self._released:
            self._released = True
            if self._locked.get(self._path) is self._file:
                del self._locked[self._path]


class MemoryFileSystem:
    """A tree of files in memory. `free_bytes` bounds what `reserve` and `write` may still take.

    A file's age counts from its creation or last `write`, by `clock`.
    """

    def __init__(self, *, free_bytes: int = 2**40, clock: Clock | None = None) -> None:
        self.free_bytes = free_bytes
        self._clock = clock or SystemClock()
        self._guard = RLock()
        self._files: dict[Path, bytearray] = {}
        self._modified_ms: dict[Path, int] = {}
        self._directories: set[Path] = set()
        # The file of each lock by its name. A lock on a file that was deleted excludes nobody.
        self._locked: dict[Path, bytearray] = {}

    def keeps_reserved_room(self, path: Path) -> bool:
        return True

    def map(
        self, path: Path, size_bytes: int, *, create: bool = False, read_only: bool = False
    ) -> MemoryMappedRegion:
        with self._guard:
            if create and not self._files.get(path):
                self._need_parent(path)
                self._files[path] = bytearray(size_bytes)
                self._modified_ms[path] = self._clock.now_ms()
            return MemoryMappedRegion(path, self._file(path), self, read_only=read_only)

    def read(self, path: Path) -> bytes:
        with self._guard:
            return bytes(self._file(path))

    def read_at(self, path: Path, position: int, length_bytes: int) -> bytes:
        with self._guard:
            return bytes(memoryview(self._file(path))[position : position + length_bytes])

    def write(self, path: Path, data: bytes) -> None:
        with self._guard:
            self._need_parent(path)
            self.take_room(path, len(data))
            self._files[path] = bytearray(data)
            self._modified_ms[path] = self._clock.now_ms()

    def sync(self, path: Path) -> None:
        with self._guard:
            self._file(path)

    def sync_all(self, regions: Sequence[MappedRegion]) -> None:
        for region in regions:
            region.sync()
            region.release_descriptor()

    def rename(self, source: Path, target: Path) -> None:
        with self._guard:
            if source in self._directories:
                self._rename_directory(source, target)
                return
            content, modified_ms = self._file(source), self._modified_ms.get(source, 0)
            del self._files[source]
            self._files[target], self._modified_ms[target] = content, modified_ms

    def _rename_directory(self, source: Path, target: Path) -> None:
        for path in [path for path in self._files if source in path.parents]:
            moved_path = target / path.relative_to(source)
            self._files[moved_path] = self._files.pop(path)
            self._modified_ms[moved_path] = self._modified_ms.pop(path, 0)
        moved = {path for path in self._directories if source in (path, *path.parents)}
        self._directories -= moved
        self._directories |= {target / path.relative_to(source) for path in moved}

    def delete(self, path: Path) -> None:
        with self._guard:
            self._files.pop(path, None)

    def make_directories(self, path: Path, *, durable: bool = True) -> None:
        with self._guard:
            self._directories.update((path, *path.parents))

    def delete_directory(self, path: Path) -> None:
        with self._guard:
            if self.list(path):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
            self._directories.discard(path)

    def sync_directory(self, path: Path) -> None:
        return

    def list(self, path: Path) -> list[FileEntry]:
        with self._guard:
            return sorted(self._entries(path))

    def _entries(self, path: Path) -> Sequence[FileEntry]:
        files = [
            FileEntry(name.name, len(content), False)
            for name, content in self._files.items()
            if name.parent == path
        ]
        directories = [
            FileEntry(name.name, 0, True)
            for name in self._directories
            if name.parent == path and name != path
        ]
        return files + directories

    def exists(self, path: Path) -> bool:
        with self._guard:
            return path in self._files or path in self._directories

    def modified_ms(self, path: Path) -> int:
        with self._guard:
            self._file(path)
            return self._modified_ms.get(path, 0)

    def lock(self, path: Path) -> MemoryFileLock:
        with self._guard:
            if path in self._locked and self._files.get(path) is self._locked[path]:
                raise StoreLocked(path, os.getpid(), is_own=True)
            self._need_parent(path)
            self._files[path] = self._locked[path] = bytearray(b"lock")
            return MemoryFileLock(self._locked, self._files, path)

    def disk_usage(self, path: Path) -> DiskUsage:
        return DiskUsage(2**40, self.free_bytes)

    def take_room(self, path: Path, length_bytes: int) -> None:
        """Count `length_bytes` against `free_bytes`. Raises StoreFull and takes nothing when short."""
        with self._guard:
            if length_bytes > self.free_bytes:
                raise StoreFull(path, length_bytes, f"{self.free_bytes} bytes are free in memory")
            self.free_bytes -= length_bytes

    def _need_parent(self, path: Path) -> None:
        if path.parent not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    def _file(self, path: Path) -> bytearray:
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None

    def __repr__(self) -> str:
        return f"MemoryFileSystem(files={len(self._files)}, free_bytes={self.free_bytes})"
