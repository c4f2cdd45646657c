"""Opens a segment where it is now: in the store, or in its archive.

A plan names files and objects that may be gone when a task reads them. A file that retention has deleted is
looked for in the archive that belongs to the store; an object that another archiver has replaced is looked
for by its entry, as the manifest is now. What is in neither is missing. The log does not change, so it does
not matter where a record is read.
"""

from dataclasses import replace
from pathlib import Path

from mqstore.store.files.file_kind import open_regular
from mqstore.store.foreign_error import raise_foreign
from mqstore.tools.archive.archive_access import ArchiveAddress
from mqstore.tools.archive.manifest import ArchivedSegment
from mqstore.tools.spark.read.segment_bytes import ArchivedBytes, FileBytes, SegmentBytes
from mqstore.tools.spark.read.segment_files import SegmentFile, SegmentMissing

__all__ = ["archived_file", "open_file", "open_segment"]


def open_segment(segment: SegmentFile, ahead: tuple[int, int] | None = None) -> SegmentBytes:
    """ahead: the positions that will be read. Raises SegmentMissing, ArchiveDamaged, OSError."""
    try:
        return _open(segment, ahead)
    except SegmentMissing:
        entry = None if segment.archive is None else segment.archive.entry(segment.start_offset)
        if segment.archive is None or entry is None:
            raise
        found = archived_file(segment.archive, entry)
        if found.path == segment.path:
            raise
        return _open(replace(found, size_bytes=segment.size_bytes), ahead)


def archived_file(archive: ArchiveAddress, entry: ArchivedSegment) -> SegmentFile:
    """The segment of an entry. One in a directory of this machine is a file."""
    place = archive.place
    first_timestamp = entry.parts[0].min_store_timestamp if entry.parts else -1
    path = place.shown_name(entry.name)
    return SegmentFile(
        path,
        entry.start_offset,
        entry.size_bytes,
        first_timestamp,
        archive,
        None if place.directory is not None else entry.name,
    )


def open_file(segment: SegmentFile) -> FileBytes:
    """Raises SegmentMissing, OSError."""
    path = Path(segment.path)
    try:
        return FileBytes(open_regular(path))
    except FileNotFoundError as error:
        raise_foreign(error)
        raise SegmentMissing(path, segment.start_offset, segment.end_offset) from None


def _open(segment: SegmentFile, ahead: tuple[int, int] | None) -> SegmentBytes:
    name, archive = segment.object_name, segment.archive
    if name is None or archive is None:
        return open_file(segment)
    try:
        return ArchivedBytes(lambda: archive.place.open(name), segment.size_bytes, ahead)
    except FileNotFoundError as error:
        raise_foreign(error)
        raise SegmentMissing(Path(segment.path), segment.start_offset, segment.end_offset) from None
