"""Replacing a small file as a whole: after a crash it holds the old content or the new one, never a mixture.

    1 written    X old, X.tmp torn or new
    2 synced     X old, X.tmp new
    3 renamed    X new, or X old and X.tmp new: the disk may not remember the rename yet
    4 durable    X new, once the directory is synced

A .tmp is never read; the next replacement overwrites it. `replace_file` runs all four steps. A StateFile has
steps of its own between 2 and 3 (state_file.py).
Threads: one at a time for each file; the caller sees to that.
"""

from pathlib import Path
from typing import Final

from mqstore.store.files.file_system import FileSystem
from mqstore.store.foreign_error import raise_foreign

__all__ = ["TEMPORARY_SUFFIX", "read_if_present", "replace_file", "write_temporary"]

TEMPORARY_SUFFIX: Final = ".tmp"


def replace_file(file_system: FileSystem, path: Path, content: bytes) -> None:
    """Replace `path`, or create it; durable on return. Its directory exists. Raises StoreFull, OSError."""
    temporary = write_temporary(file_system, path, content)
    file_system.rename(temporary, path)
    file_system.sync_directory(path.parent)


def write_temporary(file_system: FileSystem, path: Path, content: bytes) -> Path:
    """Steps 1 and 2: write and sync `content` beside `path`; returns where."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    file_system.write(temporary, content)
    file_system.sync(temporary)
    return temporary


def read_if_present(file_system: FileSystem, path: Path) -> bytes | None:
    """All bytes of a small file; None when it does not exist. Raises OSError."""
    try:
        return file_system.read(path)
    except FileNotFoundError as error:
        raise_foreign(error)
        return None
