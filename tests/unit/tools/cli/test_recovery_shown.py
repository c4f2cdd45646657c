"""A command that has to recover a store first shows how far it is, on standard error."""

import os
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.tools.cli import open_store
from support.command_line import run


def leave_unclean(path: Path) -> None:
    """A process puts and dies."""
    process_id = os.fork()
    if process_id == 0:
        store = MessageStore.open(path, start=False)
        for number in range(20):
            store.put_message(Message("orders", b"%d" % number * 1_000))
        os._exit(0)
    os.waitpid(process_id, 0)


def test_a_long_recovery_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done, how far it is, and how much there is."""
    monkeypatch.setattr(open_store, "_WORTH_SHOWING_BYTES", 1)
    leave_unclean(tmp_path / "data")
    result = run("put", tmp_path / "data", "orders", "one more")
    assert result.exit_code == 0
    assert "filling the queues, bytes: 32,340 of 32,340" in result.stderr
    assert "offset 20," in result.stdout


def test_a_short_recovery_is_not(tmp_path: Path) -> None:
    """Nobody could read it."""
    leave_unclean(tmp_path / "data")
    assert run("put", tmp_path / "data", "orders", "one more").stderr == ""
