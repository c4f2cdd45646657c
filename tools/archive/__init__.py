"""Archives: sealed segments in an object store or any other file system, and stores restored from them.

Each name is loaded when it is first used: a reader of an archive needs no store.
"""

from typing import TYPE_CHECKING

from mqstore.loading.lazy_names import lazy_names

if TYPE_CHECKING:
    from mqstore.tools.archive.archive_errors import ArchiveDamaged, ArchiverAtWork, ArchiveRefused
    from mqstore.tools.archive.manifest import ArchivedSegment, Manifest
    from mqstore.tools.archive.manifest_reader import read_manifest
    from mqstore.tools.archive.store_archive import ArchiveReport, archive
    from mqstore.tools.archive.store_restore import RestoreReport, restore

__all__ = [
    "ArchiveDamaged",
    "ArchiveRefused",
    "ArchiveReport",
    "ArchivedSegment",
    "ArchiverAtWork",
    "Manifest",
    "RestoreReport",
    "archive",
    "read_manifest",
    "restore",
]

__getattr__ = lazy_names(
    __name__,
    {
        "ArchiveDamaged": "mqstore.tools.archive.archive_errors",
        "ArchiveRefused": "mqstore.tools.archive.archive_errors",
        "ArchiveReport": "mqstore.tools.archive.store_archive",
        "ArchivedSegment": "mqstore.tools.archive.manifest",
        "ArchiverAtWork": "mqstore.tools.archive.archive_errors",
        "Manifest": "mqstore.tools.archive.manifest",
        "RestoreReport": "mqstore.tools.archive.store_restore",
        "archive": "mqstore.tools.archive.store_archive",
        "read_manifest": "mqstore.tools.archive.manifest_reader",
        "restore": "mqstore.tools.archive.store_restore",
    },
)
