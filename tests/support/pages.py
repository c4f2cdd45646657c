"""Code blocks of pages: found, and run as a reader would run them.

A page is run in an empty directory, its blocks in their order. What is done with a block follows from its
language:

    python      a program of its own, in a process of its own
    sh          lines for a shell; plain lines of `mqstore` run in this process, which takes less time
    console     `$ ` and a line for the shell, below it what the line prints
    text        what the block before it printed; a second one in a row: what it prints when it is run again
    sql         statements for the Spark session of the page's program
    toml, ini, yaml, json  must be of that syntax

A comment in the line before a block says what else is done with it; several are separated by semicolons:

    <!-- given NAME, NAME -->                     programs of tests/support/givens/ come before it
    <!-- goes on -->                              it belongs to the program of the Python before it
    <!-- saved as NAME -->                        a file, for later blocks
    <!-- prints N lines, then Enter -->           its reader presses that key (Enter or Ctrl-C) once it has
                                                 printed so much; in `sh` each line is such a program
    <!-- beside NAME -->                          a program of tests/support/givens/ runs meanwhile
    <!-- figures vary -->                         only words are compared
    <!-- runs until the end of the page -->       a server; the port that it names is replaced by a free one
    <!-- not run: reason -->                      the test has a list of these

`pip install '.[EXTRA]'` is not run: a test would need the index; but the extra must exist. Times, numbers of
bytes, lines of progress and the directory itself differ from run to run: they are not compared. `...` in what
is printed stands for anything.
"""

import configparser
import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from support import command_line

__all__ = ["Block", "Page", "blocks_of", "fences_in", "indented_in"]

