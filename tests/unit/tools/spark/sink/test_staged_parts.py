"""Goal: what a task stages is what is put, row by row; a row that cannot be stored is found in its task.

Method: parts of random sizes, read from every row on.
"""

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from mqstore.schedule.delay.delay_levels import DEFAULT_DELAY_LEVELS
from mqstore.store.errors import MessageTooLarge, TopicIllegal
from mqstore.tools.spark.sink import staged_parts
from mqstore.tools.spark.sink.staged_parts import (
    RowCheck,
    numbered_tables,
    row_key_prefix,
    row_number,
    stage,
)

CHECK = RowCheck(1_000, DEFAULT_DELAY_LEVELS)
PREFIX = row_key_prefix("app", 1)


def table(bodies: list[str], topic: str = "orders", **more: pa.Array) -> pa.Table:
    return pa.table({"topic": [topic] * len(bodies), "body": bodies, **more})


def numbers(directory: Path, parts: list[staged_parts.Part], first: int) -> list[tuple[int | None, str]]:
    """(number by its key, body) of all rows from one on."""
    found = []
    for each in numbered_tables(directory, parts, PREFIX, first):
        for row in each.to_pylist():
            pairs = dict(pair.split("\x01") for pair in row["properties"].split("\x02") if pair)
            found.append((row_number(pairs["UNIQ_KEY"], PREFIX), row["body"]))
    return found


def test_rows_are_numbered_over_all_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any row on: the numbers are those of the whole."""
    monkeypatch.setattr(staged_parts, "_PUT_BYTES", 1)
    wanted = [str(number) for number in range(23)]
    cuts = (0, 5, 6, 15, 23)
    parts = []
    for number, (begin, end) in enumerate(pairwise(cuts)):
        rows = wanted[begin:end]
        tables = [table(rows[:2]), table([]), table(rows[2:])]
        part = stage(tmp_path / "folder" / f"part-{number}", tables, CHECK)
        assert part is not None
        assert part.rows == end - begin
        parts.append(part)
    for first in range(24):
        assert numbers(tmp_path, parts, first) == list(enumerate(wanted))[first:]


def test_other_properties_stay(tmp_path: Path) -> None:
    """Behind the key; a row without any has the key alone."""
    properties = pa.array(["a\x01b\x02", None])
    part = stage(tmp_path / "folder" / "part", [table(["x", "y"], properties=properties)], CHECK)
    assert part is not None
    (found,) = numbered_tables(tmp_path, [part], PREFIX, 0)
    texts = found["properties"].to_pylist()
    assert [text.partition("\x02")[2] for text in texts] == ["a\x01b\x02", ""]


def test_a_part_is_synced_while_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that little is left to be waited for; a sync that fails ends the task, and leaves nothing."""
    sizes: list[int] = []
    monkeypatch.setattr(staged_parts, "_SYNC_BYTES", 100)
    monkeypatch.setattr(
        staged_parts.OsFileSystem,
        "sync",
        lambda self, path: sizes.extend([path.stat().st_size] if path.is_file() else []),
    )
    path, tables = tmp_path / "folder" / "part", [table([str(number) * 60]) for number in range(6)]
    assert stage(path, tables, CHECK) is not None
    assert len(sizes) > 2
    assert sizes[-1] == path.stat().st_size

    def fail(self: object, path: Path) -> None:
        raise OSError(5, "the disk fails")

    monkeypatch.setattr(staged_parts.OsFileSystem, "sync", fail)
    with pytest.raises(OSError, match="the disk fails"):
        stage(path, tables, CHECK)
    assert not path.exists()


def test_a_task_without_rows_stages_nothing(tmp_path: Path) -> None:
    """Neither a file nor a folder."""
    assert stage(tmp_path / "folder" / "part", [table([])], CHECK) is None
    assert not list(tmp_path.iterdir())


def test_a_row_that_cannot_be_stored_leaves_nothing(tmp_path: Path) -> None:
    """Found behind rows that can: the file is deleted."""
    for wrong, error in (
        (table(["x" * 1_001]), MessageTooLarge),
        (table(["x"], topic="no topic"), TopicIllegal),
    ):
        with pytest.raises(error):
            stage(tmp_path / "folder" / "part", [table(["x"]), wrong], CHECK)
        assert not list((tmp_path / "folder").iterdir())


def test_the_greatest_queues_are_told(tmp_path: Path) -> None:
    """By topic, for the driver to look whether they are there."""
    columns = {"topic": ["a", "b", "a"], "body": ["x"] * 3, "queue_id": pa.array([1, -1, 4], pa.int32())}
    part = stage(tmp_path / "folder" / "part", [pa.table(columns)], CHECK)
    assert part is not None
    assert part.queues == {"a": 4, "b": -1}


@pytest.mark.parametrize("key", [None, "", PREFIX, PREFIX + "x" * 16, "0" * 32, PREFIX + "0" * 17])
def test_keys_of_others(key: str | None) -> None:
    """A producer's own keys are none of ours."""
    assert row_number(key, PREFIX) is None
