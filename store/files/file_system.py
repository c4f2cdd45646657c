"""The seam to the disk: every byte that mqstore keeps passes through a `FileSystem`.

Two implementations: `OsFileSystem` (os_file_system.py, the only module with mmap and fdatasync) and
`MemoryFileSystem` (memory_file_system.py); all store tests run on both. A crash simulator or a fault
injector is a third one, and sees every write, sync, rename, reserve and delete in order.

What a crash may take away, and hence what callers must not assume:
 - bytes written (`write`, `MappedRegion.write`, `.publish`) are durable only after the matching sync;
 - a created, renamed or deleted name is durable only after `sync_directory` of its folder;
 - `reserve` makes room: a later write into the reserved range does not fail for lack of space, on file
   systems that keep it (`keeps_reserved_room`; store/files/room_promise.py). On others it may, as StoreFull.

LMDB (its own files) and Spark's readers do not use the seam; their modules say why.
Errors: OSError passes through, except that a full disk is `StoreFull` and a held lock `StoreLocked`.
An OSError of the disk has its `errno`; one without comes from a program (store/foreign_error.py).
Threads: any thread may call any method; the callers keep two writers away from one range.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = ["BytesLike", "DiskUsage", "FileEntry", "FileLock", "FileSystem", "MappedRegion"]

BytesLike = bytes | bytearray | memoryview


class FileEntry(NamedTuple):
    """One name in a directory."""

    name: str
    size_bytes: int
    is_directory: bool


class DiskUsage(NamedTuple):
    """Room on the file system that holds a path, as an unprivileged writer sees it."""

    total_bytes: int
    free_bytes: int

    @property
    def used_percent(self) -> int:
        """Used space in percent, rounded up as RocketMQ does (UtilAll)."""
        used_bytes = self.total_bytes - self.free_bytes
        return -(-used_bytes * 100 // self.total_bytes) if self.total_bytes else 100


class MappedRegion(Protocol):
    """One file of fixed length, mapped whole. Views keep it alive; there is no close."""

    @property
    def size_bytes(self) -> int:
        """Length of the file."""
        ...

    @property
    def view(self) -> memoryview:
        """All bytes, format 'B'. For reading only: writers use `write` and `publish`."""
        ...

    @property
    def address(self) -> int:
        """The first byte's address in memory, for compiled loops that write as `write` does.

        Valid as long as the region. 0 if each write must go through `write`, or none is allowed.
        """
        ...

    def write(self, position: int, data: BytesLike) -> None:
        """Put `data` at `position`; durable after `sync`. The range must have been reserved.

        Raises StoreFull where reserved room is not kept; some of the bytes may be written then.
        """
        ...

    def publish(self, position: int, record: BytesLike) -> None:
        """Write a record of at least 8 bytes, or several: the first 8 bytes last.

        A reader of the same file, in this process or another, sees all of it or nothing.
        Raises as `write`.
        """
        ...

    def reserve(self, position: int, length_bytes: int) -> None:
        """Make room on the disk for a range. Raises StoreFull; then nothing has changed."""
        ...

    def populate(self, position: int, length_bytes: int, *, writable: bool = True) -> None:
        """Hint: bring a reserved range into memory now, off the writer's path. Changes no byte.

        writable: a first write to these pages then costs nothing, but the next sync writes all of them.
        """
        ...

    def read_ahead(self, position: int, *, is_wanted: bool) -> None:
        """Hint: whether, from `position` on, the first touch of a page brings those behind it into memory.

        A file is read ahead as the system does it until this is called. Not wanted for a part that is synced
        often while it grows: the system reads ahead in ever larger pieces, and a sync writes each piece of
        which a byte has changed as a whole, up to 2 MiB.
        """
        ...

    def next_data(self, position: int) -> int:
        """First position at or after `position` that may hold a byte other than zero; size if none."""
        ...

    def sync(self) -> None:
        """Make all bytes written before this call durable (fdatasync). OSError is final: never retry."""
        ...

    def sync_within(self, timeout_s: float) -> bool:
        """As `sync`, but waits `timeout_s` at most. False if it has not ended: the next sync waits for it."""
        ...

    def release_descriptor(self) -> None:
        """Hint: close the descriptor, which only reserving and syncing need; they open it again."""
        ...


class FileLock(Protocol):
    """An exclusive lock that lasts until `release` or the end of the process."""

    def loss(self) -> str | None:
        """How the lock was lost, as the end of a sentence; None while it holds, or once it was released."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


class FileSystem(Protocol):
    """The file operations that a store needs."""

    def keeps_reserved_room(self, path: Path) -> bool:
        """Whether a write to a reserved range of a file in this directory can never lack room.

        If not, each `write` and `publish` of a region may raise StoreFull, with a part of the bytes written;
        and mapped memory must not be written to, which would be a SIGBUS on a full disk.
        """
        ...

    def map(
        self, path: Path, size_bytes: int, *, create: bool = False, read_only: bool = False
    ) -> MappedRegion:
        """Map `path`. With `create`, a missing file is made, `size_bytes` long and all zero.

        The caller has checked the length of a file that exists. Raises FileNotFoundError, OSError.
        """
        ...

    def read(self, path: Path) -> bytes:
        """All bytes of a small file. Raises FileNotFoundError."""
        ...

    def read_at(self, path: Path, position: int, length_bytes: int) -> bytes:
        """Up to `length_bytes` bytes from `position` on; fewer where the file ends.

        For tools that read a failing disk: a sector that cannot be read is an OSError here, and a SIGBUS in
        a mapping. Raises FileNotFoundError.
        """
        ...

    def write(self, path: Path, data: bytes) -> None:
        """Create or truncate a small file and write it; durable after `sync` and `sync_directory`."""
        ...

    def sync(self, path: Path) -> None:
        """Make the bytes of `path` durable."""
        ...

    def sync_all(self, regions: Sequence[MappedRegion]) -> None:
        """As `sync` and `release_descriptor` of each region; for thousands of them much cheaper.

        Raises StoreFull when there are no descriptors, else OSError, which is final: never retry it. Then
        some are synced and some are not.
        """
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Replace `target` by `source` in one step; durable after `sync_directory`.

        The new name of a directory must be free.
        """
        ...

    def delete(self, path: Path) -> None:
        """Remove a file; a missing one is no error. Mappings of it live on."""
        ...

    def make_directories(self, path: Path, *, durable: bool = True) -> None:
        """Create a directory and its parents; existing ones are no error.

        Their names are durable on return, or, with durable=False, after `sync_directory` of each parent.
        """
        ...

    def delete_directory(self, path: Path) -> None:
        """Remove an empty directory; a missing one is no error."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        ...

    def list(self, path: Path) -> list[FileEntry]:
        """Entries of a directory, sorted by name; [] when it does not exist."""
        ...

    def exists(self, path: Path) -> bool:
        """Whether a file or directory is there."""
        ...

    def modified_ms(self, path: Path) -> int:
        """Time of last modification, epoch ms. Retention takes a file's age from it."""
        ...

    def lock(self, path: Path) -> FileLock:
        """Lock byte 0 of `path` as a RocketMQ broker does. Raises StoreLocked."""
        ...

    def disk_usage(self, path: Path) -> DiskUsage:
        """Room on the file system that holds `path`."""
        ...
