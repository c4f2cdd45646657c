"""The real disk: the only module that maps memory.

Linux first: posix_fallocate reserves, fdatasync makes durable. Syncs that many wait for: timed_sync.py. Syncs
of thousands of files: sync_kernels.py. The writer's lock: os_file_lock.py.

A mapping is never closed by hand: arrays and views of it keep it alive by reference counting, and the
pages go with the last of them. A mapped file is never shortened, so no page of it can raise SIGBUS.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import shutil
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar, cast

import numpy as np

from mqstore.store.errors import FileTooLong, LimitReached, StoreFull, WrongFileKind
from mqstore.store.files.file_kind import directory_at, open_regular
from mqstore.store.files.file_system import BytesLike, DiskUsage, FileEntry, MappedRegion
from mqstore.store.files.os_file_lock import OsFileLock
from mqstore.store.files.room_promise import keeps_reserved_room
from mqstore.store.files.timed_sync import TimedSync
from mqstore.store.foreign_error import raise_foreign, suppress_system_error
from mqstore.store.threads.lock import RLock

__all__ = ["MappedWrites", "OsCalledRegion", "OsFileSystem", "OsMappedRegion", "next_data"]

MappedWrites: TypeAlias = Literal["auto", "always", "never"]
"""Whether bytes are written through mappings; auto: where the file system keeps room that was reserved."""

_SHORT_BYTES = 4_096
# Small files are read whole. A thousandth of this is usual; JSON ten times as long would fill the memory.
_SMALL_FILE_BYTES = 128 << 20
# A smaller file is one of many, above all a consume queue, and only parts of it are read. Without MADV_RANDOM
# the first touch reads all of it, zeros included: 4 ms a queue on a disk that reads far ahead.
_READ_AHEAD_BYTES = 16 << 20
# From this many files on, a compiled loop is worth loading.
_FEW_FILES = 16
# Number of files synced between two checks for Ctrl-C.
_FILES_AT_ONCE = 256
# From this size on a call writes: the first touch of a mapped page, and the first after a sync, is a page
# fault, which costs as much as ten copies. Below this size a call costs more.
_BY_CALL_BYTES = 16 << 10
_FULL_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)

# What is published last of a record.
_FIRST_BYTES = struct.Struct("8s")
# Linux 5.14 and later. Older kernels answer EINVAL, which is ignored and only costs speed.
_MADV_POPULATE_READ, _MADV_POPULATE_WRITE = 22, 23
_MAP_FAILED = ctypes.c_void_p(-1).value

Result = TypeVar("Result")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mmap.restype = ctypes.c_void_p
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class OsMappedRegion:
    """A file mapped whole, on a file system that keeps the room that `reserve` asks for.

    The mapping is made by libc: Python's own would keep a descriptor for each, and a store may have ten
    thousand queues. A descriptor is opened when one is needed and kept until `release_descriptor`.
    """

    writes_through_mapping = True

    def __init__(self, path: Path, size_bytes: int, descriptor: int, *, read_only: bool) -> None:
        """descriptor: of the open file; it belongs to the region from now on."""
        self.path = path
        self._read_only = read_only
        # Guards _descriptor between a sync and a release by two threads. No write or reservation takes it: a
        # disk may take long, and who syncs may have to wait for an append, as a finalizer that puts does.
        self._guard = RLock()
        # Between a write by a call and a release. Taken last, and not while anything is waited for.
        self._write_guard = RLock()
        # Pages up to here were brought into memory ahead of the writer; a hint.
        self._populated_position = 0
        self._descriptor: int | None = descriptor
        # Whether _descriptor is in use, and whether a finalizer's release meanwhile is to be made up for.
        # Both under _guard.
        self._is_busy = self._is_release_due = False
        # Made by the first sync that has a time limit.
        self._timed_sync: TimedSync | None = None
        self.size_bytes = size_bytes
        is_view_read_only = read_only or not self.writes_through_mapping
        try:
            with _room_for(path):
                self._buffer = _map(descriptor, size_bytes, read_only=is_view_read_only)
        finally:
            self.release_descriptor()
        self.read_ahead(0, is_wanted=True)
        view = memoryview(self._buffer).cast("B")
        self.view = view.toreadonly() if is_view_read_only else view
        self.address = 0 if is_view_read_only else ctypes.addressof(self._buffer)

    def write(self, position: int, data: BytesLike) -> None:
        self.view[position : position + len(data)] = data

    def publish(self, position: int, record: BytesLike) -> None:
        view, size_bytes = self.view, len(record)
        if size_bytes < _SHORT_BYTES and type(record) is bytes:
            # A short copy is cheaper than a view, and `struct` than a slice of either.
            view[position + 8 : position + size_bytes] = record[8:]
            _FIRST_BYTES.pack_into(view, position, record)
        else:
            rest = memoryview(record)[8:]
            if size_bytes < _BY_CALL_BYTES or position + size_bytes <= self._populated_position:
                view[position + 8 : position + size_bytes] = rest
            else:
                self._write_by_call(position + 8, rest)
            view[position : position + 8] = record[:8]

    def _write_by_call(self, position: int, data: memoryview) -> None:
        """As `write`, by a call: for much data, and for pages that are not in memory yet."""
        with self._write_guard:
            descriptor = self._descriptor
            if descriptor is not None:
                self._write_to(descriptor, position, data)
                return
        with _opened_to_write(self.path) as descriptor:
            self._write_to(descriptor, position, data)

    def _write_to(self, descriptor: int, position: int, data: memoryview) -> None:
        written = 0
        with _room_for(self.path, len(data)):
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], position + written)

    def reserve(self, position: int, length_bytes: int) -> None:
        # Whole pages: if blocks are smaller, a page may be a hole in part, and touching it a SIGBUS, too.
        start = position - position % mmap.PAGESIZE
        stop = min(-(-(position + length_bytes) // mmap.PAGESIZE) * mmap.PAGESIZE, self.size_bytes)
        try:
            with _opened_to_write(self.path) as descriptor, _room_for(self.path, length_bytes):
                os.posix_fallocate(descriptor, start, stop - start)
        except LimitReached:
            # Without a free descriptor, by that of the syncs, if it is open.
            with self._write_guard, _room_for(self.path, length_bytes):
                if self._descriptor is None:
                    raise
                os.posix_fallocate(self._descriptor, start, stop - start)

    def populate(self, position: int, length_bytes: int, *, writable: bool = True) -> None:
        # Through ctypes because it releases the GIL: the pages are zeroed beside the writer.
        start = position - position % mmap.PAGESIZE
        _libc.madvise(
            ctypes.addressof(self._buffer) + start,
            position + length_bytes - start,
            _MADV_POPULATE_WRITE if writable else _MADV_POPULATE_READ,
        )
        if writable:
            self._populated_position = position + length_bytes

    def read_ahead(self, position: int, *, is_wanted: bool) -> None:
        is_useful = is_wanted and self.size_bytes >= _READ_AHEAD_BYTES
        advice = mmap.MADV_NORMAL if is_useful else mmap.MADV_RANDOM
        begin = position - position % mmap.PAGESIZE
        _libc.madvise(ctypes.addressof(self._buffer) + begin, self.size_bytes - begin, advice)

    def next_data(self, position: int) -> int:
        with self._guard:
            return next_data(self._open(), position, self.size_bytes)

    def sync(self) -> None:
        with self._guard:
            if self._is_busy:
                self._sync_beside()
            else:
                self._keep_descriptor(self._sync_alone)

    def _sync_alone(self) -> None:
        descriptor = self._descriptor_to_sync()
        if descriptor is not None:
            if self._timed_sync is not None:
                self._timed_sync.finish()
            os.fdatasync(descriptor)

    def sync_within(self, timeout_s: float) -> bool:
        with self._guard:
            if self._is_busy:
                self._sync_beside()
                return True
            return self._keep_descriptor(lambda: self._sync_alone_within(timeout_s))

    def _sync_alone_within(self, timeout_s: float) -> bool:
        descriptor = self._descriptor_to_sync()
        if descriptor is None:
            return True
        if self._timed_sync is None:
            self._timed_sync = TimedSync()
        return self._timed_sync.sync(descriptor, timeout_s)

    def _keep_descriptor(self, use: Callable[[], Result]) -> Result:
        """Call `use`: a finalizer or a signal handler that syncs meanwhile leaves the descriptor."""
        # No generator of contextmanager: one that an interrupt leaves entered ends at any later time.
        try:
            self._is_busy = True
            result = use()
        finally:
            self._is_busy = False
        if self._is_release_due:
            self.release_descriptor()
        return result

    def _sync_beside(self) -> None:
        """Sync amid another use of this thread, which it interrupted: by a descriptor of its own."""
        try:
            with _opened(self.path) as descriptor:
                os.fdatasync(descriptor)
        except FileNotFoundError as error:
            raise_foreign(error)

    def _descriptor_to_sync(self) -> int | None:
        """The descriptor; None if the file was deleted: then its bytes are not needed again."""
        # A descriptor that is opened after a write also reports an error of that write, as long as the
        # file stays mapped: Linux keeps an error that was not reported for the next sync.
        try:
            descriptor = self._open()
        except FileNotFoundError as error:
            raise_foreign(error)
            return None
        # After a sync, the first write to each page is a page fault again.
        self._populated_position = 0
        return descriptor

    def release_descriptor(self) -> None:
        with self._guard:
            self._is_release_due = self._is_busy
            if not self._is_busy:
                self._keep_descriptor(self._close)

    def _close(self) -> None:
        if self._timed_sync is not None:
            # It waits until the descriptor is not being synced any more.
            self._timed_sync.close()
        with self._write_guard:
            # Cleared before it is closed: an interrupt in between leaks it, but it is never closed twice.
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)

    def _open(self) -> int:
        if self._descriptor is None:
            with _room_for(self.path):
                self._descriptor = _open(self.path, create=False, read_only=self._read_only)
        return self._descriptor

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # `os` may be gone: at the end of the process a module's names are cleared before some objects.
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            self._descriptor = None
            if self._timed_sync is None or not self._timed_sync.close_later(descriptor):
                close(descriptor)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, size_bytes={self.size_bytes})"


class OsCalledRegion(OsMappedRegion):
    """A file that is mapped for reading and written by calls: its file system does not keep reserved room.

    Each write may raise StoreFull. `reserve` makes that rare: it usually meets a full disk first.
    """

    writes_through_mapping = False

    def write(self, position: int, data: BytesLike) -> None:
        self._write_by_call(position, memoryview(data).cast("B"))

    def publish(self, position: int, record: BytesLike) -> None:
        data = memoryview(record).cast("B")
        self._write_by_call(position + 8, data[8:])
        self._write_by_call(position, data[:8])

    def populate(self, position: int, length_bytes: int, *, writable: bool = True) -> None:
        return


def next_data(descriptor: int, position: int, size_bytes: int) -> int:
    """First position of a file at or after `position` that may hold a byte other than zero.

    size_bytes: of the file, which is the answer where there is none. Moves the descriptor's own position.
    """
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError as error:
        raise_foreign(error)
        if error.errno == errno.ENXIO:
            return size_bytes
        if error.errno == errno.EINVAL:
            # The file system knows no holes.
            return position
        raise


@contextlib.contextmanager
def _room_for(path: Path, length_bytes: int = 0) -> Iterator[None]:
    """For a call that needs room, a descriptor or memory: raises StoreFull or LimitReached if there is none.

    Such a call loses nothing, and may succeed later. Not for a sync, whose error is final.
    """
    try:
        yield
    except OSError as error:
        raise_foreign(error)
        if error.errno in _FULL_DISK_ERRORS:
            raise StoreFull(path, length_bytes, os.strerror(error.errno)) from error
        if error.errno in (*_TOO_MANY_FILES, errno.ENOMEM):
            raise LimitReached(path, os.strerror(error.errno)) from error
        raise


@contextlib.contextmanager
def _opened(path: Path, *, for_sync: bool = True) -> Iterator[int]:
    """A descriptor for reading, or for syncs, of directories too. Raises LimitReached, WrongFileKind."""
    with _room_for(path):
        if for_sync:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        else:
            descriptor = open_regular(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened_to_write(path: Path) -> Iterator[int]:
    """A descriptor for one call. Raises LimitReached, WrongFileKind."""
    with _room_for(path):
        descriptor = _open(path, create=False, read_only=False)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(path: Path, *, create: bool, read_only: bool) -> int:
    return open_regular(path, (os.O_RDONLY if read_only else os.O_RDWR) | (os.O_CREAT if create else 0))


def _map(descriptor: int, size_bytes: int, *, read_only: bool) -> "ctypes.Array[ctypes.c_ubyte]":
    """Map a whole file; it is unmapped when the last view of the returned buffer is gone."""
    protection = mmap.PROT_READ | (0 if read_only else mmap.PROT_WRITE)
    address = _libc.mmap(None, size_bytes, protection, mmap.MAP_SHARED, descriptor, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    buffer = (ctypes.c_ubyte * size_bytes).from_address(address)
    # Not at exit: threads and views may outlive the finalizers, and the end of the process unmaps all.
    weakref.finalize(buffer, _libc.munmap, address, size_bytes).atexit = False
    return buffer


def _sync_files(paths: Sequence[Path]) -> None:
    """Sync files by a loop that does not need the GIL, for which it would have to wait after each of them."""
    from mqstore.store.files import sync_kernels

    names = [os.fsencode(path) for path in paths]
    addresses = np.frombuffer(memoryview((ctypes.c_char_p * len(names))(*names)), np.int64)
    outcome = np.zeros(2, np.int64)
    functions = sync_kernels.c_functions("open", "fdatasync", "close", "__errno_location")
    try:
        sync_kernels.sync_files(functions, addresses, os.O_RDWR | os.O_CLOEXEC, outcome)
    finally:
        # Also after Ctrl-C in the loop: Linux reports a failed sync only once.
        done, error_number = outcome.tolist()
        if error_number:
            raise OSError(error_number, os.strerror(error_number), str(paths[done]))


def _entry_of(entry: "os.DirEntry[str]") -> FileEntry:
    try:
        return FileEntry(entry.name, entry.stat().st_size, entry.is_dir())
    except OSError as error:
        raise_foreign(error)
        if not entry.is_symlink():
            raise
        # A link that leads nowhere: listed, so that opening it reports it.
        return FileEntry(entry.name, entry.stat(follow_symlinks=False).st_size, False)


class OsFileSystem:
    """The machine's file system."""

    def __init__(self, mapped_writes: MappedWrites = "auto") -> None:
        self._mapped_writes = mapped_writes

    def map(
        self, path: Path, size_bytes: int, *, create: bool = False, read_only: bool = False
    ) -> OsMappedRegion:
        with _room_for(path, size_bytes if create else 0):
            descriptor = _open(path, create=create, read_only=read_only)
            try:
                if create and os.fstat(descriptor).st_size == 0:
                    os.ftruncate(descriptor, size_bytes)
                is_mapped = read_only or self._writes_through_mapping(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        kind = OsMappedRegion if is_mapped else OsCalledRegion
        return kind(path, size_bytes, descriptor, read_only=read_only)

    def keeps_reserved_room(self, path: Path) -> bool:
        with _opened(path) as descriptor:
            return keeps_reserved_room(descriptor)

    def _writes_through_mapping(self, descriptor: int) -> bool:
        if self._mapped_writes == "auto":
            return keeps_reserved_room(descriptor)
        return self._mapped_writes == "always"

    def read(self, path: Path) -> bytes:
        with _room_for(path), open(open_regular(path), "rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes > _SMALL_FILE_BYTES:
                raise FileTooLong(path, size_bytes, _SMALL_FILE_BYTES)
            return file.read()

    def read_at(self, path: Path, position: int, length_bytes: int) -> bytes:
        with _opened(path, for_sync=False) as descriptor:
            return os.pread(descriptor, length_bytes, position)

    def write(self, path: Path, data: bytes) -> None:
        with (
            _room_for(path, len(data)),
            open(open_regular(path, os.O_WRONLY | os.O_CREAT), "wb") as file,
        ):
            file.truncate(0)
            file.write(data)

    def sync(self, path: Path) -> None:
        with _opened(path) as descriptor:
            os.fsync(descriptor)

    def sync_all(self, regions: Sequence[MappedRegion]) -> None:
        if len(regions) < _FEW_FILES:
            for region in regions:
                region.sync()
                region.release_descriptor()
            return
        paths = [cast(OsMappedRegion, region).path for region in regions]
        for first in range(0, len(paths), _FILES_AT_ONCE):
            try:
                # Loading the loop takes descriptors, too.
                _sync_files(paths[first : first + _FILES_AT_ONCE])
            except OSError as error:
                raise_foreign(error)
                if error.errno in _TOO_MANY_FILES:
                    raise LimitReached(paths[first], os.strerror(error.errno)) from error
                raise

    def rename(self, source: Path, target: Path) -> None:
        try:
            with directory_at(target.parent):
                os.replace(source, target)
        except IsADirectoryError as error:
            raise_foreign(error)
            raise WrongFileKind(target, "a directory") from error

    def delete(self, path: Path) -> None:
        try:
            with directory_at(path.parent):
                path.unlink(missing_ok=True)
        except IsADirectoryError as error:
            raise_foreign(error)
            raise WrongFileKind(path, "a directory") from error

    def make_directories(self, path: Path, *, durable: bool = True) -> None:
        missing = [directory for directory in (path, *path.parents) if not directory.exists()]
        for directory in reversed(missing):
            # Opened before mkdir: a later failure would leave a directory that no further call syncs.
            with _opened(directory.parent) as parent:
                with directory_at(directory), _room_for(directory):
                    directory.mkdir(exist_ok=True)
                if durable:
                    os.fsync(parent)

    def delete_directory(self, path: Path) -> None:
        try:
            path.rmdir()
        except FileNotFoundError as error:
            raise_foreign(error)
            return

    def sync_directory(self, path: Path) -> None:
        self.sync(path)

    def list(self, path: Path) -> list[FileEntry]:
        try:
            with directory_at(path), _room_for(path):
                entries = os.scandir(path)
        except FileNotFoundError as error:
            raise_foreign(error)
            return []
        found = []
        with entries:
            for entry in entries:
                # Another process may have deleted it since.
                with suppress_system_error(FileNotFoundError):
                    found.append(_entry_of(entry))
        return sorted(found)

    def exists(self, path: Path) -> bool:
        try:
            path.stat()
        except OSError as error:
            raise_foreign(error)
            if error.errno in _NOTHING_THERE:
                return False
            raise
        return True

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def lock(self, path: Path) -> OsFileLock:
        return OsFileLock(path)

    def disk_usage(self, path: Path) -> DiskUsage:
        # A directory that does not exist yet will be on the disk of its nearest parent.
        usage = shutil.disk_usage(next(known for known in (path, *path.parents) if known.exists()))
        return DiskUsage(usage.total, usage.free)

    def __repr__(self) -> str:
        return "OsFileSystem()"
