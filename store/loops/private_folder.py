"""A folder that only this user can write: code in it may be loaded.

The temporary directory belongs to all users. Another one may have made a folder of our name there, or a
symbolic link, and whatever is loaded from it runs as us. So a folder counts as private only if

1. it is a folder and no link, belongs to this user, and gives no right to anybody else;
2. each folder above it belongs to root or to this user, and others cannot write there, or can only add what
   is theirs (the sticky bit, as /tmp has it). Otherwise they could put a folder of their own in its place.

Several processes may make it at the same time. It is checked again before every load (just_in_time.py),
because programs that tidy up the temporary directory may delete it while a process runs.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["FolderNotPrivate", "make_private_folder"]

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class FolderNotPrivate(PermissionError):
    """Another user can write the folder, or could replace it."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(f"{folder} {reason}")
        self.folder = folder


def make_private_folder(folder: Path) -> None:
    """Make `folder` unless it exists; the folder above must exist. Raises FolderNotPrivate and OSError.

    `folder` is absolute, and the path of the folder above holds no symbolic link.
    """
    for above in folder.parents:
        _check_above(above)
    with suppress(FileExistsError):  # One that is there is checked like a new one.
        folder.mkdir(0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise FolderNotPrivate(folder, "is no folder")
    if status.st_uid != os.geteuid():
        raise FolderNotPrivate(folder, f"belongs to the user {status.st_uid}")
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise FolderNotPrivate(folder, f"has mode {stat.S_IMODE(status.st_mode):04o} instead of 0700")


def _check_above(above: Path) -> None:
    status = above.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise FolderNotPrivate(above, "is no folder")
    if status.st_uid not in (0, os.geteuid()):
        raise FolderNotPrivate(above, f"belongs to the user {status.st_uid}")
    if status.st_mode & _OTHERS_MAY_WRITE and not status.st_mode & stat.S_ISVTX:
        raise FolderNotPrivate(above, "can be written by other users and has no sticky bit")
