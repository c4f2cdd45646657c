"""The simulated disk: a file system in memory that keeps the list of all that was done to it.

The third implementation of the seam (store/files/file_system.py). Each step that changes the disk is appended
to `steps`, in order; a publish is two, its first 8 bytes last. What the medium may hold of them after a
power cut is told by medium.py. The disk itself shows what a running process sees: everything at once.

It also watches two rules of the seam: mapped bytes are written only where room was reserved before (I4),
and a rename stays in its directory. Killing a process is `kill`: locks vanish, the bytes stay. Threads:
none of its own; the workloads let one thread run at a time (baton.py).
"""

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from mqstore.store.clock import Clock
from mqstore.store.files.file_system import BytesLike, DiskUsage, FileEntry, MappedRegion
from support.disks.simulated_lock import SimulatedLock
from support.manual_clock import ManualClock

__all__ = ["Image", "ShortWrite", "SimulatedDisk", "SimulatedRegion", "Step"]

_BLOCK_BYTES = 4096


class Step(NamedTuple):
    """One change. `inode` tells files apart that had the same name one after the other.

    kind: create (mapped, `size`), write (mapped), replace (a small file's whole content), sync, lost_sync
    (the kernel said that it failed, and forgot what was dirty), rename (to `target`), delete,
    make_directory (`size` 1: its name is durable), delete_directory, sync_directory, reserve.
    """

    kind: str
    path: Path
    inode: int = 0
    position: int = 0
    data: bytes = b""
    size: int = 0
    target: Path | None = None


