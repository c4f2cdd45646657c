"""A search for the next record reads no holes, nor behind the end; it finds a record that begins in a hole.

Method: a sparse segment with a record at its beginning and one far behind it; reads are counted.
"""

from pathlib import Path

import pytest

from mqstore.store.files.file_names import file_name
from mqstore.tools.spark.segments.segment_bytes import FileBytes
from mqstore.tools.spark.segments.segment_files import SegmentFile
from mqstore.tools.spark.segments.segment_reader import PassedOver, SegmentScan, opened, read_range
from support.twins.plain_records import record

_BLOCK_BYTES = 4_096
_SEGMENT_BYTES = 64 << 20


def sparse_segment(directory: Path, place: int | None, *, in_hole_bytes: int = 0) -> SegmentFile:
    """A record at 0; and another one at `place`, of which so many zeros are not written."""
    path = directory / file_name(0)
    with path.open("wb") as file:
        file.write(record(0, body=b"one"))
        if place is not None:
            behind = record(place, body=b"two")
            assert not any(behind[:in_hole_bytes])
            file.seek(place + in_hole_bytes)
            file.write(behind[in_hole_bytes:])
        file.truncate(_SEGMENT_BYTES)
    return SegmentFile(str(path), 0, _SEGMENT_BYTES)


def found_behind_the_first(segment: SegmentFile) -> int | None:
    with opened(segment) as source:
        scan = SegmentScan(source, segment, 0, _SEGMENT_BYTES, chunk_bytes=1 << 20)
        assert not scan.walk()
        return scan.find_record()


@pytest.mark.parametrize("in_hole_bytes", [0, 1, 2, 3])
def test_a_record_at_the_edge_of_a_hole_is_found(tmp_path: Path, in_hole_bytes: int) -> None:
    """The first bytes of a short record are zeros, and a file system may keep them as a hole."""
    place = 100 * _BLOCK_BYTES - in_hole_bytes
    assert found_behind_the_first(sparse_segment(tmp_path, place, in_hole_bytes=in_hole_bytes)) == place


@pytest.mark.parametrize("place", [None, 40 << 20])
def test_a_hole_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int | None) -> None:
    """Of a segment that is written to, most is one."""
    read_bytes = 0

    class CountedBytes(FileBytes):
        def read_into(self, view: memoryview, position: int) -> int:
            nonlocal read_bytes
            count = super().read_into(view, position)
            read_bytes += count
            return count

    monkeypatch.setattr("mqstore.tools.spark.segments.open_segment.FileBytes", CountedBytes)
    assert found_behind_the_first(sparse_segment(tmp_path, place)) == place
    assert 0 < read_bytes <= _SEGMENT_BYTES // 4


def test_behind_the_end_of_a_file_that_was_cut_nothing_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte by byte, up to where the file ended, it would take hours for a segment of 1 GiB."""
    reads = 0

    class CountedBytes(FileBytes):
        def read_into(self, view: memoryview, position: int) -> int:
            nonlocal reads
            reads += 1
            return super().read_into(view, position)

    segment = sparse_segment(tmp_path, 40 << 20)
    with Path(segment.path).open("r+b") as file:
        file.truncate(300_000)
    monkeypatch.setattr("mqstore.tools.spark.segments.open_segment.FileBytes", CountedBytes)
    records, passed = read_range(segment, 0, _SEGMENT_BYTES, passes_over=True)
    assert len(records) == 1
    assert isinstance(passed, PassedOver)
    assert passed.end == _SEGMENT_BYTES
    assert reads < 50
