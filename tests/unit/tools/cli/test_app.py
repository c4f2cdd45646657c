"""The process of a command: streams that are closed, and Ctrl-C while it starts."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mqstore.verify.verification import verify

COMMAND = (sys.executable, "-c", "from mqstore.tools.cli.app import main; main()")
# Tests that were started in the background have SIGINT ignored, and so have their children.
INTERRUPTIBLE = """\
import signal
from mqstore.tools.cli.app import main
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begun", flush=True)
main()
"""


def run_in_shell(
    line: str, arguments: tuple[str, ...], directory: Path
) -> subprocess.CompletedProcess[bytes]:
    command = ["sh", "-c", line, "sh", *COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, check=False, cwd=directory, timeout=60)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_keeps_no_command_from_its_work(tmp_path: Path, closed: str) -> None:
    """What it would write there is lost, and the exit code says how the work ended."""
    for arguments in (("put", "data", "orders", "x"), ("get", "data", "orders"), ("verify", "data")):
        line = f'exec "$@" {closed}'
        result = run_in_shell(line, arguments, tmp_path)
        assert (result.returncode, b"Traceback" in result.stderr) == (0, False)
    assert verify(tmp_path / "data").is_sound


def test_what_cannot_be_told_changes_no_exit_code(tmp_path: Path) -> None:
    """Of `verify` 1 means damage."""
    for arguments in (("put", "data", "orders", "x"), ("verify", "data")):
        line = 'exec "$@" 2>/dev/full'
        result = run_in_shell(line, arguments, tmp_path)
        assert result.returncode == 0


@pytest.mark.parametrize("words", [("--help",), ("put", "--help"), ("--version",), ("completion", "bash")])
def test_a_page_that_cannot_be_written_is_a_problem(tmp_path: Path, words: tuple[str, ...]) -> None:
    """It is told in one line."""
    result = run_in_shell('exec "$@" >/dev/full', words, tmp_path)
    assert (result.returncode, result.stderr.count(b"\n"), b"No space left" in result.stderr) == (1, 1, True)


@pytest.mark.parametrize("after_s", [0.02, 0.1, 0.2, 0.4])
def test_ctrl_c_ends_a_command_that_starts(tmp_path: Path, after_s: float) -> None:
    """Whatever is being imported: no traceback, and it does not go on."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "serve", "data", "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode in (-signal.SIGINT, 0, 130)
    assert b"Traceback" not in told
