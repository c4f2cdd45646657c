"""Goal: the plan holds the segments with records and no others, and sees a hole.

Method: directories of small files named as segments are.
"""

import pickle
from pathlib import Path

import pytest

from mqstore.store.errors import StoreNotFound
from mqstore.tools.spark.read.segment_plan import SegmentMissing, SegmentPartition, plan_segments
from support.twins.plain_records import record, write_segment

SIZE = 256


def _write(store: Path, *start_offsets: int) -> None:
    for start_offset in start_offsets:
        write_segment(store, start_offset, record(start_offset), SIZE, blank=True)


def test_one_partition_for_each_segment(tmp_path: Path) -> None:
    """In the order of the log; only the newest is marked as the one that the writer is in."""
    _write(tmp_path, 512, 256, 768)
    directory = tmp_path / "commitlog"
    assert plan_segments(tmp_path) == [
        SegmentPartition(str(directory / f"{start:020d}"), start, SIZE, start == 768)
        for start in (256, 512, 768)
    ]


def test_segments_created_ahead_are_left_out(tmp_path: Path) -> None:
    """An all-zero segment holds nothing, and the one before it is the writer's."""
    _write(tmp_path, 0, 256)
    write_segment(tmp_path, 512, b"", SIZE)
    write_segment(tmp_path, 768, b"", 0)
    assert [(segment.start_offset, segment.is_last) for segment in plan_segments(tmp_path)] == [
        (0, False),
        (256, True),
    ]


def test_other_files_are_left_out(tmp_path: Path) -> None:
    """Only names of 20 digits are segments."""
    _write(tmp_path, 0)
    (tmp_path / "commitlog" / "00000000000000000256.tmp").write_bytes(b"x" * SIZE)
    assert [segment.start_offset for segment in plan_segments(tmp_path)] == [0]


def test_an_empty_log_has_no_partitions(tmp_path: Path) -> None:
    """Whether it has no file, or an unused one."""
    (tmp_path / "commitlog").mkdir()
    assert plan_segments(tmp_path) == []
    write_segment(tmp_path, 0, b"", SIZE)
    assert plan_segments(tmp_path) == []


def test_no_store_is_an_error(tmp_path: Path) -> None:
    """A wrong path must not look like an empty store."""
    with pytest.raises(StoreNotFound):
        plan_segments(tmp_path)


def test_a_hole_is_an_error_that_names_the_missing_file(tmp_path: Path) -> None:
    """Unless the caller wants what is there."""
    _write(tmp_path, 0, 512)
    with pytest.raises(
        SegmentMissing, match=r"offsets 256 to 512 .*00000000000000000256 is missing"
    ) as caught:
        plan_segments(tmp_path)
    assert (caught.value.begin_offset, caught.value.end_offset) == (256, 512)
    assert len(plan_segments(tmp_path, fail_on_data_loss=False)) == 2


def test_partitions_pickle(tmp_path: Path) -> None:
    """Spark sends them to other processes."""
    _write(tmp_path, 0)
    plan = plan_segments(tmp_path)
    assert pickle.loads(pickle.dumps(plan)) == plan
