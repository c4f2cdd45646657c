"""Goal: the log is cut into tasks that keep all processors at work to the end, and into no more than that.

Method: sizes for machines of many kinds; cuts of random ranges of a real log, whose parts must be the whole.
"""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqstore import Message, MessageStore
from mqstore.tools.spark.read.partitions import SegmentRange
from mqstore.tools.spark.read.range_plan import cut_into_tasks, target_bytes, wanted_ranges
from mqstore.tools.spark.read.selection import Selection
from mqstore.tools.spark.segments.segment_files import list_segments
from support.stores.small_log import SEGMENT_BYTES, small_config

MIB = 1 << 20
LEAST, MOST = 128 * MIB, 512 * MIB
_RECORD_BYTES = 500


@pytest.mark.parametrize("cores", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("total_mib", [1, 100, 300, 1024, 1025, 2600, 10_000, 1_000_000])
def test_every_processor_has_the_same_number_of_tasks(
    monkeypatch: pytest.MonkeyPatch, cores: int, total_mib: int
) -> None:
    """Of 128 to 512 MiB: the fewest that are a multiple of the processors; fewer of a small log."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    total = total_mib * MIB
    target = target_bytes(total, None, None)
    assert LEAST <= target <= MOST
    tasks = -(-total // target)
    if total >= LEAST * cores:
        assert tasks % cores == 0
        assert (tasks - cores) * MOST < total
    else:
        assert target == LEAST


@pytest.mark.parametrize(
    ("min_partitions", "max_bytes", "expected"),
    [(None, 10 * MIB, 10 * MIB), (200, None, 5 * MIB), (200, 10 * MIB, 5 * MIB), (10, 2 * MIB, 2 * MIB)],
)
def test_options_count_before_that(min_partitions: int | None, max_bytes: int | None, expected: int) -> None:
    """Of two, the one that makes more tasks."""
    assert target_bytes(1000 * MIB, min_partitions, max_bytes) == expected


@pytest.fixture(scope="module")
def ranges(tmp_path_factory: pytest.TempPathFactory) -> list[SegmentRange]:
    """Those of a log of some twenty small segments."""
    path = tmp_path_factory.mktemp("cut") / "store"
    with MessageStore.open(path, small_config()) as store:
        store.topics.create("orders", 1)
        end = 0
        while end < 20 * SEGMENT_BYTES:
            result = store.put_message(Message("orders", bytes(_RECORD_BYTES - 100)))
            end = result.physical_offset + result.store_size
    return wanted_ranges(list_segments(path), 0, end, Selection())


def _joined(parts: list[SegmentRange]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for one in parts:
        if found and found[-1][1] == one.begin and one.begin % SEGMENT_BYTES:
            found[-1] = (found[-1][0], one.end)
        else:
            found.append((one.begin, one.end))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.integers(0, 18), count=st.integers(1, 20), divisor=st.floats(0.3, 40), whole=st.booleans())
def test_tasks_are_the_whole_and_of_one_size(
    ranges: list[SegmentRange], first: int, count: int, divisor: float, whole: bool
) -> None:
    """A quarter more or less, and a record; less where segments are kept whole."""
    some = ranges[first : first + count]
    total = sum(one.size_bytes for one in some)
    target = max(int(total / divisor), 1)
    tasks = list(cut_into_tasks(some, target, keeps_whole=whole))
    assert _joined([one for task in tasks for one in task]) == [(one.begin, one.end) for one in some]
    sizes = [sum(one.size_bytes for one in task) for task in tasks]
    assert all(size <= 1.25 * target + 2 * _RECORD_BYTES for size in sizes)
    if not whole:
        assert all(size >= 0.75 * target - 2 * _RECORD_BYTES for size in sizes[:-1])
        assert abs(len(tasks) - total / target) <= 1


@pytest.mark.parametrize("begin", [0, 1, 50, 100, 150, 200])
def test_a_segment_of_the_size_of_a_task_is_kept_whole(ranges: list[SegmentRange], begin: int) -> None:
    """So that the advice of ForgedBoundary helps, wherever the first range begins."""
    first = ranges[0]
    cut = next(iter(cut_into_tasks([first], 500 * (begin + 1))))[-1].end
    some = [SegmentRange(first.segment, cut, first.end), *ranges[1:]]
    tasks = list(cut_into_tasks(some, SEGMENT_BYTES, keeps_whole=True))
    assert [one for task in tasks for one in task] == some
    assert all(sum(one.size_bytes for one in task) <= 1.25 * SEGMENT_BYTES for task in tasks)
    if begin == 100:
        cut_through = list(cut_into_tasks(some, SEGMENT_BYTES))
        assert [one for task in cut_through for one in task] != some
