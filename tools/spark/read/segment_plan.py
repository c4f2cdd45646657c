"""Planning: which segment files a batch read reads, one partition each.

The files of `commitlog/` are listed, not opened, except the newest: RocketMQ and mqstore allocate
segments ahead of the writer, so the plan leaves out empty (all-zero) segments at the end and marks the
one that the writer is in. That mark makes a read consistent: every segment before it was complete when
the plan was made, so a segment that cannot be read to its end is damaged, and not still being written.

Reads the disk directly, not through store/files/file_system.py: a partition is opened in another process,
perhaps on another machine. Takes no lock and changes nothing.
"""

import itertools
import os
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.datasource import InputPartition

from mqstore.store.errors import StoreError, StoreNotFound
from mqstore.store.files.file_kind import open_regular
from mqstore.store.files.file_names import file_name, is_file_name
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.relisting import relisting

__all__ = ["SegmentMissing", "SegmentPartition", "plan_segments"]

_FIRST_WORD_BYTES = 8


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


@dataclass(frozen=True)
class SegmentPartition(InputPartition):
    """One segment file. `is_last` says that the log may end anywhere in it."""

    path: str
    start_offset: int
    size_bytes: int
    is_last: bool


def plan_segments(store_path: Path, *, fail_on_data_loss: bool = True) -> list[SegmentPartition]:
    """The segments that hold records, in order; an empty list for an empty log.

    Raises StoreNotFound, FilesVanished, and SegmentMissing for a hole between two segments.
    """
    directory = store_path / "commitlog"
    if not directory.is_dir():
        raise StoreNotFound(store_path)
    segments = relisting(store_path, lambda: _list_segments(directory))
    if fail_on_data_loss:
        _refuse_holes(segments)
    return segments


def _list_segments(directory: Path) -> list[SegmentPartition]:
    """Raises FileNotFoundError for a file that retention deleted since it was listed."""
    paths = sorted(path for path in directory.iterdir() if is_file_name(path.name))
    while paths and _is_empty(paths[-1]):
        paths.pop()
    return [_segment(path, is_last=path == paths[-1]) for path in paths]


def _segment(path: Path, *, is_last: bool) -> SegmentPartition:
    try:
        return SegmentPartition(str(path), int(path.name), path.stat().st_size, is_last)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise_foreign(error)
        os.close(open_regular(path))  # its error names what is there instead of a file
        raise


def _is_empty(path: Path) -> bool:
    """Whether nothing was published in the file: a record's size and magic are written last."""
    descriptor = open_regular(path)
    try:
        return not any(os.read(descriptor, _FIRST_WORD_BYTES))
    finally:
        os.close(descriptor)


def _refuse_holes(segments: list[SegmentPartition]) -> None:
    for segment, following in itertools.pairwise(segments):
        end_offset = segment.start_offset + segment.size_bytes
        if end_offset != following.start_offset:
            missing = Path(segment.path).with_name(file_name(end_offset))
            raise SegmentMissing(missing, end_offset, following.start_offset)
