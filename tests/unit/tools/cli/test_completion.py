"""Completion by a shell: the script that it reads, and what the command answers to that script.

The installed command is asked as the script asks it; no shell is needed.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import run

SHELLS = ("bash", "zsh", "fish")


def completions(shell: str, words: str) -> str:
    """What the installed command answers when `words` are completed at their end."""
    asking = {
        "PATH": os.environ["PATH"],
        "_MQSTORE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": words.rsplit(maxsplit=1)[-1] if shell == "fish" else str(words.count(" ")),
    }
    command = Path(sys.executable).with_name("mqstore")
    return subprocess.run([command], env=asking, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_shells_complete_commands(shell: str) -> None:
    """The script asks for completions by variables, and the installed command answers them."""
    command = Path(sys.executable).with_name("mqstore")
    script = subprocess.run([command, "completion", shell], capture_output=True, text=True, check=True).stdout
    assert f"_MQSTORE_COMPLETE={shell}_complete" in script
    answer = completions(shell, "mqstore topi")
    assert "topics" in answer
    assert "topics create" not in answer
    assert "offsets" not in answer.split()


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_shells_complete_options_and_files(shell: str) -> None:
    """Options of a command of two words, too; files are left to the shell."""
    assert "--read-queues" in completions(shell, "mqstore topics create --read")
    assert completions(shell, "mqstore stats da").replace("\n", ",").startswith("file,da")


@pytest.mark.parametrize("arguments", [(), ("tcsh",)])
def test_an_unknown_shell_answers_2(arguments: tuple[str, ...]) -> None:
    """The shells that there are scripts for are named."""
    result = run("completion", *arguments)
    assert result.exit_code == 2
    assert "bash" in result.stderr
