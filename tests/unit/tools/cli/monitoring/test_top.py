"""mqstore top as typed: once, as JSON, beside a writer, on a terminal, and how it ends."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from mqstore.tools.cli.monitoring.top import Ticks
from support.command_line import ORDER_CONFIG, json_lines, run

COMMAND = [sys.executable, "-P", "-c", "from mqstore.tools.cli.app import main; main()", "top"]


class Seconds:
    """A clock that a pause moves on."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds


def test_each_tick_is_the_difference_to_the_one_before(orders: Path) -> None:
    """Beside a live writer; topics, groups and progress that came in between are there."""
    seconds = Seconds()
    ticks = Ticks(orders, 2.0, now_s=lambda: seconds.now_s, pause=seconds.pause)
    with MessageStore.open(orders, ORDER_CONFIG) as store:
        assert ticks.next_row().put_tps is None
        store.put_messages([Message("orders", b"x", queue_id=0) for _ in range(10)])
        store.topics.create("bills", 1)
        store.put_message(Message("bills", b"y"))
        store.consumer_offsets.commit("billing", "orders", 0, 4)
        store.flush()
        row = ticks.next_row()
        assert (row.interval_ms, row.put_tps) == (2_000, 5.5)
        assert {each.topic: each.put_tps for each in row.topics} == {"orders": 5.0, "bills": 0.5}
        assert [(each.group, each.lag) for each in row.groups] == [("billing", 12)]
        assert row.flushed_offset == store.max_offset
        assert ticks.next_row().put_tps == 0
    assert seconds.pauses == [2.0, 2.0]


def test_a_look_that_takes_long_shortens_the_pause(orders: Path) -> None:
    """Ticks begin an interval after one another, and at once where the interval is over."""
    seconds = Seconds()
    ticks = Ticks(orders, 2.0, now_s=lambda: seconds.now_s, pause=seconds.pause)
    ticks.next_row()
    seconds.now_s += 1.5
    ticks.next_row()
    seconds.now_s += 9
    ticks.next_row()
    assert seconds.pauses == [0.5, 0.0]


def test_once(orders: Path) -> None:
    """One tick with rates, as an object or as text, and nothing in the store has changed."""
    (row,) = json_lines(run("top", orders, "--once", "--json", "--interval", 0.05))
    assert (row["path"], row["putTps"], row["topics"][0]["topic"]) == (str(orders), 0.0, "orders")
    assert row["intervalMs"] >= 50
    assert row["maxOffset"] == row["flushedOffset"]
    result = run("top", orders, "--once", "--interval", 0.05)
    assert result.exit_code == 0
    assert "puts  0/s  0 B/s" in result.stdout
    assert "orders" in result.stdout


@pytest.mark.parametrize("interval", ["0", "-1", "nan", "often", "100000"])
def test_an_interval_is_a_time(orders: Path, interval: str) -> None:
    """Exit code 2."""
    assert run("top", orders, "--once", "--interval", interval).exit_code == 2


def test_no_store_there(tmp_path: Path) -> None:
    """As for all that read: exit code 1, and nothing is made."""
    assert run("top", tmp_path / "none").exit_code == 1
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_ctrl_c(orders: Path, number: signal.Signals) -> None:
    """Exit code 0; until then one object a tick."""
    arguments = [*COMMAND, str(orders), "--json", "--interval", "0.05"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(3):
            assert json.loads(process.stdout.readline())["putTps"] == 0.0
        process.send_signal(number)
        assert process.wait(30) == 0
        assert process.stderr.read() == b""


@pytest.mark.slow
def test_a_terminal_is_given_back(orders: Path) -> None:
    """The live view has a screen of its own, refreshes it, and leaves it at the end."""
    master, slave = pty.openpty()
    arguments = [*COMMAND, str(orders), "--interval", "0.05"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    with subprocess.Popen(arguments, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        shown = read_until(master, b"0 B/s")
        process.send_signal(signal.SIGINT)
        shown += read_until(master, b"\x1b[?1049l")
        assert process.wait(30) == 0
    os.close(master)
    assert b"\x1b[?1049h" in shown
    assert b"puts  counting" in shown
    assert b"Traceback" not in shown


def read_until(descriptor: int, mark: bytes) -> bytes:
    found, end_s = b"", time.monotonic() + 30
    while mark not in found and time.monotonic() < end_s:
        if select.select([descriptor], [], [], 1)[0]:
            found += os.read(descriptor, 65_536)
    assert mark in found, found
    return found