class ShortWrite(Exception):
    """Raised by `before`: half of the bytes are written, and then comes `error`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Image(NamedTuple):
    """Files by path, with their inode, and directories: what a disk begins with."""

    files: dict[Path, bytes | bytearray]
    directories: set[Path]


class _Inode:
    """One file's bytes as processes see them."""

    __slots__ = ("content", "modified_ms", "number", "reserved")

    def __init__(self, number: int, content: bytearray, modified_ms: int) -> None:
        self.number = number
        self.content = content
        self.modified_ms = modified_ms
        # Blocks that have room on the disk; None: not yet looked at, then those that hold data.
        self.reserved: set[int] | None = None

    def blocks(self) -> set[int]:
        if self.reserved is None:
            content = self.content
            starts = range(0, len(content), _BLOCK_BYTES)
            self.reserved = {at // _BLOCK_BYTES for at in starts if any(content[at : at + _BLOCK_BYTES])}
        return self.reserved


class SimulatedRegion:
    """A mapped file."""

    def __init__(self, disk: "SimulatedDisk", path: Path, inode: _Inode, *, read_only: bool) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self.size_bytes = len(inode.content)
        view = memoryview(inode.content)
        self.view = view.toreadonly() if read_only else view
        # Each write is to be seen.
        self.address = 0

    def write(self, position: int, data: BytesLike) -> None:
        self._store("write", position, bytes(data))

    def publish(self, position: int, record: BytesLike) -> None:
        self._store("publish", position + 8, bytes(memoryview(record)[8:]))
        self._store("published", position, bytes(record[:8]))

    def _store(self, what: str, position: int, data: bytes) -> None:
        try:
            self._disk.before(what, self._path)
        except ShortWrite as short:
            self._put(position, data[: len(data) // 2])
            raise short.error from None
        self._put(position, data)

    def _put(self, position: int, data: bytes) -> None:
        disk, inode = self._disk, self._inode
        end = position + len(data)
        assert 0 <= position <= end <= self.size_bytes, (self._path, position, end)
        touched = range(position // _BLOCK_BYTES, -(-end // _BLOCK_BYTES))
        assert inode.blocks().issuperset(touched), (
            f"I4: bytes {position} to {end} of {self._path} are written where no room was reserved"
        )
        inode.content[position:end] = data
        inode.modified_ms = disk.clock.now_ms()
        disk.steps.append(Step("write", self._path, inode.number, position, data))

    def reserve(self, position: int, length_bytes: int) -> None:
        disk = self._disk
        disk.before("reserve", self._path)
        end = position + length_bytes
        assert 0 <= position < end <= self.size_bytes, (self._path, position, end)
        self._inode.blocks().update(range(position // _BLOCK_BYTES, -(-end // _BLOCK_BYTES)))
        disk.steps.append(Step("reserve", self._path, self._inode.number, position, size=length_bytes))

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
        self._disk.sync_inode(self._path, self._inode)

    def release_descriptor(self) -> None:
        return

    def __repr__(self) -> str:
        return f"SimulatedRegion({str(self._path)!r}, size_bytes={self.size_bytes})"


class SimulatedDisk:
    """A disk that begins with `image`, or empty."""

    def __init__(self, image: Image | None = None, *, clock: Clock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.steps: list[Step] = []
        # Called with (what, path) before each step, read, list and map; it may raise, or let another thread
        # run.
        self.before: Callable[[str, Path], None] = lambda what, path: None
        self.used_percent = 50
        # False: a copy-on-write medium, on which each write takes new room.
        self.keeps_room = True
        image = image or Image({}, set())
        self._inode_count = 0
        self._directories: dict[Path, dict[str, _Inode]] = {path: {} for path in image.directories}
        self._children: dict[Path, set[str]] = {}
        for directory in image.directories:
            self._children.setdefault(directory.parent, set()).add(directory.name)
        for path, content in image.files.items():
            self._directories[path.parent][path.name] = self._new_inode(bytearray(content))
        # The inode that is locked, by its name.
        self.locked: dict[Path, int | None] = {}

    def _new_inode(self, content: bytearray) -> _Inode:
        self._inode_count += 1
        return _Inode(self._inode_count, content, self.clock.now_ms())

    def kill(self) -> None:
        """End the process: its locks vanish, and what it wrote stays in the kernel's memory."""
        self.kill_locks()
        self.before = lambda what, path: None

    def kill_locks(self) -> None:
        """Release all locks, as the end of a process does."""
        self.locked.clear()

    def keeps_reserved_room(self, path: Path) -> bool:
        """Whether writes to reserved room never fail."""
        return self.keeps_room

    # -- the seam -------------------------------------------------------------------------------------

    def map(
        self, path: Path, size_bytes: int, *, create: bool = False, read_only: bool = False
    ) -> SimulatedRegion:
        names = self._names(path.parent, path)
        inode = names.get(path.name)
        if create and (inode is None or not inode.content):
            self.before("create", path)
            inode = self._new_inode(bytearray(size_bytes))
            names[path.name] = inode
            self.steps.append(Step("create", path, inode.number, size=size_bytes))
        else:
            self.before("map", path)
        return SimulatedRegion(self, path, inode or self._inode(path), read_only=read_only)

    def read(self, path: Path) -> bytes:
        self.before("read", path)
        return bytes(self._inode(path).content)

    def read_at(self, path: Path, position: int, length_bytes: int) -> bytes:
        self.before("read", path)
        return bytes(memoryview(self._inode(path).content)[position : position + length_bytes])

    def write(self, path: Path, data: bytes) -> None:
        names = self._names(path.parent, path)
        try:
            self.before("replace", path)
        except ShortWrite as short:
            self._replace(names, path, data[: len(data) // 2])
            raise short.error from None
        self._replace(names, path, data)

    def _replace(self, names: dict[str, _Inode], path: Path, data: bytes) -> None:
        inode = names.get(path.name)
        if inode is None:
            inode = names[path.name] = self._new_inode(bytearray())
        inode.content = bytearray(data)
        inode.modified_ms = self.clock.now_ms()
        self.steps.append(Step("replace", path, inode.number, data=data))

    def sync(self, path: Path) -> None:
        self.sync_inode(path, self._inode(path))

    def sync_inode(self, path: Path, inode: _Inode) -> None:
        try:
            self.before("sync", path)
        except OSError:
            self.steps.append(Step("lost_sync", path, inode.number))
            raise
        self.steps.append(Step("sync", path, inode.number))

    def sync_all(self, regions: Sequence[MappedRegion]) -> None:
        for region in regions:
            region.sync()
            region.release_descriptor()

    def rename(self, source: Path, target: Path) -> None:
        assert source.parent == target.parent, (source, target)
        inode = self._inode(source)
        self.before("rename", target)
        names = self._directories[source.parent]
        del names[source.name]
        names[target.name] = inode
        self.steps.append(Step("rename", source, inode.number, target=target))

    def delete(self, path: Path) -> None:
        names = self._directories.get(path.parent, {})
        inode = names.get(path.name)
        if inode is not None:
            self.before("delete", path)
            del names[path.name]
            self.steps.append(Step("delete", path, inode.number))

    def make_directories(self, path: Path, *, durable: bool = True) -> None:
        if path in self._directories:
            return
        for directory in reversed((path, *path.parents)):
            if directory not in self._directories:
                self.before("make_directory", directory)
                self._directories[directory] = {}
                self._children.setdefault(directory.parent, set()).add(directory.name)
                self.steps.append(Step("make_directory", directory, size=int(durable)))

    def delete_directory(self, path: Path) -> None:
        if path not in self._directories:
            return
        if self._directories[path] or self._children.get(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        self.before("delete_directory", path)
        del self._directories[path]
        self._children[path.parent].discard(path.name)
        self.steps.append(Step("delete_directory", path))

    def sync_directory(self, path: Path) -> None:
        self._names(path, path)
        self.before("sync_directory", path)
        self.steps.append(Step("sync_directory", path))

    def list(self, path: Path) -> list[FileEntry]:
        self.before("list", path)
        names = self._directories.get(path, {})
        files = [FileEntry(name, len(inode.content), False) for name, inode in names.items()]
        directories = (FileEntry(name, 0, True) for name in self._children.get(path, ()) if name)
        return sorted([*files, *directories])

    def exists(self, path: Path) -> bool:
        return path.name in self._directories.get(path.parent, ()) or path in self._directories

    def modified_ms(self, path: Path) -> int:
        return self._inode(path).modified_ms

    def lock(self, path: Path) -> SimulatedLock:
        return SimulatedLock(self, path)

    def disk_usage(self, path: Path) -> DiskUsage:
        return DiskUsage(100, 100 - self.used_percent)

    # -- looking --------------------------------------------------------------------------------------

    def inode_number(self, path: Path) -> int | None:
        """The inode that has this name; None where there is none."""
        inode = self._directories.get(path.parent, {}).get(path.name)
        return None if inode is None else inode.number

    def image(self) -> Image:
        """All that a process sees now, copied."""
        return Image({path: bytes(inode.content) for path, inode in self._files()}, set(self._directories))

    def inode_numbers(self) -> dict[Path, int]:
        """The inode of each file."""
        return {path: inode.number for path, inode in self._files()}

    def _files(self) -> Iterable[tuple[Path, _Inode]]:
        for directory, names in self._directories.items():
            for name, inode in names.items():
                yield directory / name, inode

    def _names(self, directory: Path, path: Path) -> dict[str, _Inode]:
        try:
            return self._directories[directory]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None

    def _inode(self, path: Path) -> _Inode:
        try:
            return self._directories[path.parent][path.name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None

    def __repr__(self) -> str:
        return f"SimulatedDisk(files={sum(map(len, self._directories.values()))}, steps={len(self.steps)})"
