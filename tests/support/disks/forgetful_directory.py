"""A directory of small files that tells every state a power cut could leave it in.

Bytes are safe once their file was synced, names once the directory was. Until then the disk may have
kept each change of a name or not, in any combination, and of unsynced bytes any beginning.
It has the few methods of `FileSystem` that a state file uses.
"""

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mqstore.store.files.memory_file_system import MemoryFileSystem

__all__ = ["ForgetfulDirectory"]


@dataclass(eq=False)
class _File:
    content: bytes = b""
    is_synced: bool = True

    def after_power_cut(self) -> list[bytes]:
        """What may be left of the bytes."""
        if self.is_synced:
            return [self.content]
        return [b"", self.content[: len(self.content) // 2], self.content]


_Names = dict[Path, _File]


class ForgetfulDirectory:
    """Files by name, as the running process sees them and as the disk may."""

    def __init__(self, files: dict[Path, bytes]) -> None:
        self._live: _Names = {path: _File(content) for path, content in files.items()}
        self._durable: _Names = dict(self._live)
        self._unsynced_changes: list[Callable[[_Names], None]] = []
        self.before_step: Callable[[], None] = lambda: None
        self.after_step: Callable[[], None] = lambda: None

    def make_directories(self, path: Path, *, durable: bool = True) -> None:
        return

    def read(self, path: Path) -> bytes:
        if path not in self._live:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self._live[path].content

    def write(self, path: Path, data: bytes) -> None:
        self.before_step()
        file = self._live.get(path)
        if file is None:
            file = _File()
            self._change(lambda names: names.update({path: file}))
        file.content, file.is_synced = data, False
        self.after_step()

    def sync(self, path: Path) -> None:
        self.before_step()
        self._live[path].is_synced = True
        self.after_step()

    def rename(self, source: Path, target: Path) -> None:
        self.before_step()
        file = self._live[source]

        def renamed(names: _Names) -> None:
            if names.get(source) is file:
                del names[source]
            names[target] = file

        self._change(renamed)
        self.after_step()

    def sync_directory(self, path: Path) -> None:
        self.before_step()
        self._durable = dict(self._live)
        self._unsynced_changes = []
        self.after_step()

    def _change(self, change: Callable[[_Names], None]) -> None:
        change(self._live)
        self._unsynced_changes.append(change)

    def after_power_cut(self) -> Iterator[MemoryFileSystem]:
        """Every directory that the disk may hold if the power goes now."""
        for kept in itertools.product((False, True), repeat=len(self._unsynced_changes)):
            names = dict(self._durable)
            for change in itertools.compress(self._unsynced_changes, kept):
                change(names)
            for contents in itertools.product(*(file.after_power_cut() for file in names.values())):
                disk = MemoryFileSystem()
                for path, content in zip(names, contents, strict=True):
                    disk.make_directories(path.parent)
                    disk.write(path, content)
                yield disk
