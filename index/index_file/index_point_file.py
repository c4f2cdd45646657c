"""The file `mqstore/index-point`: where recovery of the index files continues.

It is replaced as a whole, and only after the sync that it records. A missing or damaged one costs a longer
walk over the log, never a key.
Durability: when `save` or `delete` returns. Threads: one saver at a time.
"""

from pathlib import Path

from mqstore.index.index_file.index_point_format import IndexPoint, decode_index_point, encode_index_point
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.atomic_file import read_if_present, replace_file

__all__ = ["IndexPointFile"]


class IndexPointFile:
    """`<root>/mqstore/index-point`."""

    def __init__(self, file_system: FileSystem, path: Path) -> None:
        self._file_system = file_system
        self._path = path
        self.point: IndexPoint | None = None

    def load(self) -> IndexPoint | None:
        """The point, or None when there is none to trust."""
        data = read_if_present(self._file_system, self._path)
        self.point = None if data is None else decode_index_point(data)
        return self.point

    def save(self, point: IndexPoint) -> None:
        """Replace the file; nothing is written when nothing changed."""
        if point == self.point:
            return
        self._file_system.make_directories(self._path.parent)
        replace_file(self._file_system, self._path, encode_index_point(point))
        self.point = point

    def delete(self) -> None:
        """Delete the file, durably, before the files that it covers are deleted."""
        if self._file_system.exists(self._path):
            self._file_system.delete(self._path)
            self._file_system.sync_directory(self._path.parent)
        self.point = None

    def __repr__(self) -> str:
        return f"IndexPointFile({self.point})"
