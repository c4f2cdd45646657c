"""A search for the next record reads no holes, nor behind the end; it finds a record that begins in a hole.

And what lies behind damage is not read once more. Method: a sparse segment with a record at its beginning and
one far behind it, and one with many damaged records; reads are counted.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqstore.index.arrow.records import Records
from mqstore.store.files.file_names import file_name
from mqstore.store.record.record_format import PHYSICAL_OFFSET_POSITION
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


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each read."""
    counts: list[int] = []

    class CountedBytes(FileBytes):
        def read_into(self, view: memoryview, position: int) -> int:
            counts.append(super().read_into(view, position))
            return counts[-1]

    monkeypatch.setattr("mqstore.tools.spark.segments.open_segment.FileBytes", CountedBytes)
    return counts


@pytest.mark.parametrize("in_hole_bytes", [0, 1, 2, 3])
def test_a_record_at_the_edge_of_a_hole_is_found(tmp_path: Path, in_hole_bytes: int) -> None:
    """The first bytes of a short record are zeros, and a file system may keep them as a hole."""
    place = 100 * _BLOCK_BYTES - in_hole_bytes
    assert found_behind_the_first(sparse_segment(tmp_path, place, in_hole_bytes=in_hole_bytes)) == place


@pytest.mark.parametrize("place", [None, 40 << 20])
def test_a_hole_is_not_read(tmp_path: Path, reads: list[int], place: int | None) -> None:
    """Of a segment that is written to, most is one."""
    assert found_behind_the_first(sparse_segment(tmp_path, place)) == place
    assert 0 < sum(reads) <= _SEGMENT_BYTES // 4


def test_many_damaged_records_are_not_read_again_and_again(tmp_path: Path, reads: list[int]) -> None:
    """Every second one of 2,000: what is behind them is in memory, and each is told."""
    data, places = bytearray(), []
    for number in range(2_000):
        places.append(len(data))
        data += record(len(data), body=b"%04d" % number)
        if number % 2:
            data[data.rindex(b"%04d" % number)] ^= 1
    path = tmp_path / file_name(0)
    path.write_bytes(data)
    segment = SegmentFile(str(path), 0, len(data))
    pieces = list(_told(read_range(segment, 0, len(data), passes_over=True, chunk_bytes=64 << 10)))
    assert pieces == places
    assert sum(reads) <= 4 * len(data)


def _told(pieces: Iterator[Records | PassedOver]) -> Iterator[int]:
    """Where the records and what was passed over begin, in the order of the log."""
    for piece in pieces:
        if isinstance(piece, PassedOver):
            yield piece.begin
        else:
            yield from piece.int64(piece.starts, PHYSICAL_OFFSET_POSITION).tolist()


def test_behind_the_end_of_a_file_that_was_cut_nothing_is_searched(tmp_path: Path, reads: list[int]) -> None:
    """Byte by byte, up to where the file ended, it would take hours for a segment of 1 GiB."""
    segment = sparse_segment(tmp_path, 40 << 20)
    with Path(segment.path).open("r+b") as file:
        file.truncate(300_000)
    records, passed = read_range(segment, 0, _SEGMENT_BYTES, passes_over=True)
    assert len(records) == 1
    assert isinstance(passed, PassedOver)
    assert passed.end == _SEGMENT_BYTES
    assert len(reads) < 50
