"""The partitioned directory: each row in the file of its date, with few files open and few bytes waiting."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.tools.export import partitioned_directory
from mqstore.tools.export.export_form import export_form
from mqstore.tools.export.partitioned_directory import PartitionedDirectory
from mqstore.tools.export.row_writers import row_writer

DAY_MS = 86_400_000
FORM = export_form("parquet", None, None, all_base64=False)
Make = Callable[[Path], PartitionedDirectory]


def directory(root: Path) -> PartitionedDirectory:
    return PartitionedDirectory(root, FORM.suffix, lambda file, rows: row_writer(file, FORM, rows.schema))


def write(target: PartitionedDirectory, topic: str, times_ms: list[int], first: int = 0) -> None:
    numbers = pa.array(range(first, first + len(times_ms)), pa.int32())
    target.write(topic, pa.RecordBatch.from_pydict({"number": numbers}), np.array(times_ms, np.int64))


def content(root: Path) -> dict[str, list[int]]:
    return {
        path.relative_to(root).as_posix(): pyarrow.parquet.ParquetFile(path).read()["number"].to_pylist()
        for path in sorted(root.rglob("*.parquet"))
    }


def test_rows_of_a_batch_go_to_their_dates(tmp_path: Path) -> None:
    """In their order, though the dates come and go; the last millisecond of a day is of that day."""
    target = directory(tmp_path)
    write(target, "orders", [0, DAY_MS, DAY_MS - 1, -1, 2 * DAY_MS])
    write(target, "orders", [5, DAY_MS + 5], first=5)
    target.close()
    assert content(tmp_path) == {
        "topic=orders/date=1969-12-31/part-00000.parquet": [3],
        "topic=orders/date=1970-01-01/part-00000.parquet": [0, 2, 5],
        "topic=orders/date=1970-01-02/part-00000.parquet": [1, 6],
        "topic=orders/date=1970-01-03/part-00000.parquet": [4],
    }


def test_times_that_no_calendar_has_are_hives_null(tmp_path: Path) -> None:
    """Arrow reads the date as null, then."""
    target = directory(tmp_path)
    write(target, "orders", [2**63 - 1, 0, -(2**63), 2**62])
    target.close()
    name = "topic=orders/date=__HIVE_DEFAULT_PARTITION__/part-00000.parquet"
    assert content(tmp_path)[name] == [0, 2, 3]
    read = pyarrow.dataset.dataset(tmp_path, partitioning="hive").to_table().sort_by("number")
    assert read["date"].to_pylist() == [None, "1970-01-01", None, None]


@pytest.mark.parametrize("topic", ["%DLQ%billing", "a|b", "a b", ".."])
def test_a_topic_reads_back_from_its_folder(tmp_path: Path, topic: str) -> None:
    """Whatever characters it has."""
    target = directory(tmp_path)
    write(target, topic, [0])
    target.close()
    assert len(list(tmp_path.iterdir())) == 1
    assert pyarrow.dataset.dataset(tmp_path, partitioning="hive").to_table()["topic"].to_pylist() == [topic]


def test_few_files_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A date that comes again after its file was closed gets another part."""
    monkeypatch.setattr(partitioned_directory, "_MOST_OPEN", 2)
    target = directory(tmp_path)
    for at, day in enumerate((0, 1, 0, 2, 1, 0)):
        write(target, "orders", [day * DAY_MS], first=at)
    target.close()
    assert content(tmp_path) == {
        "topic=orders/date=1970-01-01/part-00000.parquet": [0, 2],
        "topic=orders/date=1970-01-01/part-00001.parquet": [5],
        "topic=orders/date=1970-01-02/part-00000.parquet": [1],
        "topic=orders/date=1970-01-02/part-00001.parquet": [4],
        "topic=orders/date=1970-01-03/part-00000.parquet": [3],
    }


def test_few_bytes_wait_in_all_files_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file in which most waits is written first."""
    monkeypatch.setattr(partitioned_directory, "_MOST_WAITING_BYTES", 20)
    target = directory(tmp_path)
    for day in range(9):
        write(target, "orders", [day * DAY_MS] * 2)
        assert target._waiting_bytes() <= 20
    target.close()
    assert all(numbers == [0, 1] for numbers in content(tmp_path).values())


@pytest.mark.slow
@given(days=st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=9), max_size=9))
def test_no_row_is_lost(tmp_path_factory: pytest.TempPathFactory, days: list[list[int]]) -> None:
    """And each is in the file of its date, in order."""
    root = tmp_path_factory.mktemp("lake")
    target, expected = directory(root), dict[int, list[int]]()
    count = 0
    for batch in days:
        write(target, "orders", [day * DAY_MS + 7 for day in batch], first=count)
        for day in batch:
            expected.setdefault(day, []).append(count)
            count += 1
    target.close()
    assert sorted(content(root).values()) == sorted(expected.values())
