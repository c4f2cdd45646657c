"""dump: rows straight from the bytes, of our own files and of Apache RocketMQ's."""

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from support.command_line import json_lines, run

Golden = Callable[[str], Path]


def first_file(directory: Path) -> Path:
    return min(path for path in directory.rglob("*") if path.is_file())


def test_records_of_a_segment(orders: Path) -> None:
    """Every record, with its place and size one after the other."""
    rows = json_lines(run("dump", first_file(orders / "commitlog"), "--json"))
    assert [row["keys"] for row in rows] == [[f"o-{number}"] for number in range(6)]
    assert [row["physicalOffset"] + row["size"] for row in rows[:-1]] == [
        row["physicalOffset"] for row in rows[1:]
    ]


def test_from_and_count(orders: Path) -> None:
    """--from is a physical offset, which need not be the beginning of a record; --count limits."""
    segment = first_file(orders / "commitlog")
    rows = json_lines(run("dump", segment, "--json"))
    part = json_lines(run("dump", segment, "--json", "--from", rows[1]["physicalOffset"] + 1, "--count", 2))
    assert part == rows[2:4]
    assert "there is more" in run("dump", segment, "--count", 2).stderr


def test_entries_of_a_queue(orders: Path) -> None:
    """Entries name the records of the segment."""
    records = json_lines(run("dump", first_file(orders / "commitlog"), "--json"))
    entries = json_lines(run("dump", first_file(orders / "consumequeue" / "orders" / "1"), "--json"))
    assert [entry["physicalOffset"] for entry in entries] == [
        record["physicalOffset"] for record in records[1::2]
    ]
    assert json_lines(
        run("dump", first_file(orders / "consumequeue" / "orders" / "1"), "--json", "--from", 2)
    ) == [entries[2]]


def test_damage_is_reported_where_it_begins(orders: Path) -> None:
    """The rows before it are shown; exit code 4 names file, byte, expected and found."""
    segment = first_file(orders / "commitlog")
    third = json_lines(run("dump", segment, "--json"))[2]["physicalOffset"]
    data = bytearray(segment.read_bytes())
    data[third + 90] ^= 0xFF
    segment.write_bytes(data)
    result = run("dump", segment, "--json")
    assert result.exit_code == 4
    assert len(result.stdout.splitlines()) == 2
    assert f"damaged at byte {third}: expected body CRC" in result.stderr


@pytest.mark.parametrize("name", ["checkpoint", "mqstore/recovery-point"])
def test_the_small_files(orders: Path, name: str) -> None:
    """Their fields by name."""
    (row,) = json_lines(run("dump", orders / name, "--json"))
    assert all(isinstance(value, int) for value in row.values())


def test_a_state_file_with_unquoted_keys(orders: Path) -> None:
    """RocketMQ's text becomes plain JSON."""
    result = run("dump", orders / "config" / "topics.json", "--json")
    assert msgspec.json.decode(result.stdout)["topicConfigTable"]["orders"]["readQueueNums"] == 2


def test_a_state_file_that_is_garbage(orders: Path) -> None:
    """Exit code 4."""
    (orders / "config" / "topics.json").write_bytes(b"garbage")
    assert run("dump", orders / "config" / "topics.json").exit_code == 4


def test_a_file_that_is_none_of_a_store(tmp_path: Path) -> None:
    """Exit code 2, and what may be given."""
    (tmp_path / "notes.txt").write_text("x")
    result = run("dump", tmp_path / "notes.txt")
    assert result.exit_code == 2
    assert "commitlog/" in result.stderr


def test_every_record_of_a_directory_of_rocketmq(golden_directory: Golden) -> None:
    """All 1,995 records of its segments, V1 and V2, and a BLANK where a segment is full."""
    directory = golden_directory("rocketmq-5.3.3-clean")
    rows = [
        row
        for path in sorted((directory / "commitlog").iterdir())
        for row in json_lines(run("dump", path, "--count", 0, "--json"))
    ]
    kinds = [row["kind"] for row in rows]
    assert (kinds.count("V1") + kinds.count("V2"), kinds.count("V2") > 0) == (1_995, True)
    assert kinds.count("BLANK") == len(list((directory / "commitlog").iterdir())) - 1


def test_every_entry_of_a_directory_of_rocketmq(golden_directory: Golden) -> None:
    """All 1,949 entries of its queues."""
    directory = golden_directory("rocketmq-5.3.3-clean")
    files = [path for path in (directory / "consumequeue").rglob("*") if path.is_file()]
    rows = [row for path in files for row in json_lines(run("dump", path, "--count", 0, "--json"))]
    assert sum(not row["isBlank"] for row in rows) == 1_949


def test_the_index_files_of_rocketmq(golden_directory: Golden) -> None:
    """Entries point at records of the log and at earlier entries; times lie within the file's."""
    directory = golden_directory("rocketmq-5.3.3-clean")
    for path in sorted((directory / "index").iterdir()):
        rows = json_lines(run("dump", path, "--count", 0, "--json"))
        assert [row["entry"] for row in rows] == list(range(1, len(rows) + 1))
        assert all(0 <= row["previousEntry"] < row["entry"] for row in rows)
        assert all(0 <= row["physicalOffset"] < 2 * 1_048_576 for row in rows)


def test_reading_commands_work_on_rocketmqs_directory(golden_directory: Golden) -> None:
    """get and topics need not be told the sizes of its files, and write nothing."""
    directory = golden_directory("rocketmq-5.3.3-killed")
    rows = json_lines(run("topics", directory, "--json"))
    assert sum(row["messages"] for row in rows) == 1_949
    assert len(json_lines(run("get", directory, "TopicA", "--count", 5, "--json"))) == 5
    assert not (directory / "mqstore").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        f"commitlog/{0:020d}",
        f"consumequeue/orders/0/{0:020d}",
        "index/20260718123000123",
        f"timerlog/{0:020d}",
        "checkpoint",
        "mqstore/recovery-point",
        "config/topics.json",
    ],
)
@pytest.mark.parametrize("size", [0, 7, 39, 40, 100, 4_096])
def test_any_bytes_are_shown_or_refused(tmp_path: Path, name: str, size: int) -> None:
    """Whatever has become of a file: rows, or an error with its place, and never a traceback."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    for data in (bytes(size), b"\x7f" * size, b"\xff" * size, random.Random(size).randbytes(size)):
        path.write_bytes(data)
        for options in ((), ("--json",)):
            result = run("dump", path, *options)
            assert isinstance(result.exception, SystemExit | None), (data[:50], result.exception)
            assert result.exit_code in (0, 4)
