"""`mqstore backup`: what it prints and answers; and that another process copies beside a live writer.

What a copy holds is tested in tests/unit/mqstore/administration/test_backup.py.
"""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.administration.unfinished_copy import begin_copy, unfinished_layout
from mqstore.store.files.os_file_system import OsFileSystem
from support.command_line import ORDER_CONFIG, json_lines, run

COMMAND = "from mqstore.tools.cli.app import main; main()"


@pytest.mark.slow
def test_a_store_is_copied(orders: Path, tmp_path: Path) -> None:
    """One line for people, one object for machines, and a store that is sound."""
    result = run("backup", orders, tmp_path / "copy")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("copied: physical offsets 0 to ")
    assert " in 1 segments, " in result.stdout
    (row,) = json_lines(run("backup", orders, tmp_path / "again", "--json"))
    assert (row["path"], row["minOffset"], row["segments"]) == (str(tmp_path / "again"), 0, 1)
    assert row["maxOffset"] > 0
    for copy in ("copy", "again"):
        assert run("verify", tmp_path / copy).stdout == "sound: 6 records in 1 segments\n"


def test_a_target_that_is_taken(orders: Path, tmp_path: Path) -> None:
    """A wrong call: exit code 2, and nothing has changed."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    result = run("backup", orders, tmp_path / "taken")
    assert result.exit_code == 2
    assert "it is not empty" in result.stderr
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["file"]


def test_another_backup_to_the_same_place_is_under_way(orders: Path, tmp_path: Path) -> None:
    """It is waited for, or another place is named: exit code 3."""
    mark = begin_copy(OsFileSystem(), unfinished_layout(tmp_path / "copy"))
    try:
        result = run("backup", orders, tmp_path / "copy")
    finally:
        mark.release()
    assert (result.exit_code, "another backup to this place is under way" in result.stderr) == (3, True)
    assert not (tmp_path / "copy").exists()


def test_no_store_there(tmp_path: Path) -> None:
    """Exit code 1, and no target."""
    result = run("backup", tmp_path / "none", tmp_path / "copy")
    assert result.exit_code == 1
    assert not (tmp_path / "copy").exists()


@pytest.mark.slow
def test_beside_a_live_writer(tmp_path: Path) -> None:
    """Another process copies while this one puts: all that was put before it began is in the copy."""
    root, copy = tmp_path / "store", tmp_path / "copy"
    with MessageStore.open(root, ORDER_CONFIG) as store:
        before = [store.put_message(Message("orders", b"before", keys=("k",))) for _ in range(50)]
        is_over = threading.Event()

        def put() -> None:
            while not is_over.is_set():
                store.put_message(Message("orders", b"meanwhile" + bytes(200), keys=("k",)))

        putting = threading.Thread(target=put)
        putting.start()
        try:
            done = subprocess.run(
                [sys.executable, "-c", COMMAND, "backup", str(root), str(copy)],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            is_over.set()
            putting.join()
        assert done.returncode == 0, done.stderr
        assert (root / "abort").exists()
    assert "sound" in run("verify", copy).stdout
    with MessageStore.open(copy, read_only=True) as opened:
        for put_result in before:
            message = opened.look_message_by_offset(put_result.physical_offset)
            assert message is not None
            assert bytes(message.body) == b"before"
