"""Goal: the list holds the segments with records and no others, and sees what is missing.

Method: directories of small files named as segments are.
"""

import pickle
from pathlib import Path

import pytest

from mqstore.store.errors import StoreNotFound
from mqstore.tools.spark.segments.segment_files import (
    SegmentFile,
    SegmentMissing,
    SegmentShort,
    list_segments,
)
from support.twins.plain_records import record, write_segment

SIZE = 256


def _write(store: Path, *start_offsets: int) -> None:
    for start_offset in start_offsets:
        write_segment(store, start_offset, record(start_offset), SIZE, blank=True)


def test_all_segments_in_the_order_of_the_log(tmp_path: Path) -> None:
    """Each with the store time of its first record."""
    _write(tmp_path, 512, 256, 768)
    write_segment(tmp_path, 768, record(768, store_timestamp=5), SIZE, blank=True)
    directory = tmp_path / "commitlog"
    assert list_segments(tmp_path) == [
        SegmentFile(str(directory / f"{start:020d}"), start, SIZE, 5 if start == 768 else 0)
        for start in (256, 512, 768)
    ]


def test_segments_created_ahead_are_left_out(tmp_path: Path) -> None:
    """An all-zero segment at the end holds nothing; before others it is damaged, and stays."""
    _write(tmp_path, 0, 512)
    write_segment(tmp_path, 256, b"", SIZE)
    write_segment(tmp_path, 768, b"", SIZE)
    write_segment(tmp_path, 1024, b"", 0)
    assert [(one.start_offset, one.first_timestamp) for one in list_segments(tmp_path)] == [
        (0, 0),
        (256, -1),
        (512, 0),
    ]


def test_a_last_segment_that_was_cut_off_is_an_error(tmp_path: Path) -> None:
    """As an interrupted copy leaves it."""
    _write(tmp_path, 0, 256)
    with (tmp_path / "commitlog" / f"{256:020d}").open("r+b") as file:
        file.truncate(200)
    with pytest.raises(SegmentShort, match="has 200 bytes, and the other segments 256"):
        list_segments(tmp_path)
    assert [one.size_bytes for one in list_segments(tmp_path, fail_on_data_loss=False)] == [256, 200]
    _write(tmp_path, 512)
    with pytest.raises(SegmentShort, match=f"{256:020d} has 200 bytes"):
        list_segments(tmp_path)


def test_other_files_are_left_out(tmp_path: Path) -> None:
    """Only names of 20 digits are segments."""
    _write(tmp_path, 0)
    (tmp_path / "commitlog" / "00000000000000000256.tmp").write_bytes(b"x" * SIZE)
    assert [segment.start_offset for segment in list_segments(tmp_path)] == [0]


def test_an_empty_log_has_no_segments(tmp_path: Path) -> None:
    """Whether it has no file, or an unused one."""
    (tmp_path / "commitlog").mkdir()
    assert list_segments(tmp_path) == []
    write_segment(tmp_path, 0, b"", SIZE)
    assert list_segments(tmp_path) == []


def test_no_store_is_an_error(tmp_path: Path) -> None:
    """A wrong path must not look like an empty store."""
    with pytest.raises(StoreNotFound):
        list_segments(tmp_path)


def test_a_hole_is_an_error_that_names_the_missing_file(tmp_path: Path) -> None:
    """Unless the caller wants what is there."""
    _write(tmp_path, 0, 512)
    with pytest.raises(
        SegmentMissing, match=r"offsets 256 to 512 .*00000000000000000256 is missing"
    ) as caught:
        list_segments(tmp_path)
    assert (caught.value.begin_offset, caught.value.end_offset) == (256, 512)
    assert len(list_segments(tmp_path, fail_on_data_loss=False)) == 2


def test_segments_pickle(tmp_path: Path) -> None:
    """Spark sends them to other processes."""
    _write(tmp_path, 0)
    plan = list_segments(tmp_path)
    assert pickle.loads(pickle.dumps(plan)) == plan
