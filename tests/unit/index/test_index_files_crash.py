"""Crashes of the index files: every step of the disk, killed there or with the power cut there.

A log, which is durable here, is indexed piece by piece on a simulated disk, with flushes, a cut of the log's tail
and a roll in nearly every piece. For each step that changed the disk, some of the states that the medium may hold
then are opened as after an unclean stop, and the rest of the log is fed. The files must then be byte for byte those
that a broker would have written behind that log, at the first opening and at a second one. A failure names the
state; the simulated disk itself fails when bytes are written where no room was reserved.
"""

import random
from pathlib import Path

import pytest

from mqstore.index.index_file import IndexFileSize
from mqstore.index.index_files import IndexFiles
from support.key_log import KeyLog
from support.medium import Medium, choose
from support.plain_index_files import index_contents, plain_index_files
from support.simulated_disk import SimulatedDisk

ROOT = Path("/store")
SIZE = IndexFileSize(slot_count=5, entry_count=12)
STATES_PER_STEP = 6


class Workload:
    """A log, and what indexes it on a disk."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log = KeyLog()
        self.put: list[int] = []
        self.disk = SimulatedDisk(clock=self.log.clock)
        self.medium = Medium(self.disk)
        self.disk.make_directories(ROOT)
        # (number of steps, checkpoint.indexMsgTimestamp from then on)
        self.checkpoints = [(0, 0)]

    def put_some(self) -> None:
        for _ in range(self.chance.randrange(1, 6)):
            self.log.clock.advance(self.chance.choice([0, 300, 2_000]))
            keys = self.chance.choices(["a", "b", "c", f"k{len(self.put)}"], k=self.chance.randrange(5))
            self.put.append(self.log.put(keys))

    def run(self) -> None:
        index = open_index(self.disk, self.log, clean=True)
        for _ in range(14):
            self.put_some()
            self.log.feed(index, limit_bytes=self.chance.choice([400, 1 << 20]))
            if self.chance.random() < 0.3:
                index.flush()
                self.checkpoints.append((len(self.disk.steps), index.flushed_timestamp))
            if self.chance.random() < 0.1:
                index.close()
                index = open_index(self.disk, self.log, clean=True)
        index.close()

    def index_msg_timestamp(self, at: int) -> int:
        return max(value for step, value in self.checkpoints if step <= at)


def open_index(
    disk: SimulatedDisk, log: KeyLog, *, clean: bool, index_msg_timestamp: int = 0
) -> IndexFiles:
    return IndexFiles(
        disk,
        ROOT / "index",
        ROOT / "mqstore" / "index-point",
        log.log,
        SIZE,
        log.clock,
        clean=clean,
        index_msg_timestamp=index_msg_timestamp,
    )


def index_rest(disk: SimulatedDisk, log: KeyLog, *, clean: bool, index_msg_timestamp: int = 0) -> list[bytes]:
    index = open_index(disk, log, clean=clean, index_msg_timestamp=index_msg_timestamp)
    log.feed(index)
    index.close()
    return index_contents(disk, ROOT / "index")


def assert_recoverable(disk: SimulatedDisk, medium: Medium, log: KeyLog, expected: list[bytes]) -> None:
    """From some states of `medium`, which is that of `disk` before its first step, after each of its steps."""
    for at, step in enumerate(disk.steps, start=1):
        medium.apply(step)
        units = medium.units()
        for number in range(STATES_PER_STEP):
            choices = choose(units, number, STATES_PER_STEP, str(at))
            if choices is not None:
                again = SimulatedDisk(medium.image(units, choices), clock=log.clock)
                assert index_rest(again, log, clean=False) == expected, f"step {at}, state {number}"


@pytest.mark.parametrize("seed", range(4))
def test_after_any_crash_the_files_are_those_of_a_broker(seed: int) -> None:
    """Whatever the disk kept of what was not synced."""
    workload = Workload(seed)
    workload.run()
    expected = plain_index_files(workload.log.log, workload.put, SIZE)
    assert len(expected) > 3
    states = 0
    for at, step in enumerate(workload.disk.steps, start=1):
        workload.medium.apply(step)
        units = workload.medium.units()
        for number in range(STATES_PER_STEP):
            choices = choose(units, number, STATES_PER_STEP, f"{seed}/{at}")
            if choices is None:
                break
            disk = SimulatedDisk(workload.medium.image(units, choices), clock=workload.log.clock)
            timestamp = workload.index_msg_timestamp(at)
            name = f"seed {seed}, step {at}, state {number}"
            assert index_rest(disk, workload.log, clean=False, index_msg_timestamp=timestamp) == expected, name
            assert index_rest(disk, workload.log, clean=True) == expected, name
            states += 1
    assert states > 100


@pytest.mark.parametrize("seed", range(4))
def test_after_a_crash_in_a_recovery_too(seed: int) -> None:
    """The opening that cuts the files is itself cut short, at each of its steps."""
    workload = Workload(seed)
    workload.run()
    expected = plain_index_files(workload.log.log, workload.put, SIZE)
    steps = workload.disk.steps
    at = workload.chance.randrange(len(steps) // 2, len(steps))
    for step in steps[:at]:
        workload.medium.apply(step)
    units = workload.medium.units()
    everything = tuple(unit.options - 1 for unit in units)
    image = workload.medium.image(units, everything)
    disk = SimulatedDisk(image, clock=workload.log.clock)
    medium = Medium(disk)
    assert index_rest(disk, workload.log, clean=False) == expected
    assert_recoverable(disk, medium, workload.log, expected)


@pytest.mark.parametrize("seed", range(4))
def test_after_a_crash_that_took_the_logs_tail_as_well(seed: int) -> None:
    """The index was ahead of the durable log; other messages follow in the log."""
    workload = Workload(seed)
    workload.run()
    image = workload.disk.image()
    cut_at = workload.chance.randrange(len(workload.put) // 2, len(workload.put))
    workload.log.cut(workload.put[cut_at])
    del workload.put[cut_at:]
    disk = SimulatedDisk(image, clock=workload.log.clock)
    medium = Medium(disk)
    index = open_index(disk, workload.log, clean=False)
    workload.put_some()
    expected = plain_index_files(workload.log.log, workload.put, SIZE)
    assert_recoverable(disk, medium, workload.log, expected)
    workload.log.feed(index)
    index.close()
    assert index_contents(disk, ROOT / "index") == expected


@pytest.mark.parametrize("seed", range(4))
def test_a_cut_of_the_log_while_it_is_open(seed: int) -> None:
    """`truncate`, and a crash at each of its steps."""
    workload = Workload(seed)
    workload.run()
    disk = SimulatedDisk(workload.disk.image(), clock=workload.log.clock)
    medium = Medium(disk)
    index = open_index(disk, workload.log, clean=True)
    cut_at = workload.chance.randrange(1, len(workload.put))
    workload.log.cut(workload.put[cut_at])
    index.truncate(workload.put[cut_at])
    del workload.put[cut_at:]
    workload.put_some()
    expected = plain_index_files(workload.log.log, workload.put, SIZE)
    assert_recoverable(disk, medium, workload.log, expected)
    workload.log.feed(index)
    index.close()
    assert index_contents(disk, ROOT / "index") == expected
