"""Archives: sealed segments in an object store or any other file system, and stores restored from them."""

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