GIVENS = Path(__file__).parent / "givens"
BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
FENCE = re.compile(r"^\s*(?:```|~~~)", re.MULTILINE)
INDENTED = re.compile(r"^[ \t]*\n((?: {4}|\t)[^\n]+\n)", re.MULTILINE)
PLAIN_COMMAND = re.compile(r"mqstore (?!serve |ui |top |spark )[^$|&;<>#*]*(?: #.*)?")
PORTS = ("8000", "8001", "9876", "9877", "9880")
INSTALL = re.compile(r"pip install '?\.(?:\[(?P<extras>[a-z,]+)\])?'?(?: +#.*)?")
LINES = re.compile(r"prints (\d+) lines?, then (Enter|Ctrl-C)")
VARIES = (
    (re.compile(r"^[\w ]+: [\d,]+(?: of [\d,]+)?\n", re.MULTILINE), ""),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"), "0000-00-00 00:00:00.000"),
    (re.compile(r"date=\d{4}-\d\d-\d\d"), "date=0000-00-00"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "1000000000000"),
    (re.compile(r"\b[\d,]+ bytes"), "0 bytes"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
)
ASSIGNMENT = re.compile(r"(\w+)=(\S+)")
FIGURE = re.compile(r"\d[\d,.]*(?: [KMGT]?i?B)?")
EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


@dataclass(frozen=True)
class Block:
    """A code block of a page: what a comment before it says, its language, its text."""

    note: str
    kind: str
    text: str

    @property
    def notes(self) -> list[str]:
        """The parts of the comment."""
        return [part.strip() for part in self.note.split("; ")] if self.note else []

    def noted(self, beginning: str) -> str | None:
        """What follows after this beginning in one of the parts; None if there is no such part."""
        return next((part[len(beginning) :] for part in self.notes if part.startswith(beginning)), None)

    @property
    def title(self) -> str:
        """Its first line, by which a list names it."""
        return self.text.partition("\n")[0]


def blocks_of(page: str) -> list[Block]:
    """All blocks, in their order."""
    return [Block(found["note"] or "", found["kind"], found["text"]) for found in BLOCK.finditer(page)]


def fences_in(page: str) -> int:
    """Lines that begin or end a block, also where `blocks_of` does not see it: indented, or with tildes."""
    return len(FENCE.findall(page))


def indented_in(page: str) -> list[str]:
    """Blocks by indentation alone, which nobody runs."""
    outside = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return [found[1] for found in INDENTED.finditer(outside)]


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def heeding_ctrl_c() -> Iterator[None]:
    """What is started here ends by SIGINT, also where this process itself ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def ended_after(seconds: int, running: "subprocess.Popen[str]") -> Iterator[None]:
    """Kill it if it is still there then."""
    timer = threading.Timer(seconds, running.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def environment() -> dict[str, str]:
    """The commands of this installation come first; what is printed comes at once."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # Options of the one who runs the tests are not those of a reader who runs pytest.
    mine = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return {**mine, "PATH": path, "COLUMNS": "120", "PYTHONUNBUFFERED": "1"}


def differ(expected: str, found: str, *, figures_vary: bool = False) -> str:
    """Where two prints differ; empty if they do not, but for what varies."""
    for varies, constant in VARIES:
        expected, found = varies.sub(constant, expected), varies.sub(constant, found)
    if figures_vary:
        expected, found = words_of(expected), words_of(found)
    pattern = ".*?".join(re.escape(part) for part in expected.rstrip("\n").split("..."))
    return (
        ""
        if re.fullmatch(pattern, found.rstrip("\n"), re.DOTALL)
        else f"expected\n{expected}\nfound\n{found}"
    )


def words_of(text: str) -> str:
    """Without figures, and without the rules and blanks that lie as widely as figures do."""
    return re.sub(r"[ \u2500]+", " ", re.sub(FIGURE, "0", text.replace("...", "\0"))).replace("\0", "...")


def entries_of(console: str) -> list[tuple[str, str]]:
    """The lines for the shell in a block `console`, each with what is printed below it."""
    _, *parts = re.split(r"^\$ ", console, flags=re.MULTILINE)
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


@dataclass
class Page:
    """One page in one directory."""

    directory: Path
    count: int = 0
    """How many blocks were run, saved or compared."""
    not_run: list[str] = field(default_factory=list)
    """First lines of the blocks that were not."""
    port: dict[str, str] = field(default_factory=lambda: {port: str(free_port()) for port in PORTS})

    def run(self, text: str) -> None:
        """Run all blocks; AssertionError if one fails or prints something else."""
        blocks = blocks_of(text)
        last: Block | None = None
        printed: list[str] = []
        has_program = False
        with contextlib.ExitStack() as servers:
            for number, written in enumerate(blocks):
                block = Block(written.note, written.kind, self.with_free_ports(written.text))
                if block.noted("not run: ") is not None:
                    self.not_run.append(written.title)
                    continue
                self.count += 1
                if block.noted("goes on") is not None:
                    assert has_program, f"there is no program that it could go on with:\n{block.text}"
                    continue  # it ran with the Python before it
                has_program |= block.kind == "python"
                if (name := block.noted("saved as ")) is not None:
                    (self.directory / name).write_text(block.text)
                elif block.noted("runs until the end of the page") is not None:
                    servers.enter_context(self.server(block))
                elif block.kind == "text":
                    if not printed and last is not None:
                        printed.append(self.output_of(last))
                    found = printed.pop().replace(str(self.directory), "/srv")
                    assert (difference := differ(block.text, found)) == "", difference
                elif block.kind == "console":
                    self.given(block)
                    with self.beside(block):
                        self.console(block)
                elif block.kind in ("python", "sh"):
                    last = self.joined(block, blocks[number + 1 :])
                    with self.beside(block):
                        printed = [self.output_of(last)]
                else:
                    self.parse(block)

    def with_free_ports(self, text: str) -> str:
        """Ports that others may have on this machine are replaced."""
        for port, free in self.port.items():
            text = re.sub(rf"\b{port}\b", free, text)
        return text

    def joined(self, block: Block, following: list[Block]) -> Block:
        """With what is given before it, and with the blocks that go on with it."""
        text = block.text
        for later in following:
            if later.noted("goes on") is not None:
                text += self.with_free_ports(as_python(later))
            elif later.kind == "python":
                break  # another program
        if block.kind == "python":
            return Block(block.note, "python", self.with_free_ports(givens_of(block)) + text)
        self.given(block)
        return block

    def given(self, block: Block) -> None:
        """Run what is given before a block that is not Python."""
        if text := givens_of(block):
            self.output_of(Block("", "python", text))

    def output_of(self, block: Block) -> str:
        """What it prints. It must end with exit code 0, or by the key that its reader presses."""
        lines = [line for line in block.text.splitlines() if line.strip() and not line.startswith("#")]
        if installs := [INSTALL.fullmatch(line) for line in lines if line.startswith("pip ")]:
            names = [
                name for found in installs if found for name in (found["extras"] or "").split(",") if name
            ]
            assert all(installs), f"not on an index, or an odd line:\n{block.text}"
            assert set(names) <= set(EXTRAS)
            assert len(installs) == len(lines), f"a block that installs does nothing else:\n{block.text}"
            return ""
        if block.kind == "sh" and all(PLAIN_COMMAND.fullmatch(line) for line in lines):
            return "".join(self.command(line) for line in lines)
        if found := LINES.search(block.note):
            alone = (
                [block]
                if block.kind == "python"
                else [Block("", "sh", self.on_free_port(line)) for line in lines]
            )
            return "".join(self.until(one, int(found[1]), found[2]) for one in alone)
        ended = subprocess.run(
            argv(block),
            cwd=self.directory,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 0, f"{block.text}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def command(self, line: str, *, may_fail: bool = False) -> str:
        """What a line of `mqstore` alone prints, in this process; with notes and errors if it may fail."""
        with contextlib.chdir(self.directory):
            result = command_line.run(*shlex.split(line, comments=True)[1:])
        assert may_fail or result.exit_code == 0, f"{line}\n{result.output}"
        return result.output if may_fail else result.stdout

    def console(self, block: Block) -> None:
        """Each line for the shell prints what is below it."""
        entries = entries_of(block.text)
        assert entries, f"no line begins with '$ ':\n{block.text}"
        for line, expected in entries:
            if PLAIN_COMMAND.fullmatch(line):
                found = self.command(line, may_fail=True)
            elif ends := LINES.search(block.note):
                found = self.until(Block("", "sh", self.on_free_port(line)), int(ends[1]), ends[2])
            else:
                ended = subprocess.run(
                    ["bash", "-uc", line],
                    cwd=self.directory,
                    env=environment(),
                    text=True,
                    timeout=120,
                    check=False,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
                found = ended.stdout
                assert expected or ended.returncode == 0, f"{line}\n{found}"
            found = found.replace(str(self.directory), "/srv")
            vary = block.noted("figures vary") is not None
            assert (difference := differ(expected, found, figures_vary=vary)) == "", f"{line}\n{difference}"

    def on_free_port(self, line: str) -> str:
        """A server that is given no port would take one that others may have."""
        default = {"serve": "9876", "ui": "9880"}.get(line.split()[1], "")
        command = line.partition(" #")[0].rstrip()
        return f"{command} --port {self.port[default]}" if default and "--port" not in line else line

    def until(self, block: Block, lines: int, key: str) -> str:
        """What it prints until its reader presses a key. It is killed if it does not end by that."""
        with (
            heeding_ctrl_c(),
            subprocess.Popen(
                argv(block, "exec "), cwd=self.directory, env=environment(), text=True,
                start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            ) as running,
            ended_after(60, running),
        ):  # fmt: skip
            assert running.stdin is not None
            assert running.stdout is not None
            found = [running.stdout.readline() for _ in range(lines)]
            if key == "Enter":
                running.stdin.write("\n")
                running.stdin.close()
            else:
                os.killpg(running.pid, signal.SIGINT)
            found.append(running.stdout.read())
        allowed = (0,) if key == "Enter" else (0, 130, -signal.SIGINT)
        assert running.returncode in allowed, (
            f"exit code {running.returncode}\n{block.text}\n{''.join(found)}"
        )
        return "".join(found).removeprefix("Enter ends it")

    @contextlib.contextmanager
    def beside(self, block: Block) -> Iterator[None]:
        """A program runs meanwhile, if the block says so; it has printed its first line before.

        What that line assigns, as `NAME=VALUE`, is in the environment meanwhile.
        """
        name = block.noted("beside ")
        if name is None:
            yield
            return
        program = [sys.executable, GIVENS / f"{name}.py"]
        with subprocess.Popen(
            program, cwd=self.directory, env=environment(), stdout=subprocess.PIPE
        ) as running:
            try:
                assert running.stdout is not None
                told = running.stdout.readline().decode()
                assert told
                with pytest.MonkeyPatch.context() as patched:
                    for known in ASSIGNMENT.finditer(told):
                        patched.setenv(known[1], known[2])
                    yield
            finally:
                running.terminate()

    @contextlib.contextmanager
    def server(self, block: Block) -> Iterator[None]:
        """Run it in a process group of its own, until the end; comes back once the port answers."""
        port = int(re.findall(r"--port (\d+)", block.text)[0])
        with subprocess.Popen(
            argv(block),
            cwd=self.directory,
            env=environment(),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
        ) as running:
            try:
                for _ in range(600):
                    with (
                        contextlib.suppress(OSError),
                        socket.create_connection(("127.0.0.1", port), 1),
                    ):
                        break
                    assert running.poll() is None, "the server has ended"
                    time.sleep(0.1)
                yield
            finally:
                os.killpg(running.pid, signal.SIGTERM)

    def parse(self, block: Block) -> None:
        """A file of settings is of its syntax."""
        if block.kind == "toml":
            tomllib.loads(block.text)
        elif block.kind == "ini":
            configparser.ConfigParser().read_string(block.text)
        elif block.kind == "yaml":
            assert yaml.safe_load(block.text)
        elif block.kind == "json":
            json.loads(block.text)
        else:
            raise AssertionError(f"nothing is done with a block {block.kind!r}:\n{block.text}")


def givens_of(block: Block) -> str:
    """The programs that come before it."""
    names = (block.noted("given ") or "").split(", ")
    return "".join((GIVENS / f"{name}.py").read_text("utf-8") for name in names if name)


def as_python(block: Block) -> str:
    """SQL is given to the session `spark`, statement by statement."""
    if block.kind == "python":
        return block.text
    return "".join(f"spark.sql({text.strip()!r}).show()\n" for text in block.text.split(";") if text.strip())


def argv(block: Block, before: str = "") -> list[str]:
    """How it is run."""
    return (
        [sys.executable, "-c", block.text]
        if block.kind == "python"
        else ["bash", "-euc", before + block.text]
    )
