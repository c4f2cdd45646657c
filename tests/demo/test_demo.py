"""The main job, `mqstore demo`, on the first few thousand flights and without Spark.

Delays are 0 s, so that nothing waits. Interruptions are asked for at a chosen moment; a kill is one, of a
process of its own.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from mqstore.client.consumer.listener import ConsumeConcurrentlyStatus
from mqstore.message_store import MessageStore
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreLocked
from mqstore.tools.cli.demo.demo import Demo
from mqstore.tools.cli.exit_codes import ToolProblem
from mqstore.tools.cli.interruption import Interruption
from mqstore.tools.cli.output import Output
from mqstore.tools.demo.demo_directory import DemoDirectory, DemoNote, DemoState, NoDemoDirectory
from mqstore.tools.demo.flights_audit import Audit
from mqstore.tools.demo.flights_run import DEMO_CONFIG, Arrivals
from mqstore.tools.spark.jobs.flights_csv import count_flights, flights_csv_path
from support.command_line import json_lines, run

LIMIT = 3_000
MISSING = 40
"""Flights without arrival delay among them."""
AT_ONCE = StoreConfig(
    mapped_file_size_commit_log=1_048_576,
    max_message_size=65_536,
    message_delay_level="0s 0s 0s 0s 0s 0s",
    delivery_interval=5,
)


class AskedAfter(Interruption):
    """An interruption that comes when it has been asked about so often."""

    def __init__(self, questions: int) -> None:
        super().__init__()
        self._questions = questions

    def is_asked(self) -> bool:
        self._questions -= 1
        if self._questions == 0:
            self.ask()
        return super().is_asked()


def demo(
    path: Path, *, limit: int = LIMIT, interruption: Interruption | None = None, fresh: bool = False
) -> Audit | None:
    subject = Demo(
        Output(is_json=True), path, flights_csv_path(), limit, config=AT_ONCE, interruption=interruption
    )
    subject.prepare(fresh=fresh)
    return subject.run(with_report=False)


def state(path: Path) -> DemoState:
    note = DemoDirectory(path).note
    assert note is not None
    return note.state


@pytest.mark.slow
def test_the_flights_are_those_that_the_numbers_are_about() -> None:
    """The file has 336,776 flights, 9,430 of them without arrival delay."""
    in_file = count_flights(flights_csv_path())
    assert (in_file.rows, len(in_file.missing_rows)) == (336_776, 9_430)


@pytest.mark.slow
def test_every_flight_is_where_it_should_be(tmp_path: Path) -> None:
    """Published once, arrived at the first attempt or retried three times and given up."""
    found = demo(tmp_path / "demo")
    assert found is not None
    assert found.passed, found.checks
    assert [hop.messages for hop in found.hops] == [LIMIT, LIMIT - MISSING, *[MISSING] * 7]
    assert found.repeated_deliveries == 0
    assert state(tmp_path / "demo") is DemoState.CONSUMED


def test_its_store_is_sound_for_whom_nobody_told_its_settings(tmp_path: Path) -> None:
    """Plain `mqstore verify` and `mqstore repair`, although the store has its own segments and delays."""
    path = tmp_path / "demo"
    demo(path, limit=300)
    assert json_lines(run("verify", path, "--json"))[-1]["isSound"]
    assert not json_lines(run("repair", path, "--json"))[-1]["isNeeded"]
    settings = json_lines(run("dump", path / "mqstore" / "settings", "--json"))[0]
    assert settings["messageDelayLevel"] == [[0, AT_ONCE.message_delay_level]]


@pytest.mark.slow
@pytest.mark.parametrize("questions", [1, 2, 3, 4, 5])
def test_an_interrupted_demo_goes_on_where_it_was(tmp_path: Path, questions: int) -> None:
    """Whenever Ctrl-C comes, exit code 130, and the next run ends with the same counts, nothing doubled."""
    with pytest.raises(click.exceptions.Exit) as ended:
        demo(tmp_path / "demo", interruption=AskedAfter(questions))
    assert ended.value.exit_code == 130
    assert state(tmp_path / "demo") is DemoState.INTERRUPTED
    found = demo(tmp_path / "demo")
    assert found is not None
    assert found.passed, found.checks
    assert found.repeated_deliveries == 0


@pytest.mark.slow
@pytest.mark.parametrize("attempts", [1, 1_500, LIMIT, LIMIT + 2 * MISSING])
def test_a_demo_that_is_interrupted_while_it_consumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: int
) -> None:
    """As above, after so many flights and retries were handed out."""
    consume, interruption, calls = Arrivals._consume, Interruption(), []

    def count(*arguments: Any) -> ConsumeConcurrentlyStatus:
        calls.append(arguments)
        if len(calls) == attempts:
            interruption.ask()
        return consume(*arguments)

    monkeypatch.setattr(Arrivals, "_consume", count)
    with pytest.raises(click.exceptions.Exit) as ended:
        demo(tmp_path / "demo", interruption=interruption)
    assert ended.value.exit_code == 130
    found = demo(tmp_path / "demo")
    assert found is not None
    assert found.passed, found.checks
    assert found.repeated_deliveries == 0


def test_a_finished_demo_is_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says so, and how to run it again."""
    demo(tmp_path / "demo", limit=100)
    assert demo(tmp_path / "demo", limit=100) is None
    assert "--fresh" in capsys.readouterr().err


