"""mqstore ui as typed: where it is, what it refuses, and how it ends."""

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from mqstore.tools.cli.exit_codes import ExitCode
from support.command_line import run

COMMAND = [sys.executable, "-P", "-c", "from mqstore.tools.cli.app import main; main()", "ui"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_stop(orders: Path, number: signal.Signals) -> None:
    """On the loopback alone; a signal ends it with exit code 0 and no word on standard error."""
    command = [*COMMAND, str(orders), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            assert told["store"] == str(orders)
            with urllib.request.urlopen(told["url"], timeout=30) as answer:
                assert "orders" in answer.read().decode()
                assert "server" not in answer.headers
            asked = urllib.request.Request(told["url"], headers={"host": "example.org"})
            with pytest.raises(urllib.error.HTTPError, match="421"):
                urllib.request.urlopen(asked, timeout=30)
            process.send_signal(number)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, "")


def test_a_directory_that_is_no_store_is_told_at_once(tmp_path: Path) -> None:
    """Before anything listens."""
    result = run("ui", tmp_path / "nothing", "--port", "0")
    assert result.exit_code == ExitCode.PROBLEM
    assert "nothing" in result.stderr


def test_a_port_that_is_taken_is_told(orders: Path) -> None:
    """With the way out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("ui", orders, "--port", port)
    assert result.exit_code == ExitCode.PROBLEM
    assert f"port {port} of 127.0.0.1 cannot be had" in result.stderr
    assert "--port 0" in result.stderr
