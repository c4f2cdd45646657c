"""The file `mqstore/recovery-point`: where our own recovery begins.

It is replaced as a whole and is only a shortcut: a missing or damaged one costs a longer scan, never a
message. It is written only after the syncs that it records.
Durability: when `save` returns. Threads: one saver at a time.
"""

from pathlib import Path

from mqstore.store.errors import UnknownVersion
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.atomic_file import read_if_present, replace_file
from mqstore.store.state.recovery_point_format import (
    VERSION,
    RecoveryPoint,
    decode_recovery_point,
    encode_recovery_point,
)

__all__ = ["RecoveryPointFile"]


class RecoveryPointFile:
    """`<root>/mqstore/recovery-point`."""

    def __init__(self, file_system: FileSystem, path: Path) -> None:
        self._file_system = file_system
        self._path = path
        self.point: RecoveryPoint | None = None

    def load(self) -> RecoveryPoint | None:
        """The point, or None when there is none to trust. Raises UnknownVersion."""
        data = read_if_present(self._file_system, self._path)
        decoded = None if data is None else decode_recovery_point(data)
        if isinstance(decoded, int):
            raise UnknownVersion(self._path, VERSION, decoded)
        self.point = decoded
        return decoded

    def save(self, point: RecoveryPoint) -> None:
        """Replace the file; nothing is written when nothing changed."""
        assert point.queues_offset <= point.log_offset, point  # I6
        if point == self.point:
            return
        replace_file(self._file_system, self._path, encode_recovery_point(point))
        self.point = point

    def delete(self) -> None:
        """Forget the point, durably, before what it covers is rebuilt."""
        self._file_system.delete(self._path)
        self._file_system.sync_directory(self._path.parent)
        self.point = None

    def __repr__(self) -> str:
        return f"RecoveryPointFile({str(self._path)!r}, {self.point})"