def test_fresh_begins_anew(tmp_path: Path) -> None:
    """The store of the earlier demo is gone, another limit is fine."""
    path = tmp_path / "demo"
    demo(path, limit=100)
    found = demo(path, limit=200, fresh=True)
    assert found is not None
    assert found.hops[0].messages == 200


def test_fresh_deletes_only_what_a_demo_leaves(tmp_path: Path) -> None:
    """A file that somebody put beside the store survives, and then stands in the way of a new demo."""
    path = tmp_path / "demo"
    demo(path, limit=100)
    (path / "notes.txt").write_text("mine")
    with pytest.raises(NoDemoDirectory):
        demo(path, limit=100, fresh=True)
    assert [entry.name for entry in path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_directory_of_something_else_is_left_alone(tmp_path: Path, fresh: bool) -> None:
    """Neither written to nor deleted, --fresh or not; the command answers 2."""
    with MessageStore.open(tmp_path / "mine", AT_ONCE):
        pass
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(NoDemoDirectory):
        demo(tmp_path / "mine", fresh=fresh)
    options = ["--fresh"] if fresh else []
    assert run("demo", "--path", tmp_path / "mine", "--limit", 10, "--no-spark", *options).exit_code == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_another_limit_is_refused(tmp_path: Path) -> None:
    """Half of one demo and half of another would be neither."""
    demo(tmp_path / "demo", limit=100)
    with pytest.raises(ToolProblem, match="--limit 100"):
        demo(tmp_path / "demo", limit=200)


def test_a_demo_under_way_is_not_disturbed(tmp_path: Path) -> None:
    """A second run, and --fresh, are refused while the first holds the store."""
    path = tmp_path / "demo"
    with pytest.raises(click.exceptions.Exit):
        demo(path, limit=100, interruption=AskedAfter(1))
    with MessageStore.open(path, AT_ONCE):
        with pytest.raises(StoreLocked):
            demo(path, limit=100)
        with pytest.raises(StoreLocked):
            demo(path, limit=100, fresh=True)
        assert state(path) is DemoState.INTERRUPTED


def test_a_failed_check_answers_1(tmp_path: Path) -> None:
    """A flight too many in the store is found."""
    path = tmp_path / "demo"
    demo(path, limit=100)
    with MessageStore.open(path, AT_ONCE) as store:
        first = store.look_message_by_offset(0)
        assert first is not None
        store.put_message(first.to_message())
    directory = DemoDirectory(path)
    directory.write(DemoNote(state=DemoState.INTERRUPTED, limit=100))
    with pytest.raises(click.exceptions.Exit) as ended:
        demo(path, limit=100)
    assert ended.value.exit_code == 1
    assert state(path) is DemoState.INTERRUPTED


def test_the_command_ends_with_commands_that_work(tmp_path: Path) -> None:
    """Each of the three lines that it prints can be run."""
    path = tmp_path / "demo"
    demo(path, limit=500)
    shown = run("demo", "--path", path, "--limit", 500, "--no-spark").stdout
    commands = [line.split()[1:] for line in shown.splitlines() if line.startswith("  mqstore ")]
    assert len(commands) == 3
    for command in commands:
        assert json_lines(run(*command, "--json")), command


def _wait_for(condition: Callable[[], bool]) -> None:
    """Up to a minute, until another process has come so far."""
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("gone_through_bytes", [200_000, 8_000_000, 19_500_000])
def test_a_killed_demo_goes_on_and_doubles_nothing(tmp_path: Path, gone_through_bytes: int) -> None:
    """After kill -9 every flight is accounted for; retries that were delivered twice are told."""
    path, limit = tmp_path / "demo", 40_000
    arguments = ["demo", "--path", str(path), "--limit", str(limit), "--no-spark"]
    program = "import sys; from mqstore.tools.cli.app import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    segment = path / "commitlog" / f"{0:020}"
    _wait_for(lambda: segment.exists() and _is_written(segment, gone_through_bytes))
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert state(path) is DemoState.RUNNING
    subject = Demo(Output(is_json=True), path, flights_csv_path(), limit, config=DEMO_CONFIG)
    subject.prepare(fresh=False)
    found = subject.run(with_report=False)
    assert found is not None
    assert found.passed, found.checks


def _is_written(segment: Path, position: int) -> bool:
    with segment.open("rb") as file:
        file.seek(position)
        return any(file.read(4_096))
