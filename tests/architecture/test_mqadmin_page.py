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
OURS = sorted(
    {tuple(re.findall(r" (--?[\w-]+)|mqstore (\w+)", cell)) for _, cell in ROWS if "`mqstore " in cell}
)


def test_every_command_of_mqadmin_is_in_the_table() -> None:
    """Once, in their order, with an answer."""
    assert len(NAMES) > 90
    assert [name for name, _ in ROWS] == NAMES


@pytest.mark.parametrize("words", OURS, ids=str)
def test_the_commands_of_the_table_are_there(words: tuple[tuple[str, str], ...]) -> None:
    """With the options that it shows."""
    (command,) = [name for _, name in words if name]
    shown = run(command, "--help")
    assert shown.exit_code == 0
    assert not [option for option, _ in words if option and option not in shown.stdout]
