"""put and ingest: what is stored, from which input, and what a bad row leaves behind."""

import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from mqstore import StoreConfig
from mqstore.tools.cli.open_store import open_for_writing
from support.command_line import json_lines, run

ROWS = [{"id": number, "state": "open" if number % 2 else "paid", "amount": 1.5} for number in range(2_500)]
SMALL = ("-o", "mapped_file_size_commit_log=1048576", "-o", "max_message_size=65536")


def stored(path: Path, topic: str = "orders") -> list[dict[str, object]]:
    rows = json_lines(run("get", path, topic, "--count", 10_000, "--json"))
    return sorted(rows, key=lambda row: row["physicalOffset"])


def write_jsonl(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return path


def test_put_stores_all_that_it_is_told(tmp_path: Path) -> None:
    """Body, tag, keys, queue and properties are found again, and the answer says where."""
    options = ("--tag", "t", "--key", "a", "--key", "b", "--queue", 3, "--property", "color=red")
    answer = run("put", tmp_path, "orders", "hello", *options, "--json", *SMALL)
    (row,) = stored(tmp_path)
    assert (row["body"], row["tags"], row["keys"], row["queueId"]) == ("hello", "t", ["a", "b"], 3)
    assert row["properties"]["color"] == "red"  # type: ignore[index]
    assert json_lines(answer)[0]["msgId"] == row["msgId"]


@pytest.mark.parametrize(
    "arguments",
    [("put", "", "orders", "x"), ("ingest", "", "-"), ("put", "data", "orders", "x", "--config", "")],
)
def test_an_empty_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """A shell makes one of an unset variable; as a path it is the current directory."""
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert (result.exit_code, "the path is empty" in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("no spaces allowed", "x"),
        ("orders", "x", "--property", "a\x01b=c"),
        ("orders", "x", "--tag", "a\x02"),
    ],
)
def test_a_refused_message_leaves_no_store(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Exit code 2, and there is no directory; one that is there stays empty."""
    assert run("put", tmp_path / "data", *arguments).exit_code == 2
    assert run("put", tmp_path, *arguments).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_not_utf_8(tmp_path: Path) -> None:
    """Is one like any other."""
    path = tmp_path / "caf\udce9"
    run("put", path, "orders", "x", "--key", "o-1", *SMALL)
    assert json_lines(run("query", path, "orders", "--key", "o-1", "--json"))[0]["body"] == "x"
    assert run("backup", path, tmp_path / "copy\udce9").exit_code == 0
    assert run("verify", tmp_path / "copy\udce9").exit_code == 0


def test_put_reads_standard_input(tmp_path: Path) -> None:
    """Without a body, or with -, bytes of standard input are the body, as they are."""
    run("put", tmp_path, "orders", *SMALL, stdin=b"\x00\xff")
    run("put", tmp_path, "orders", "-", stdin=b"text")
    assert [row["body"] for row in stored(tmp_path)] == ["00ff", "text"]


def test_put_with_a_delay_lies_in_the_schedule_topic(tmp_path: Path) -> None:
    """A delay level is RocketMQ's rewrite."""
    row = json_lines(run("put", tmp_path, "orders", "x", "--delay-level", 3, "--json", *SMALL))[0]
    assert (row["topic"], row["queueId"]) == ("SCHEDULE_TOPIC_XXXX", 2)


def test_settings_come_from_a_file_and_from_options(tmp_path: Path) -> None:
    """-o wins over --config."""
    config = tmp_path / "store.toml"
    config.write_text("mapped_file_size_commit_log = 1048576\nmax_message_size = 2\n")
    refused = run("put", tmp_path / "s", "orders", "body", "--config", config)
    assert refused.exit_code == 2
    assert (
        run("put", tmp_path / "s", "orders", "body", "--config", config, "-o", "max_message_size=4").exit_code
        == 0
    )


def test_a_command_deletes_no_expired_segments(tmp_path: Path) -> None:
    """The directory does not say how long they are kept; who gives it with the command does."""
    with open_for_writing(tmp_path / "data") as store:
        assert store.config.file_reserved_time == 24 * 365 * 100
        assert not store.config.clean_file_forcibly_enable
    with open_for_writing(tmp_path / "data", settings=["file_reserved_time=1"]) as store:
        assert (store.config.file_reserved_time, store.config.clean_file_forcibly_enable) == (1, True)
    with open_for_writing(tmp_path / "data", deletes_expired=True) as store:
        assert store.config.file_reserved_time == StoreConfig().file_reserved_time


def test_ingest_json_lines(tmp_path: Path) -> None:
    """Every row becomes a message, queues take turns, keys and tags come from fields, the body is the row."""
    file = write_jsonl(tmp_path / "rows.jsonl", ROWS)
    options = ("--key-field", "id", "--key-field", "amount", "--tag-field", "state")
    result = run("ingest", tmp_path / "s", file, "--topic", "orders", *options, *SMALL)
    assert result.exit_code == 0, result.stderr
    assert "2,500 rows" in result.stdout
    rows = stored(tmp_path / "s")
    assert [msgspec.json.decode(str(row["body"])) for row in rows] == ROWS
    assert (rows[1]["keys"], rows[1]["tags"], rows[1]["queueId"]) == (["1", "1.5"], "open", 1)


def test_ingest_from_standard_input(tmp_path: Path) -> None:
    """- reads JSON lines, or what --format says."""
    run("ingest", tmp_path, "-", "--topic", "orders", *SMALL, stdin=b'{"a": 1}\n\n{"a": 2}\n')
    run("ingest", tmp_path, "-", "--topic", "orders", "--format", "csv", stdin=b"a,b\n3,x\n")
    bodies = [msgspec.json.decode(str(row["body"])) for row in stored(tmp_path)]
    assert bodies == [{"a": 1}, {"a": 2}, {"a": 3, "b": "x"}]


def test_ingest_csv_and_parquet_alike(tmp_path: Path) -> None:
    """The same rows from both give the same bodies: numbers as numbers."""
    table = pa.Table.from_pylist(ROWS)
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "rows.csv")
    for name in ("rows.parquet", "rows.csv"):
        assert (
            run(
                "ingest", tmp_path / "s", tmp_path / name, "--topic", name.replace(".", "_"), *SMALL
            ).exit_code
            == 0
        )
    bodies = [
        [row["body"] for row in stored(tmp_path / "s", topic)] for topic in ("rows_parquet", "rows_csv")
    ]
    assert bodies[0] == bodies[1]
    assert [msgspec.json.decode(str(body)) for body in bodies[0]] == ROWS


