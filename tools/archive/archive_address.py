"""Where an archive is and how it is reached, as a value that other processes can be told.

`ArchiveAddress` holds the address and the storage options. Each process opens its file system once, when it
is first needed. Durability: nothing is written. Threads: any.
"""

import functools
import json
from dataclasses import dataclass, field
from pathlib import Path

from mqstore.tools.archive.archive_errors import ArchiveRefused
from mqstore.tools.archive.archive_file_system import shown_address
from mqstore.tools.archive.archive_place import ArchivePlace
from mqstore.tools.archive.manifest import ArchivedSegment, Manifest, root_identity
from mqstore.tools.archive.manifest_reader import load_entry, load_manifest

__all__ = ["ArchiveAddress", "is_archive_directory"]


@dataclass(frozen=True)
class ArchiveAddress:
    """url: an address, or the path of a directory. storage_options: a JSON object; it may hold secrets.

    store: the identity of the store whose archive it must be; None: of any.
    """

    url: str = field(repr=False)
    storage_options: str = field(default="{}", repr=False)
    store: str | None = None

    @property
    def shown(self) -> str:
        """The address without secrets."""
        return shown_address(self.url)

    @property
    def place(self) -> ArchivePlace:
        """Its file system, opened once in a process. Raises ArchiveRefused, PyarrowMissing."""
        return _place(self.url, self.storage_options)

    def manifest(self) -> Manifest:
        """All entries, as they are now. Raises ArchiveRefused, ArchiveDamaged, OSError."""
        manifest = load_manifest(self.place)
        self._refuse_other(manifest.store)
        return manifest

    def entry(self, start_offset: int) -> ArchivedSegment | None:
        """The entry of one segment, as it is now; None: there is none.

        Raises ArchiveRefused, ArchiveDamaged, OSError.
        """
        entry = load_entry(self.place, start_offset)
        if entry is not None:
            self._refuse_other(entry.store)
        return entry

    def _refuse_other(self, store: str) -> None:
        if self.store not in (None, store):
            raise ArchiveRefused(
                f"{self.place.shown} is the archive of store {store}, and store {self.store} is read: give "
                "the archive of that store",
                value=self.place.shown,
            )


@functools.lru_cache(maxsize=16)
def _place(url: str, storage_options: str) -> ArchivePlace:
    return ArchivePlace(url, storage_options=json.loads(storage_options))


def is_archive_directory(path: Path) -> bool:
    """Whether a directory of this machine is an archive: it has a root."""
    try:
        return any(root_identity(each.name) is not None for each in path.iterdir())
    except OSError:
        return False
