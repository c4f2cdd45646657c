"""Names of the files of a row: 20 decimal digits, the offset of the file's first byte in the row.

The commit log and each consume queue are such rows. Source: RocketMQ's UtilAll#offset2FileName.
Pure functions, but for `row_entries`, which lists a directory. Threads: any.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mqstore.store.files.file_system import FileEntry, FileSystem

__all__ = [
    "created_file_count",
    "file_name",
    "is_file_name",
    "is_text",
    "place_in_row",
    "row_entries",
    "row_file_bytes",
]

# Below 8 * 10**18: so the end of each file is a signed 64-bit number, too.
_NAME = re.compile(r"0[0-7][0-9]{18}")


def file_name(start_offset: int) -> str:
    """The 20-digit name of the file that begins at `start_offset`.

    >>> file_name(1073741824)
    '00000000001073741824'
    """
    return f"{start_offset:020d}"


def is_file_name(name: str) -> bool:
    """Whether a file of this name may be one of a row."""
    return _NAME.fullmatch(name) is not None


def is_text(name: str) -> bool:
    """Whether a name is UTF-8, as that of each topic's directory is: other bytes come as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def place_in_row(directory: Path, offset: int, file_size_bytes: int) -> tuple[Path, int]:
    """The file that holds the byte at `offset` of a row, or would hold it, and the position in that file.

    >>> place_in_row(Path("commitlog"), 1050, 1000)
    (PosixPath('commitlog/00000000000000001000'), 50)
    """
    start_offset = max(0, offset - offset % file_size_bytes)
    return directory / file_name(start_offset), offset - start_offset


def row_entries(file_system: FileSystem, directory: Path) -> list[FileEntry]:
    """The files of the row in `directory`, those of length zero included, by name."""
    return [
        entry for entry in file_system.list(directory) if not entry.is_directory and is_file_name(entry.name)
    ]


def created_file_count(entries: Sequence[FileEntry]) -> int:
    """How many of the files, in order of their names, were created completely.

    A crash between the creation of a file and the setting of its length leaves a file of length zero. Such
    files at the end do not count. One that a longer file follows does: its owner finds the wrong length.
    """
    return max((index for index, entry in enumerate(entries, 1) if entry.size_bytes), default=0)


def row_file_bytes(entries: list[FileEntry]) -> int | None:
    """The intended length of a row's files: that of most, the longer one at a tie. None if all are empty."""
    sizes = Counter(entry.size_bytes for entry in entries if entry.size_bytes)
    return max(sizes, key=lambda size: (sizes[size], size)) if sizes else None
