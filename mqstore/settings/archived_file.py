"""The file `mqstore/archived`: up to where the log is in an archive, for retention, which then waits for it.

One line of text: `mqstore-archived`, the physical offset up to which the archive has confirmed the log, where
the archive is, as a JSON string, and the CRC-32C of all that. It is there only where an operator has asked
retention to wait (`mqstore archive --guard`). Then every program that opens the directory obeys, whatever its
settings. A RocketMQ broker does not know it.

The archiver writes it (tools/archive/store_archive.py), beside the writer, and under a lock of its own. The
writer's retention only reads it. A file that cannot be read is an error: nothing is deleted then.
Durability: when `save` returns. Threads: the one archiver; any reader. Page: docs/format/archived.md.
"""

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from mqstore.store.checksum.crc32c import crc32c
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.state_file import StateFile

__all__ = ["Archived", "ArchivedFile"]

_LINE = re.compile(rb'(mqstore-archived ([0-9]{1,19}) ("[^\n]*")) ([0-9a-f]{8})\n')


class Archived(NamedTuple):
    """What is archived: the log before the physical offset `end_offset`, in the archive at `place`."""

    end_offset: int
    place: str


class ArchivedFile:
    """`<root>/mqstore/archived`."""

    def __init__(self, file_system: FileSystem, path: Path) -> None:
        self._file = StateFile(file_system, path)

    def load(self) -> Archived | None:
        """What is archived; None: retention need not wait. Raises StateFileCorrupt."""
        return self._file.load(_decode)

    def save(self, archived: Archived) -> None:
        """Replace the file. `load` must have been called. Raises StoreFull, OSError."""
        text = f"mqstore-archived {archived.end_offset} ".encode() + msgspec.json.encode(archived.place)
        self._file.save(text + f" {crc32c(text):08x}\n".encode())

    def delete(self) -> None:
        """Let retention wait no more."""
        self._file.delete()

    def __repr__(self) -> str:
        return f"ArchivedFile({str(self._file.path)!r})"


def _decode(data: bytes) -> Archived:
    """Raises ValueError for anything else."""
    found = _LINE.fullmatch(data)
    if found is None or int(found[4], 16) != crc32c(found[1]):
        raise ValueError("it is no line about an archive with its CRC")
    return Archived(int(found[2]), msgspec.json.decode(found[3], type=str))
