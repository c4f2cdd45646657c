"""Opens a segment where it is now: in the store, or in its archive.

A plan names files and objects that may be gone when a task reads them, or in the middle of that. A file that
retention has deleted is looked for in the archive of the store; an object that another archiver has replaced
is looked for by its entry, as the manifest is now. What is in neither is missing. The log does not change, so
it does not matter where a record is read.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mqstore.store.files.file_kind import open_regular
from mqstore.store.foreign_error import raise_foreign
from mqstore.tools.archive.archive_address import ArchiveAddress
from mqstore.tools.archive.manifest import ArchivedSegment
from mqstore.tools.spark.segments.segment_bytes import ArchivedBytes, FileBytes, SegmentBytes
from mqstore.tools.spark.segments.segment_files import SegmentFile, SegmentMissing

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["archived_file", "open_file", "open_segment"]


def open_segment(segment: SegmentFile, ahead: tuple[int, int] | None = None) -> SegmentBytes:
    """ahead: the positions that will be read.

    Raises SegmentMissing, ArchiveRefused, ArchiveDamaged, OSError.
    """
    if segment.object_name is None:
        try:
            return open_file(segment)
        except SegmentMissing:
            found = _found_now(segment)
            if found is None:
                raise
            if found.object_name is None:
                return open_file(found)
            return ArchivedBytes(partial(_open_object, found), segment.size_bytes, ahead)
    return ArchivedBytes(partial(_open_object, segment), segment.size_bytes, ahead)


def archived_file(archive: ArchiveAddress, entry: ArchivedSegment) -> SegmentFile:
    """The segment of an entry. One in a directory of this machine is a file."""
    place = archive.place
    return SegmentFile(
        place.shown_name(entry.name),
        entry.start_offset,
        entry.size_bytes,
        entry.parts[0].min_store_timestamp if entry.parts else -1,
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
        raise _missing(segment) from None


def _open_object(segment: SegmentFile) -> "pa.NativeFile":
    """Under the name that the manifest has now, if its own is gone."""
    assert segment.archive is not None
    place = segment.archive.place
    try:
        return place.open(str(segment.object_name))
    except FileNotFoundError:
        found = _found_now(segment)
    if found is None:
        raise _missing(segment)
    try:
        return place.open(str(found.object_name))
    except FileNotFoundError:
        raise _missing(segment) from None


def _found_now(segment: SegmentFile) -> SegmentFile | None:
    """Where the archive has the segment; None if that is where it was not found."""
    entry = None if segment.archive is None else segment.archive.entry(segment.start_offset)
    if segment.archive is None or entry is None:
        return None
    found = archived_file(segment.archive, entry)
    return None if found.path == segment.path else found


def _missing(segment: SegmentFile) -> SegmentMissing:
    return SegmentMissing(Path(segment.path), segment.start_offset, segment.end_offset)
