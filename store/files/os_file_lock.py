"""The lock on the real disk: byte 0 of a file, in a way that no copy of that file can take away.

It shuts out, and is shut out by, whoever takes a POSIX record lock on that byte: Java's FileChannel, hence a
broker, and earlier releases of mqstore. It is an open file description lock (F_OFD_SETLK), which conflicts
with POSIX locks of other processes and lasts until this very descriptor is given back. A POSIX lock would
vanish as soon as *any* descriptor of the file is closed in the process: after `shutil.copytree` of the
directory a second writer would come in. (To hold both is impossible: they conflict within a process too.)

The system does not tell the process that holds such a lock, so the file says it: `lock`, as RocketMQ writes,
then the process id; `release` cuts it back. A file system without these locks gets a POSIX lock; `loss` then
takes it again if it vanished, and sees by the file's time whether somebody else had it meanwhile.

A forked child inherits the descriptor and with it the lock. The child closes its copy right after the fork,
which leaves the parent's lock alone, and holds nothing.
Page: docs/decisions/0013-the-lock-survives-a-copy.md. Threads: any.
"""

import errno
import fcntl
import os
import struct
import threading
import weakref
from pathlib import Path
from typing import ClassVar

from mqstore.store.errors import StoreLocked
from mqstore.store.files.file_kind import open_regular
from mqstore.store.foreign_error import is_foreign, raise_foreign, suppress_system_error

__all__ = ["OsFileLock"]

# struct flock of Linux on 64-bit: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = struct.Struct("hhqqi4x")
_TEXT = b"lock"
# What the system answers where it has no open file description locks.
_UNKNOWN_LOCK_ERRORS = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_HELD_ERRORS = (errno.EACCES, errno.EAGAIN)


class OsFileLock:
    """An exclusive lock on byte 0 of a file, and its entry in the registry of this process."""

    # Held while a lock is taken, looked at or given back.
    _guard: ClassVar = threading.RLock()
    # The locks of this process by (device, inode): POSIX locks would let a second one in. Under _guard.
    _held: ClassVar[weakref.WeakValueDictionary[tuple[int, int], "OsFileLock"]] = (
        weakref.WeakValueDictionary()
    )

    def __init__(self, path: Path) -> None:
        """Take the lock; the file is created where it is missing. Raises StoreLocked, OSError."""
        self._path = path.absolute()
        with self._guard:
            self._refuse_second_lock(path)
            self._descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
            try:
                self._survives_a_close = _lock(self._descriptor)
                text = b"%s %d\n" % (_TEXT, os.getpid())
                os.pwrite(self._descriptor, text, 0)
                os.ftruncate(self._descriptor, len(text))
                os.fdatasync(self._descriptor)
                status = os.fstat(self._descriptor)
            except BlockingIOError as error:
                if is_foreign(error):
                    os.close(self._descriptor)
                    raise
                holder_pid = _holder_pid(self._descriptor)
                os.close(self._descriptor)
                raise StoreLocked(path, holder_pid) from error
            except BaseException:
                os.close(self._descriptor)
                raise
            self._written_ns = status.st_mtime_ns
            self._key = (status.st_dev, status.st_ino)
            self._held[self._key] = self

    def _refuse_second_lock(self, path: Path) -> None:
        # Asked with stat, not open: closing a second descriptor would drop a POSIX lock.
        # What is there instead of a file, opening it says.
        with suppress_system_error(OSError):
            status = path.stat()
            if (status.st_dev, status.st_ino) in self._held:
                raise StoreLocked(path, os.getpid())

    def loss(self) -> str | None:
        with self._guard:
            if self._descriptor < 0:
                return None
            try:
                status = self._path.stat()
            except (FileNotFoundError, NotADirectoryError) as error:
                raise_foreign(error)
                return "its lock file was deleted"
            except OSError as error:
                raise_foreign(error)
                # A disk that fails, or a directory that may not be looked into, tells nothing.
                return None
            if (status.st_dev, status.st_ino) != self._key:
                return "its lock file was replaced by another"
            return None if self._survives_a_close else self._take_again(status)

    def _take_again(self, status: os.stat_result) -> str | None:
        """A POSIX lock may have vanished since: take it once more, unless somebody else had it."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            raise_foreign(error)
            if error.errno not in _HELD_ERRORS:
                return None
            return f"process {_holder_pid(self._descriptor)} holds the lock"
        if status.st_mtime_ns != self._written_ns:
            return "somebody else held the lock meanwhile"
        return None

    def release(self) -> None:
        with self._guard:
            descriptor = self._descriptor
            if descriptor >= 0:
                # Wherever an interrupt (Ctrl-C) comes, the descriptor is closed, and once.
                try:
                    self._held.pop(self._key, None)
                    # As RocketMQ leaves it. Unlocked by word too, for a child that was not made by Python
                    # has a copy of the descriptor, which would keep the lock.
                    with suppress_system_error(OSError):
                        os.ftruncate(descriptor, len(_TEXT))
                    if self._survives_a_close:
                        _set_lock(descriptor, fcntl.F_UNLCK)
                finally:
                    self._descriptor = -1
                    os.close(descriptor)

    def __del__(self) -> None:
        # An interrupt may end who asked for the lock before it has it.
        if getattr(self, "_key", None) is not None:
            self.release()

    @classmethod
    def _forget_all(cls) -> None:
        """In a forked child: nothing is held here, and a thread of the parent may have had the guard."""
        cls._guard = threading.RLock()
        for lock in list(cls._held.values()):
            descriptor, lock._descriptor = lock._descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)
        cls._held = weakref.WeakValueDictionary()


os.register_at_fork(after_in_child=OsFileLock._forget_all)


def _lock(descriptor: int) -> bool:
    """Lock byte 0; whether the lock survives that another descriptor of the file is closed."""
    try:
        _set_lock(descriptor, fcntl.F_WRLCK)
    except OSError as error:
        raise_foreign(error)
        if error.errno not in _UNKNOWN_LOCK_ERRORS:
            raise
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        return False
    return True


def _set_lock(descriptor: int, kind: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, 0, 1, 0))


def _holder_pid(descriptor: int) -> int | None:
    """Who holds the lock: the system tells of a POSIX lock, the file of ours; None where neither does."""
    question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    answer = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    if answer[0] == fcntl.F_UNLCK:
        return None
    return answer[4] if answer[4] > 0 else _pid_in(os.pread(descriptor, 64, 0))


def _pid_in(text: bytes) -> int | None:
    words = text.split()
    return int(words[1]) if len(words) == 2 and words[1].isdigit() else None
