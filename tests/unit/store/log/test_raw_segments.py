"""Segments as they lie on disk: each where its records belong, and read past bad sectors.

Method: segments of a small log under other names; a file system whose reads fail.
"""

import errno
from pathlib import Path

import pytest

from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.log.raw_segments import SegmentFile, SegmentReader, list_segments
from support.stores.small_log import SEGMENT_BYTES, SmallLog

FIRST, SECOND, THIRD = (f"{start:020d}" for start in (0, SEGMENT_BYTES, 2 * SEGMENT_BYTES))


def places(file_system: FileSystem, root: Path) -> dict[str, int]:
    """By file name, the segment that it is."""
    return {
        each.path.name: each.start_offset // SEGMENT_BYTES
        for each in list_segments(file_system, root, SEGMENT_BYTES)
    }


@pytest.fixture
def log(file_system: FileSystem, root: Path) -> SmallLog:
    """Two segments."""
    made = SmallLog(file_system, root)
    for _ in range(5):
        made.append(bytes(40_000))
    return made


def test_each_segment_has_its_name(file_system: FileSystem, root: Path, log: SmallLog) -> None:
    """Files of length zero are none."""
    file_system.write(root / THIRD, b"")
    assert places(file_system, root) == {FIRST: 0, SECOND: 1}


def test_swapped_names_are_told_by_the_records(file_system: FileSystem, root: Path, log: SmallLog) -> None:
    """Of both."""
    for old, new in ((FIRST, "spare"), (SECOND, FIRST), ("spare", SECOND)):
        file_system.rename(root / old, root / new)
    assert places(file_system, root) == {FIRST: 1, SECOND: 0}
    assert all(each.is_misnamed for each in list_segments(file_system, root, SEGMENT_BYTES))


def test_a_copy_of_a_segment_keeps_the_name_that_it_has(
    file_system: FileSystem, root: Path, log: SmallLog
) -> None:
    """The file of the right name is the segment."""
    file_system.write(root / THIRD, file_system.read(root / FIRST))
    assert places(file_system, root) == {FIRST: 0, SECOND: 1, THIRD: 2}


def test_a_segment_without_a_record_goes_by_its_name(
    file_system: FileSystem, root: Path, log: SmallLog
) -> None:
    """Zeros, or other bytes."""
    file_system.write(root / SECOND, b"junk" * 1_000)
    assert places(file_system, root) == {FIRST: 0, SECOND: 1}


class BadSector(MemoryFileSystem):
    """A disk that cannot read bytes 4,096 to 8,191."""

    def read_at(self, path: Path, position: int, length_bytes: int) -> bytes:
        if position < 8_192 and position + length_bytes > 4_096:
            raise OSError(errno.EIO, "bad sector")
        return super().read_at(path, position, length_bytes)


def test_a_bad_sector_reads_as_zeros_and_is_noted() -> None:
    """What lies around it is read."""
    file_system, path = BadSector(), Path("/log") / FIRST
    file_system.make_directories(path.parent)
    file_system.write(path, b"x" * 12_288)
    reader = SegmentReader(file_system, SegmentFile(path, 0, 12_288))
    data = reader.read(100, 20_000).tobytes()
    assert data == b"x" * (4_096 - 100) + bytes(4_096) + b"x" * 4_096
    assert reader.unreadable == [4_096]
