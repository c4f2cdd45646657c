"""The lock on the real disk: byte 0 of a file, by a lock that survives when the process copies that file.

It is an open file description lock (F_OFD_SETLK). It conflicts with POSIX record locks of other processes,
which Java's FileChannel, hence a broker, and earlier releases of mqstore take. It lasts until its own
descriptor is closed. A POSIX lock would vanish as soon as the process closes *any* descriptor of the file:
after `shutil.copytree` of the directory a second writer could open it. (No process can hold both kinds: they
conflict within a process too.)

The system does not name the process that holds such a lock, so the file does: `lock`, as RocketMQ writes,
then the process id; `release` removes the id. On a file system without these locks a POSIX lock is taken.
`loss` then takes it again if it vanished, and sees by the file's time whether another process held it.

A forked child inherits the descriptor and with it the lock. It closes its copy right after the fork: the
parent keeps the lock, and the child holds none.
Page: docs/decisions/0013-the-lock-survives-a-copy.md. Threads: any.
"""

import errno
import fcntl
import os
import struct
import weakref
from pathlib import Path
from typing import ClassVar

from mqstore.store.errors import StoreLocked
from mqstore.store.files.file_kind import open_regular
from mqstore.store.foreign_error import is_foreign, raise_foreign, suppress_system_error
from mqstore.store.threads.lock import RLock

__all__ = ["OsFileLock"]

# struct flock of Linux on 64-bit: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = struct.Struct("hhqqi4x")
_TEXT = b"lock"
# What the system answers where it has no open file description locks.
_UNKNOWN_LOCK_ERRORS = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_HELD_ERRORS = (errno.EACCES, errno.EAGAIN)


class OsFileLock:
    """An exclusive lock on byte 0 of a file, and its entry in the registry of this process."""

    # Held while a lock is taken, checked or released.
    _guard: ClassVar = RLock()
    # The locks of this process by (device, inode): it could take a POSIX lock twice. Under _guard.
    _held: ClassVar[weakref.WeakValueDictionary[tuple[int, int], "OsFileLock"]] = (
        weakref.WeakValueDictionary()
    )

    def __init__(self, path: Path) -> None:
        """Take the lock; the file is created where it is missing. Raises StoreLocked, OSError."""
        self._path = path.absolute()
        self._descriptor = -1
        try:
            with self._guard:
                self._take(path)
        except BaseException:
            # An interrupt, too: the frames of its traceback may refer to this lock for long.
            self._close()
            raise

    def _take(self, path: Path) -> None:
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
                raise
            raise StoreLocked(path, _holder_pid(self._descriptor)) from error
        self._written_ns = status.st_mtime_ns
        self._key = (status.st_dev, status.st_ino)
        self._held[self._key] = self

    def _close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _refuse_second_lock(self, path: Path) -> None:
        # By stat, not open: closing a second descriptor would drop a POSIX lock. If something else is in
        # the place of the file, opening it says so.
        with suppress_system_error(OSError):
            status = path.stat()
            held = self._held.get((status.st_dev, status.st_ino))
            # An interrupt may leave the entry of a lock that was released.
            if held is not None and held._descriptor >= 0:
                raise StoreLocked(path, os.getpid(), is_own=True)

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
                # A disk that fails, or a directory that may not be read, does not mean that the lock is lost.
                return None
            if (status.st_dev, status.st_ino) != self._key:
                return "its lock file was replaced by another"
            return None if self._survives_a_close else self._take_again(status)

    def _take_again(self, status: os.stat_result) -> str | None:
        """Take a POSIX lock again, which may have vanished. Returns how it was lost, or None."""
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
                # The descriptor is closed exactly once, wherever an interrupt (Ctrl-C) arrives.
                try:
                    self._held.pop(self._key, None)
                    # As RocketMQ leaves it. Unlocked by a call too: a child that Python did not fork has a
                    # copy of the descriptor, which would keep the lock.
                    with suppress_system_error(OSError):
                        os.ftruncate(descriptor, len(_TEXT))
                    if self._survives_a_close:
                        _set_lock(descriptor, fcntl.F_UNLCK)
                finally:
                    self._descriptor = -1
                    os.close(descriptor)

    def __del__(self) -> None:
        # An interrupt may end the caller before it has the object.
        if getattr(self, "_key", None) is not None:
            self.release()

    @classmethod
    def _forget_all(cls) -> None:
        """In a forked child: hold no lock, and replace the guard, which a thread of the parent may hold."""
        cls._guard = RLock()
        for lock in list(cls._held.values()):
            descriptor, lock._descriptor = lock._descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)
        cls._held = weakref.WeakValueDictionary()


os.register_at_fork(after_in_child=OsFileLock._forget_all)


def _lock(descriptor: int) -> bool:
    """Lock byte 0; returns whether the lock survives when another descriptor of the file is closed."""
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
    """The process that holds a POSIX lock, by the system, or a lock of ours, by the file; None if unknown."""
    question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    answer = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    if answer[0] == fcntl.F_UNLCK:
        return None
    return answer[4] if answer[4] > 0 else _pid_in(os.pread(descriptor, 64, 0))


def _pid_in(text: bytes) -> int | None:
    words = text.split()
    return int(words[1]) if len(words) == 2 and words[1].isdigit() else None
