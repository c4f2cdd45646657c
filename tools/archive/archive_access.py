"""Where an archive is and how it is reached, as a value that other processes can be told.

`ArchiveAddress` holds the address and the storage options. Each process opens its file system once, when it
is first needed. Durability: nothing is written. Threads: any.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqstore.tools.archive.archive_address import shown_address
from mqstore.tools.archive.archive_place import ArchivePlace
from mqstore.tools.archive.manifest import ArchivedSegment, Manifest, root_identity
from mqstore.tools.archive.manifest_reader import load_entry, load_manifest

__all__ = ["ArchiveAddress", "is_archive_directory"]


@dataclass(frozen=True)
class ArchiveAddress:
    """url: an address, or the path of a directory. storage_options: names and values; may be secrets."""

    url: str = field(repr=False)
    storage_options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)

    @property
    def shown(self) -> str:
        """The address without secrets."""
        return shown_address(self.url)

    @property
    def place(self) -> ArchivePlace:
        """Its file system, opened once in a process. Raises ArchiveRefused, PyarrowMissing."""
        return _place(self)

    def manifest(self) -> Manifest:
        """All entries, as they are now. Raises ArchiveRefused, ArchiveDamaged, OSError."""
        return load_manifest(self.place)

    def entry(self, start_offset: int) -> ArchivedSegment | None:
        """The entry of one segment, as it is now; None: there is none. Raises ArchiveDamaged, OSError."""
        return load_entry(self.place, start_offset)


@functools.lru_cache(maxsize=16)
def _place(address: ArchiveAddress) -> ArchivePlace:
    return ArchivePlace(address.url, storage_options=dict(address.storage_options))


def is_archive_directory(path: Path) -> bool:
    """Whether a directory of this machine is an archive: it has a root."""
    try:
        names: Iterable[Path] = path.iterdir()
        return any(root_identity(each.name) is not None for each in names)
    except OSError:
        return False
