"""Crashes of the index files: every step of the disk, killed there or with the power cut there.

A log, which is durable here, is indexed piece by piece on a simulated disk, with flushes, closings, rolls and
cuts. After each step, some of the states that the medium may hold then are opened as after an unclean stop,
and the rest of the log is fed. The files must then be, byte for byte, those that a broker would have written
behind that log, at the first opening and at a second one. A failure names the state; the simulated disk
itself fails when bytes are written where no room was reserved.
"""

import random
from pathlib import Path

import pytest

from mqstore.index.index_file.index_file import IndexFileSize
from mqstore.index.index_file.index_file_key_index import IndexFileKeyIndex
from support.disks.medium import Medium, choose
from support.disks.simulated_disk import SimulatedDisk
from support.stores.key_log import KeyLog
from support.twins.plain_index_files import index_contents, plain_index_files

ROOT = Path("/store")
SMALL = IndexFileSize(slot_count=5, entry_count=12)
# More than one sector: one part of a file may reach the disk without another.
LARGE = IndexFileSize(slot_count=150, entry_count=50)
STATES_PER_STEP = 6


class Workload:
    """A log, and what indexes it on a disk."""

    def __init__(self, seed: int, size: IndexFileSize) -> None:
        self.size = size
        self.chance = random.Random(seed)
        self.flush_chance = self.chance.choice([0.03, 0.3])
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
        index = self.open(self.disk, after_crash=False)
        for _ in range(14):
            self.put_some()
            self.log.feed(index, limit_bytes=self.chance.choice([400, 1 << 20]))
            if self.chance.random() < self.flush_chance:
                index.flush()
                self.checkpoints.append((len(self.disk.steps), index.flushed_timestamp))
            if self.chance.random() < 0.1:
                index.close()
                index = self.open(self.disk, after_crash=False)
        index.close()

    def index_msg_timestamp(self, at: int) -> int:
        return max(value for step, value in self.checkpoints if step <= at)

    def open(
        self, disk: SimulatedDisk, *, after_crash: bool, index_msg_timestamp: int = 0
    ) -> IndexFileKeyIndex:
        return IndexFileKeyIndex(
            disk,
            ROOT / "index",
            ROOT / "mqstore" / "index-point",
            self.log.log,
            self.size,
            self.log.clock,
            after_crash=after_crash,
            index_msg_timestamp=index_msg_timestamp,
        )

    def contents_at_last(
        self, disk: SimulatedDisk, *, after_crash: bool, index_msg_timestamp: int = 0
    ) -> list[bytes]:
        """Of the files after an opening, the rest of the log, and a close."""
        index = self.open(disk, after_crash=after_crash, index_msg_timestamp=index_msg_timestamp)
        self.log.feed(index)
        index.close()
        return index_contents(disk, ROOT / "index")

    def expected(self) -> list[bytes]:
        return plain_index_files(self.log.log, self.put, self.size)

    def assert_states(
        self, medium: Medium, at: int, expected: list[bytes], *, after_crash: bool = True
    ) -> int:
        """Open some of the states that the medium may hold; returns how many."""
        units = medium.units()
        for number in range(STATES_PER_STEP):
            choices = choose(units, number, STATES_PER_STEP, str(at))
            if choices is None:
                return number
            disk = SimulatedDisk(medium.image(units, choices), clock=self.log.clock)
            timestamp = self.index_msg_timestamp(at)
            name = f"step {at}, state {number}"
            assert (
                self.contents_at_last(disk, after_crash=after_crash, index_msg_timestamp=timestamp)
                == expected
            ), name
            assert self.contents_at_last(disk, after_crash=False) == expected, name
        return STATES_PER_STEP

    def assert_recoverable(self, disk: SimulatedDisk, medium: Medium, expected: list[bytes]) -> int:
        """From the states after each step of `disk`; `medium` is that before the first. Returns how many."""
        states = 0
        for at, step in enumerate(disk.steps, start=1):
            medium.apply(step)
            states += self.assert_states(medium, at, expected)
        return states


@pytest.fixture(params=[SMALL, LARGE], ids=["small", "large"])
def size(request: pytest.FixtureRequest) -> IndexFileSize:
    chosen: IndexFileSize = request.param
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_after_any_crash_the_files_are_those_of_a_broker(seed: int, size: IndexFileSize) -> None:
    """Whatever the disk kept of what was not synced."""
    workload = Workload(seed, size)
    workload.run()
    expected = workload.expected()
    assert len(expected) > 1
    assert workload.assert_recoverable(workload.disk, workload.medium, expected) > 100
    workload.assert_states(workload.medium, len(workload.disk.steps), expected, after_crash=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_after_a_crash_in_a_recovery_too(seed: int, size: IndexFileSize) -> None:
    """The opening that cuts the files is itself cut short, at each of its steps."""
    workload = Workload(seed, size)
    workload.run()
    expected = workload.expected()
    steps = workload.disk.steps
    for step in steps[: workload.chance.randrange(len(steps) // 2, len(steps))]:
        workload.medium.apply(step)
    units = workload.medium.units()
    everything = tuple(unit.options - 1 for unit in units)
    disk = SimulatedDisk(workload.medium.image(units, everything), clock=workload.log.clock)
    medium = Medium(disk)
    workload.checkpoints = [(0, 0)]
    assert workload.contents_at_last(disk, after_crash=True) == expected
    workload.assert_recoverable(disk, medium, expected)
    workload.assert_states(medium, 0, expected, after_crash=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("is_followed", [True, False])
def test_the_logs_tail_is_cut(seed: int, size: IndexFileSize, is_open: bool, is_followed: bool) -> None:
    """While the index is open, or before, as a crash did; other messages follow. And a crash in all that."""
    workload = Workload(seed, size)
    workload.run()
    disk = SimulatedDisk(workload.disk.image(), clock=workload.log.clock)
    medium = Medium(disk)
    workload.checkpoints = [(0, 0)]
    index = workload.open(disk, after_crash=False) if is_open else None
    cut_at = workload.chance.randrange(1, len(workload.put))
    workload.log.cut(workload.put[cut_at])
    if index is not None:
        index.truncate(workload.put[cut_at])
    else:
        index = workload.open(disk, after_crash=True)
    del workload.put[cut_at:]
    if is_followed:
        workload.put_some()
    expected = workload.expected()
    workload.assert_recoverable(disk, medium, expected)
    done = len(disk.steps)
    workload.log.feed(index)
    index.close()
    assert index_contents(disk, ROOT / "index") == expected
    for step in disk.steps[done:]:
        medium.apply(step)
    workload.assert_states(medium, 0, expected, after_crash=False)
