"""Segment files: which files of a store's `commitlog/` hold records, in the order of the log.

RocketMQ and mqstore allocate segments ahead of the writer; those that are still all zero are left out. Files
are listed and their first bytes read, nothing more. Where the last one ends: log_end.py.

Reads the disk directly, not through store/files/file_system.py: a plan is read in other processes, perhaps on
other machines. Takes no lock and changes nothing.
"""

import itertools
import os
from dataclasses import dataclass
from pathlib import Path

from mqstore.store.errors import StoreError, StoreNotFound
from mqstore.store.files.file_kind import open_regular
from mqstore.store.files.file_names import file_name, is_file_name
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.record.record_format import (
    HEADER_BYTES,
    IPV6_EXTRA_BYTES,
    RecordIllegal,
    check_record,
    decode_header,
)
from mqstore.store.relisting import relisting
from mqstore.tools.archive.archive_address import ArchiveAddress

__all__ = [
    "LARGEST_RECORD_BYTES",
    "LONGEST_HEADER_BYTES",
    "SegmentFile",
    "SegmentMissing",
    "SegmentShort",
    "list_segments",
]

# An unused segment is all zeros; of a damaged one a page may be.
_BEGINNING_BYTES = 64 * 1024
LARGEST_RECORD_BYTES = 8 * 1024 * 1024
"""More than RocketMQ's largest record: 4 MiB of body, 64 KiB of the rest."""
LONGEST_HEADER_BYTES = HEADER_BYTES + 2 * IPV6_EXTRA_BYTES


class SegmentMissing(StoreError):
    """The log has a hole, or a segment was deleted before it was read."""

    def __init__(self, path: Path, begin_offset: int, end_offset: int) -> None:
        super().__init__(
            f"physical offsets {begin_offset} to {end_offset} cannot be read: {path} is missing. "
            "Restore the file, or set option failOnDataLoss to false to read what is there"
        )
        self.path = path
        self.begin_offset = begin_offset
        self.end_offset = end_offset


class SegmentShort(StoreError):
    """A segment is shorter than its place in the log: a copy was cut off."""

    def __init__(self, path: Path, size_bytes: int, expected_bytes: int) -> None:
        super().__init__(
            f"{path} has {size_bytes} bytes, and the other segments {expected_bytes}: it was cut off. "
            "Copy it again, or set option failOnDataLoss to false to read what is there"
        )
        self.path = path
        self.size_bytes = size_bytes
        self.expected_bytes = expected_bytes


@dataclass(frozen=True)
class SegmentFile:
    """One segment: a file, or an object of an archive.

    path: of the file, or to be shown. first_timestamp: store time of its first record, epoch ms; -1 if it is
    not known. object_name: in `archive`; None: it is a file, which `archive` may hold a copy of.
    """

    path: str
    start_offset: int
    size_bytes: int
    first_timestamp: int = -1
    archive: ArchiveAddress | None = None
    object_name: str | None = None

    @property
    def end_offset(self) -> int:
        """Physical offset of the byte behind it."""
        return self.start_offset + self.size_bytes


def list_segments(
    store_path: Path, *, fail_on_data_loss: bool = True, begin_offset: int | None = None
) -> list[SegmentFile]:
    """The segments that hold records, in order; an empty list for an empty log.

    begin_offset: leave out the segments that end before this physical offset; their files are not opened.
    Raises StoreNotFound, FilesVanished, SegmentMissing for a hole between two segments, SegmentShort.
    """
    directory = store_path / "commitlog"
    if not directory.is_dir():
        raise StoreNotFound(store_path)
    segments = relisting(store_path, lambda: _list(directory, begin_offset))
    if fail_on_data_loss:
        _refuse_loss(segments)
    return segments


def _list(directory: Path, begin_offset: int | None = None) -> list[SegmentFile]:
    """Raises FileNotFoundError for a file that retention deleted since it was listed."""
    paths = sorted(path for path in directory.iterdir() if is_file_name(path.name))
    if begin_offset is not None:
        followers = [*(int(path.name) for path in paths[1:]), begin_offset]
        paths = [path for path, end in zip(paths, followers, strict=False) if end >= begin_offset]
    segments = [_segment(path) for path in paths]
    while segments and segments[-1] is None:
        segments.pop()
    return [found or _empty(path) for found, path in zip(segments, paths, strict=False)]


def _segment(path: Path) -> SegmentFile | None:
    """None if nothing was ever written at the beginning of the file."""
    descriptor = open_regular(path)
    try:
        size_bytes = os.fstat(descriptor).st_size
        head = os.pread(descriptor, LONGEST_HEADER_BYTES, 0)
        if not any(head[:8]) and not os.pread(descriptor, _BEGINNING_BYTES, 0).strip(b"\0"):
            return None
        return SegmentFile(str(path), int(path.name), size_bytes, _first_timestamp(descriptor, path, head))
    finally:
        os.close(descriptor)


def _first_timestamp(descriptor: int, path: Path, head: bytes) -> int:
    """The store time of the first record, if that record is whole; else -1, for it may say anything."""
    try:
        size = decode_header(head).total_size
        record = memoryview(os.pread(descriptor, min(max(size, 0), LARGEST_RECORD_BYTES), 0))
        return check_record(record, int(path.name)).store_timestamp
    except RecordIllegal as error:
        raise_foreign(error)
        return -1


def _empty(path: Path) -> SegmentFile:
    """A segment without records before one that has some: it is damaged, as will be found when it is read."""
    return SegmentFile(str(path), int(path.name), path.stat().st_size)


def _refuse_loss(segments: list[SegmentFile]) -> None:
    usual_bytes = max((segment.size_bytes for segment in segments), default=0)
    for segment, following in itertools.pairwise(segments):
        room_bytes = following.start_offset - segment.start_offset
        if segment.size_bytes < room_bytes <= usual_bytes:
            raise SegmentShort(Path(segment.path), segment.size_bytes, room_bytes)
        if segment.size_bytes != room_bytes:
            missing = Path(segment.path).with_name(file_name(segment.end_offset))
            raise SegmentMissing(missing, segment.end_offset, following.start_offset)
    if segments and segments[-1].size_bytes < usual_bytes:
        raise SegmentShort(Path(segments[-1].path), segments[-1].size_bytes, usual_bytes)