def test_ingest_takes_topic_queue_and_body_from_fields(tmp_path: Path) -> None:
    """One file may fill several topics; the body may be one field."""
    rows: list[dict[str, object]] = [
        {"t": "one", "q": 2, "text": "a"},
        {"t": "two", "q": "0", "text": {"b": 1}},
    ]
    file = write_jsonl(tmp_path / "rows.jsonl", rows)
    options = ("--topic-field", "t", "--queue-field", "q", "--body-field", "text")
    assert run("ingest", tmp_path / "s", file, *options, *SMALL).exit_code == 0
    (one,), (two,) = stored(tmp_path / "s", "one"), stored(tmp_path / "s", "two")
    assert (one["queueId"], one["body"], two["queueId"], two["body"]) == (2, "a", 0, '{"b":1}')


BAD_ROWS = {
    "no JSON": (b"{nonsense", "is no JSON"),
    "no object": (b"[1, 2]", "must be an object"),
    "no key field": (b'{"other": 1}', "has no field 'id'"),
    "bad queue": (b'{"id": 1, "q": "x"}', "a queue is a whole number"),
    "queue too high": (b'{"id": 1, "q": 999}', "999"),
    "key with a separator": (b'{"id": "a\\u0001b", "q": 0}', "separator"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_is_named_and_the_rows_before_it_are_stored(tmp_path: Path, name: str) -> None:
    """Exit code 1, the row's number, how many are stored; --skip goes on from there, nothing doubled."""
    line, reason = BAD_ROWS[name]
    good = [b'{"id": %d, "q": 0}' % number for number in range(1_500)]
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"\n".join([*good[:1_200], line, *good[1_200:]]))
    options = ("--topic", "orders", "--key-field", "id", "--queue-field", "q")
    result = run("ingest", tmp_path / "s", file, *options, *SMALL)
    assert result.exit_code == 1
    assert "row 1,201" in result.stderr
    assert reason in result.stderr
    assert "1,200 rows were stored" in result.stderr
    file.write_bytes(b"\n".join(good))
    assert run("ingest", tmp_path / "s", file, *options, "--skip", 1_200).exit_code == 0
    assert [row["keys"] for row in stored(tmp_path / "s")] == [[str(number)] for number in range(1_500)]


def test_ingest_needs_a_topic(tmp_path: Path) -> None:
    """Neither --topic nor --topic-field: usage, and no store is created."""
    result = run("ingest", tmp_path / "s", write_jsonl(tmp_path / "rows.jsonl", []))
    assert result.exit_code == 2
    assert not (tmp_path / "s").exists()


def test_ingest_of_a_missing_file(tmp_path: Path) -> None:
    """Said as usage, and no store is created."""
    result = run("ingest", tmp_path / "s", tmp_path / "missing.csv", "--topic", "orders")
    assert result.exit_code == 2
    assert not (tmp_path / "s").exists()


def test_a_csv_that_changes_its_mind(tmp_path: Path) -> None:
    """A column that is no longer a number far down is reported as a row, not as a traceback."""
    file = tmp_path / "rows.csv"
    file.write_text("id,text\n" + f"1,{'long' * 100}\n" * 10_000 + "x,short\n")
    result = run("ingest", tmp_path / "s", file, "--topic", "orders", *SMALL)
    assert result.exit_code == 1
    assert "rows were stored" in result.stderr


def test_a_file_that_needs_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing of rows to skip: none was read."""
    (tmp_path / "rows.csv").write_text("id\n1\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("ingest", tmp_path / "store", tmp_path / "rows.csv", "--topic", "orders")
    assert result.exit_code == 1
    assert result.stderr == "mqstore: reading csv needs pyarrow: pip install pyarrow\n"
