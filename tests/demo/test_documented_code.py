"""The code blocks of tutorials, how-to pages and some others run as they stand, and print what is said.

Goal: a reader who copies a page's blocks one after the other gets what the page promises. Method: for each
page an empty directory, in which its blocks are run in order, Python and shell each in a process of its own
(plain lines of `mqstore` in this one). A block `text` is what the block before it printed. A comment before a
block tells what else is done with it:

    <!-- saved as the module NAME -->        a later block imports it
    <!-- not run: reason -->                 a reader may, a test cannot
    <!-- runs until the end of the page -->  a server, on a free port in place of 9876
"""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support import command_line

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("docs/tutorials/*.md"), *ROOT.glob("docs/howto/*.md"), ROOT / "docs" / "archive.md"]
)
BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
KINDS = {"python", "sh", "text", "toml", "ini", "dockerfile", "yaml"}


class Block(NamedTuple):
    """A code block of a page: what is said of it in a comment before it, its language, its text."""

    note: str
    kind: str
    text: str


def blocks_of(page: str) -> list[Block]:
    """All blocks, in their order."""
    return [Block(found["note"] or "", found["kind"], found["text"]) for found in BLOCK.finditer(page)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment() -> dict[str, str]:
    """The commands of this installation come first."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120"}


def argv(block: Block) -> list[str]:
    return [sys.executable, "-c", block.text] if block.kind == "python" else ["bash", "-euc", block.text]


@contextlib.contextmanager
def server(block: Block, directory: Path, port: int) -> Iterator[None]:
    """Run it in a process group of its own, until the end; comes back once the port answers."""
    with subprocess.Popen(
        argv(block), cwd=directory, env=environment(), start_new_session=True, stdout=subprocess.DEVNULL
    ) as running:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                assert running.poll() is None, "the server has ended"
                time.sleep(0.1)
            yield
        finally:
            os.killpg(running.pid, signal.SIGTERM)


def run_commands(lines: list[str], directory: Path) -> str:
    """Lines of `mqstore` alone, in this process: a process for each would take a second and more."""
    with contextlib.chdir(directory):
        results = [command_line.run(*shlex.split(line)[1:]) for line in lines]
    for line, result in zip(lines, results, strict=True):
        assert result.exit_code == 0, f"{line}\n{result.output}"
    return "".join(result.stdout for result in results)


def run(block: Block, directory: Path) -> str:
    """What it prints. It must end with exit code 0."""
    lines = block.text.splitlines()
    if block.kind == "sh" and all(re.match(r"mqstore [^$|&;<>#]*$", line) for line in lines):
        return run_commands(lines, directory)
    ended = subprocess.run(
        argv(block),
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, f"{block.text}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def run_page(text: str, directory: Path) -> int:
    """Run all blocks; returns how many were."""
    port = free_port()
    printed: list[str] = []
    last: Block | None = None
    count = 0
    with contextlib.ExitStack() as servers:
        for block in blocks_of(text.replace("9876", str(port))):
            name = re.match(r"saved as the module (\w+)", block.note)
            if block.kind == "text":
                # The second of two in a row is what the program prints when it is run again.
                if not printed and last is not None:
                    printed.append(run(last, directory))
                assert printed.pop() == block.text
            elif block.note.startswith("not run: "):
                continue
            elif name:
                (directory / f"{name[1]}.py").write_text(block.text)
            elif block.note == "runs until the end of the page":
                servers.enter_context(server(block, directory, port))
                count += 1
            elif block.kind in ("python", "sh") and block.text.strip() != "pip install .":
                printed, last = [run(block, directory)], block
                count += 1
    return count


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT / "docs").as_posix())
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    """In their order, with what they print, as far as the page says it."""
    assert run_page(page.read_text("utf-8"), tmp_path) > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT / "docs").as_posix())
def test_no_block_is_of_an_unknown_kind(page: Path) -> None:
    """A misspelt language would be a block that nobody runs."""
    assert {block.kind for block in blocks_of(page.read_text("utf-8"))} <= KINDS


def test_readme_shows_the_quickstart_that_is_tested() -> None:
    """README has the program of the page, letter by letter, and it has 20 lines of code."""
    (program,) = [
        block.text
        for block in blocks_of((ROOT / "docs" / "tutorials" / "quickstart.md").read_text("utf-8"))
        if block.kind == "python"
    ]
    assert program in [block.text for block in blocks_of((ROOT / "README.md").read_text("utf-8"))]
    lines = [line for line in program.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(lines) <= 20


def test_a_wrong_print_is_found(tmp_path: Path) -> None:
    """The checker objects to a page whose program prints something else."""
    with pytest.raises(AssertionError):
        run_page("```python\nprint(1)\n```\n\n```text\n2\n```\n", tmp_path)


def test_a_failing_command_is_found(tmp_path: Path) -> None:
    """And to a command that fails."""
    with pytest.raises(AssertionError):
        run_page("```sh\nfalse\n```\n", tmp_path)
