"""Opens regular files only: what else may be in their place is an error that names it.

Opening a FIFO waits for its other end, opening a device may make it act, and a socket or a directory fails
at a later step. So files are opened without waiting, and their kind is checked before anything else is done.
A link to a regular file, or to a directory, counts as its target.
Threads: any. For the modules that open files: os_file_system.py, os_file_lock.py, the tools.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from mqstore.store.errors import WrongFileKind
from mqstore.store.foreign_error import raise_foreign

__all__ = ["directory_at", "open_regular"]

# Errors of the kernel when a file is opened and something else is there.
_NO_FILE_ERRORS = (errno.EISDIR, errno.ENXIO, errno.ENODEV, errno.ELOOP)
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFREG: "a file",
}


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file; returns its descriptor. The umask alone decides who may use a new one.

    Raises WrongFileKind, also if a parent of `path` is a file; OSError.
    """
    try:
        with directory_at(path.parent):
            descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise_foreign(error)
        if error.errno in _NO_FILE_ERRORS or (error.errno == errno.ENOENT and path.is_symlink()):
            raise WrongFileKind(path, _kind_of(path)) from error
        raise
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise WrongFileKind(path, _KINDS.get(kind, "no file"))
    return descriptor


@contextlib.contextmanager
def directory_at(path: Path) -> Iterator[None]:
    """For a call that needs a directory at `path`: WrongFileKind if a file is in its place or above it."""
    try:
        yield
    except (NotADirectoryError, FileExistsError) as error:
        raise_foreign(error)
        place = next((known for known in (path, *path.parents) if known.exists()), path)
        raise WrongFileKind(place, _kind_of(place), "a directory") from error


def _kind_of(path: Path) -> str:
    try:
        return _KINDS.get(stat.S_IFMT(path.stat().st_mode), "no file")
    except OSError as error:
        raise_foreign(error)
        return "a link that leads nowhere"
