"""docs/mqadmin.md names every command of mqadmin, and the commands of ours in it are there.

Goal: an operator of RocketMQ finds the word that he is used to. Method: the names of RocketMQ's tools module
(what `commandName` of each class answers, in 5.5.0) are kept in mqadmin_names.txt beside this file.
"""

import re
from pathlib import Path

import pytest

from support.command_line import run
from support.sources import ROOT

NAMES = (Path(__file__).parent / "mqadmin_names.txt").read_text("utf-8").split()
ROWS = re.findall(r"(?m)^\| `(\w+)` \| (.+) \|$", (ROOT / "docs" / "mqadmin.md").read_text("utf-8"))
OURS = sorted({text for _, cell in ROWS for text in re.findall(r"`mqstore ([^`]+)`", cell)})
"""Commands of ours with their arguments. These are in capitals; small letters are words of a command."""


def test_every_command_of_mqadmin_is_in_the_table() -> None:
    """Once, in their order, with an answer."""
    assert len(NAMES) > 90
    assert [name for name, _ in ROWS] == NAMES


@pytest.mark.parametrize("text", OURS)
def test_the_commands_of_the_table_are_there(text: str) -> None:
    """With the options that it shows."""
    command = re.match(r"[a-z]+(?: [a-z]+)?", text)
    assert command is not None
    shown = run(*command[0].split(), "--help")
    assert shown.exit_code == 0
    assert f" {command[0]} [OPTIONS]" in shown.stdout
    assert not [option for option in re.findall(r" (--?[\w-]+)", text) if option not in shown.stdout]
