"""Power cuts of a real ext4, from a log of all that its device was told: a small form of `make powercut`.

It needs root, QEMU's storage daemon and a loop device, and says so where it is skipped. xfs, btrfs and the
many states are for the command (powercut.py); what its judge condemns is tested there with syncs that do
nothing, and here with promises that are not kept.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.powercut.campaign import Life, judge_state, record_life
from support.powercut.judge import Acknowledged, Promises, judge_as_left
from support.powercut.plain_reader import PlainStore, read_store
from support.powercut.recorded_disk import FILE_SYSTEMS, MountFailed, sweep, why_not

EXT4 = FILE_SYSTEMS["ext4"]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """A short life with four putters, recorded."""
    directory = tmp_path_factory.mktemp("powercut")
    if reason := why_not(EXT4, directory / "probe"):
        pytest.skip(reason)
    try:
        yield record_life(
            directory / "first",
            "ext4",
            "ext4/0/0",
            threads=4,
            retains=False,
            closes=False,
            acknowledgements=60,
        )
    finally:
        sweep(directory)


def test_what_was_acknowledged_survives_a_cut(life: Life, tmp_path: Path) -> None:
    """Judged by a reader that shares no code with the store."""
    for number in range(6):
        try:
            judged = judge_state([life], tmp_path, "ext4", f"ext4/0/0/{number}")
        except MountFailed:
            # That is between the loss and ext4; it says nothing about the store.
            continue
        finally:
            sweep(tmp_path)
        assert not judged.violations
        return
    pytest.fail("ext4 did not come back from any of six states")


def test_the_judge_condemns_what_is_missing(tmp_path: Path) -> None:
    """A message that is not there, an offset given twice, one beyond what was committed or short of it."""
    empty = read_store(tmp_path)
    message = Acknowledged("run:0:0", "orders", 0, 0, 0, 200, 0)
    other = message._replace(physical_offset=200)
    promises = Promises(
        [message, other], {("orders", 0): 2}, {("orders", 0): 1}, {"orders": 4}, 0, ["a pull failed"]
    )
    assert kinds(empty, promises) == {"lost", "reused", "ahead", "opening"}
    ahead = empty._replace(consumer_offsets={("billing", "orders", 0): 3}, delay_offsets={1: 1})
    assert kinds(ahead, Promises([], {}, {}, {}, 0, [])) == {"ahead"}
    assert not kinds(empty, Promises([], {}, {}, {}, 0, []))


def kinds(store: PlainStore, promises: Promises) -> set[str]:
    return {violation.kind for violation in judge_as_left(store, promises)}


def test_without_root_or_tools_it_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name, and with the package to install."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    reason = why_not(FILE_SYSTEMS["btrfs"], tmp_path)
    assert reason is not None
    assert "qemu-storage-daemon" in reason
    assert "btrfs-progs" in reason
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_not(EXT4, tmp_path) == "needs root, to mount file systems"
