"""The file `abort`: it exists while a writer has the store open. Found at an opening, it means a crash.

Holds the writer's process id as text. Source: DefaultMessageStore#createTempFile, #shutdown.
Durability: both its creation and its removal are durable on return.
"""

import os
from pathlib import Path

from mqstore.store.files.file_system import FileSystem

__all__ = ["AbortFile"]


class AbortFile:
    """`<root>/abort`."""

    def __init__(self, file_system: FileSystem, path: Path) -> None:
        self._file_system = file_system
        self._path = path

    def exists(self) -> bool:
        """Whether the last writer did not close the store."""
        return self._file_system.exists(self._path)

    def create(self) -> None:
        """Mark the store as open for writing."""
        self._file_system.write(self._path, str(os.getpid()).encode())
        self._file_system.sync(self._path)
        self._file_system.sync_directory(self._path.parent)

    def delete(self) -> None:
        """Mark the store as closed; everything in it is durable."""
        self._file_system.delete(self._path)
        self._file_system.sync_directory(self._path.parent)
