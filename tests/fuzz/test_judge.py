"""Would the fuzzer notice? Cases that die, hang, take memory or disk, or fail behind others, are named.

Method: calls that do so in place of those that ask a store everything.
"""

import mmap
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.fuzz import campaign
from support.fuzz.bases import make_bases
from support.fuzz.calls import Failures
from support.fuzz.kept_log import KeptLog


def kill_itself(case: Path) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def run_for_ever(case: Path) -> None:
    while True:
        pass


def wait_for_ever(case: Path) -> None:
    signal.pause()


def take_memory(case: Path) -> None:
    bytearray(2 << 30)


def touch_a_mapped_file(case: Path) -> None:
    with (case / "large").open("w+b") as file:
        file.truncate(2 << 30)
        with mmap.mmap(file.fileno(), 0) as view:
            view[::4_096]


def take_disk(case: Path) -> None:
    (case / "much").write_bytes(bytes(193 << 20))


@pytest.fixture
def bases(tmp_path: Path) -> Path:
    make_bases(tmp_path / "bases")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "failure"),
    [
        (kill_itself, "a call: ended by SIGSEGV"),
        (run_for_ever, "a call: ended by SIGXCPU"),
        (wait_for_ever, "a call: ended by SIGABRT"),
        (take_memory, "MemoryError"),
        (touch_a_mapped_file, "MiB more resident than before"),
        (take_disk, "MiB of disk taken"),
    ],
)
def test_a_case_that_does_harm_is_named(
    harm: Callable[[Path], None], failure: str, bases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none of those that shared its process."""

    def run_calls(case: Path, failures: Failures, turn: int) -> None:
        with failures.call("a call"):
            if turn == 2:
                harm(case)

    monkeypatch.setattr(campaign, "run_calls", run_calls)
    if harm is run_for_ever:
        monkeypatch.setattr(campaign, "_PROCESSOR_SECONDS", 0)
    if harm is wait_for_ever:
        monkeypatch.setattr(campaign, "_WAITING_SECONDS", 1)
    results = campaign.run_group(bases, [(1, number) for number in range(4)])
    assert [result.number for result in results if result.failures] == [2]
    assert failure in str(results[2])
    assert [result.calls for result in results if result.number != 2] == [1, 1, 1]
    assert sorted(path.name for path in bases.iterdir() if path.is_dir()) == ["bases"]


@pytest.mark.slow
def test_what_fails_only_behind_others_is_a_failure(bases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not lost because no case fails alone."""
    turns: list[int] = []

    def run_calls(case: Path, failures: Failures, turn: int) -> None:
        turns.append(turn)
        with failures.call("a call"):
            assert turns != [0, 1], "two of them"

    monkeypatch.setattr(campaign, "run_calls", run_calls)
    (result,) = [
        result
        for result in campaign.run_group(bases, [(1, number) for number in range(3)])
        if result.failures
    ]
    assert "only behind cases 1/0, 1/1" in str(result)
    assert "two of them" in str(result)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["closed", "killed"])
def test_records_that_are_taken_away_are_missed(base: str, bases: Path) -> None:
    """A byte of a record, or a segment at the end; not a byte behind the log, nor the oldest segment."""
    store = bases / "bases" / base
    kept = KeptLog(store)
    assert kept.lost_in(store) == ""
    segments = sorted((store / "commitlog").iterdir())
    data = bytearray(segments[-1].read_bytes())
    data[-1] ^= 1
    segments[-1].write_bytes(data)
    segments[0].unlink()
    assert kept.lost_in(store) == ""
    data[40] ^= 1
    segments[-1].write_bytes(data)
    assert "differs from byte 40 on" in kept.lost_in(store)
    segments[-1].unlink()
    assert "are left" in kept.lost_in(store)
