"""`mqstore export`: what it prints and answers, where rows go, and what a kill or Ctrl-C leaves.

What the rows say is tested in tests/unit/tools/export/test_store_export.py.
"""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet
import pytest

from mqstore import Message, MessageStore
from mqstore.tools.cli.messages import export as command
from support.command_line import ORDER_CONFIG, json_lines, run

COMMAND = "from mqstore.tools.cli.app import main; main()"


@pytest.mark.parametrize("name", ["o.parquet", "o.jsonl", "o.csv"])
def test_a_topic_becomes_a_file(orders: Path, tmp_path: Path, name: str) -> None:
    """A line for people; the rows in the order of the queues."""
    result = run("export", orders, "--topic", "orders", "--out", tmp_path / name)
    assert result.exit_code == 0, result.stderr
    size_bytes = (tmp_path / name).stat().st_size
    shown = f"exported 6 rows of 1 topic to {tmp_path / name}: 1 file, {size_bytes:,} bytes\n"
    assert result.stdout == shown
    if name.endswith("parquet"):
        keys = pyarrow.parquet.read_table(tmp_path / name)["keys"].to_pylist()
    elif name.endswith("csv"):
        keys = [row["keys"] for row in csv.DictReader(io.StringIO((tmp_path / name).read_text()))]
    else:
        keys = [json.loads(line)["keys"] for line in (tmp_path / name).read_text().splitlines()]
    assert keys == ["o-0", "o-2", "o-4", "o-1", "o-3", "o-5"]


def test_all_topics_become_a_directory(orders: Path, tmp_path: Path) -> None:
    """The name of the folder says the topic; with --json the report is an object."""
    with MessageStore.open(orders, ORDER_CONFIG, start=False) as store:
        store.put_message(Message("payments", b"42"))
        store.put_message(Message("payments", b"later", delay_level=18))
    (row,) = json_lines(run("export", orders, "--out", f"{tmp_path}/lake.d/", "--json"))
    assert (row["format"], row["rows"], row["topics"]) == ("parquet", 7, {"orders": 6, "payments": 1})
    assert (row["files"], row["leftOut"]) == (2, [])
    folders = sorted(path.name for path in (tmp_path / "lake.d").iterdir())
    assert folders == ["topic=orders", "topic=payments"]
    everything = run("export", orders, "--out", tmp_path / "all", "--all", "--format", "csv", "--json")
    assert json_lines(everything)[0]["topics"]["SCHEDULE_TOPIC_XXXX"] == 1


def test_rows_may_go_to_standard_output(orders: Path) -> None:
    """Nothing but rows; how many there were is said on standard error."""
    result = run("export", orders, "--topic", "orders", "-o", "-", "--columns", "queue_id, body")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows[0] == {"queue_id": 0, "body": '{"id": 0}', "body_base64": None}
    assert rows[-1] == {"queue_id": 1, "body": None, "body_base64": "/wA="}
    assert result.stderr.endswith("exported 6 rows of 1 topic\n")
    result = run("export", orders, "-o", "-", "--format", "csv", "--columns", "keys", "--json")
    assert result.stdout.splitlines()[:2] == ['"keys"', '"o-0"']
    assert json.loads(result.stderr)["rows"] == 6


def test_a_target_that_is_taken(orders: Path, tmp_path: Path) -> None:
    """A wrong call: exit code 2, and what is there stays, unless --force says otherwise."""
    target = tmp_path / "o.csv"
    target.write_text("mine")
    result = run("export", orders, "--out", target)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--force" in result.stderr
    assert target.read_text() == "mine"
    assert run("export", orders, "--out", target, "--force").exit_code == 0
    assert target.read_text().startswith('"topic"')


def test_an_unknown_topic(orders: Path, tmp_path: Path) -> None:
    """Exit code 1, and the nearest name."""
    result = run("export", orders, "--topic", "ordres", "--out", tmp_path / "o.csv")
    assert result.exit_code == 1
    assert "did you mean 'orders'?" in result.stderr
    assert not (tmp_path / "o.csv").exists()


def test_times_are_those_of_other_commands(orders: Path, tmp_path: Path) -> None:
    """Epoch ms, or a date."""
    for begin, rows in (("2001-09-09", 6), ("4000000000000", 0)):
        result = run("export", orders, "--out", tmp_path / "o.csv", "--begin", begin, "--force", "--json")
        assert json_lines(result)[0]["rows"] == rows


def test_without_pyarrow_it_says_what_to_install(
    orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, and no file is made."""
    for name in [name for name in sys.modules if name.startswith(("mqstore.tools.export.row_", "pyarrow"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("export", orders, "--out", tmp_path / "o.csv")
    assert result.exit_code == 1
    assert result.stderr == "mqstore: an export needs pyarrow: pip install pyarrow\n"
    assert not (tmp_path / "o.csv").exists()


def test_a_terminal_gets_no_control_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    """What is not printable is escaped, also where a character comes in two pieces."""
    terminal = command._Terminal()
    for piece in (b'{"a":"\x1b[2J', "é".encode()[:1], "é".encode()[1:], b'"}\n'):
        assert terminal.write(piece) == len(piece)
    assert capsys.readouterr().out == '{"a":"\\u001b[2Jé"}\n'


def test_packed_rows_are_nothing_for_a_terminal(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A usage error instead of a screen full of signs."""
    monkeypatch.setattr(command, "_is_terminal", lambda: True)
    for arguments in (("--format", "parquet"), ("--format", "csv", "--compression", "gzip")):
        assert run("export", orders, "-o", "-", *arguments).exit_code == 2


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A store whose export takes a moment: 200 queues, so as many batches."""
    path = tmp_path / "large"
    with MessageStore.open(path, ORDER_CONFIG) as store:
        store.topics.create("orders", read_queue_nums=200, write_queue_nums=200)
        store.put_messages([Message("orders", b"x" * 50, queue_id=number % 200) for number in range(2_000)])
    return path


SLOW = """
import time
from mqstore.message_store import MessageStore
read = MessageStore.to_arrow_batches
def slowly(*arguments, **options):
    time.sleep(0.1)
    return read(*arguments, **options)
MessageStore.to_arrow_batches = slowly
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda it: it.name)
def test_an_export_that_is_ended_leaves_no_file_of_its_name(
    large: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C and SIGTERM leave nothing; a kill leaves a hidden folder."""
    folder = tmp_path / "out"
    folder.mkdir()
    arguments = [
        sys.executable,
        "-c",
        SLOW + COMMAND,
        "export",
        str(large),
        "--out",
        str(folder / "o.parquet"),
    ]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        while not list(folder.glob(".o.parquet.*/o.parquet")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        os.kill(process.pid, number)
        _, said = process.communicate(timeout=60)
    left = [path.name for path in folder.iterdir()]
    if number is signal.SIGKILL:
        assert all(name.startswith(".o.parquet.") and name.endswith(".unfinished") for name in left)
    else:
        assert (left, process.returncode) == ([], 130)
        assert said.endswith("mqstore: interrupted: nothing was exported\n")
    assert run("export", large, "--out", folder / "o.parquet").exit_code == 0
