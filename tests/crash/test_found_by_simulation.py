"""What the crash simulator has found: each state by itself, so that it cannot come back unnoticed.

Method: the few steps that lead there, on a simulated disk; then the one state that was believed wrongly,
and the store opened on it.
"""

import errno
import struct
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.store.errors import CorruptRecord, StoreFull, StorePoisoned
from mqstore.store.state.recovery_point_format import (
    RecoveryPoint,
    decode_recovery_point,
    encode_recovery_point,
)
from support.crash.oracle import judge
from support.crash.promises import Promises
from support.crash.witness import ROOT, Witness, crash_config
from support.disks.medium import Medium, choose
from support.disks.simulated_disk import Image, SimulatedDisk
from support.manual_clock import ManualClock

LOG = ROOT / "commitlog"
SEGMENT = LOG / f"{0:020d}"
SEGMENT_BYTES = crash_config().mapped_file_size_commit_log
POINT = ROOT / "mqstore" / "recovery-point"
NOTHING_KEPT, ALL_KEPT = 0, 1
BLANK_MAGIC = bytes.fromhex("CBD43194")


class Machine:
    """A disk with its medium, and a witness at work on it."""

    def __init__(self, **settings: object) -> None:
        self.clock = ManualClock()
        self.disk = SimulatedDisk(clock=self.clock)
        self._medium = Medium(self.disk)
        self._followed = 0
        self.witness = Witness(self.disk, self.clock, crash_config(**settings))

    def power_cut(self, seed: int) -> Image:
        for step in self.disk.steps[self._followed :]:
            self._medium.apply(step)
        self._followed = len(self.disk.steps)
        units = self._medium.units()
        choices = choose(units, seed, 2, "test") if len(units) > 1 else (0,) * len(units)
        assert choices is not None
        return self._medium.image(units, choices)

    @property
    def promises(self) -> Promises:
        promises = self.witness.before.copy()
        promises.add(event for _, event in self.witness.events)
        return promises

    def reopen(self, image: Image, promises: Promises | None = None) -> MessageStore:
        """Open what is left, and let the oracle judge it: by `promises`, or by all until now."""
        disk = SimulatedDisk(image, clock=self.clock)
        store = MessageStore.open(ROOT, self.witness.config, clock=self.clock, file_system=disk, start=False)
        assert judge(store, disk, promises or self.promises, is_power_cut=True) == []
        return store


def replaced(image: Image, path: Path, data: bytes) -> Image:
    return Image(image.files | {path: data}, image.directories)


def test_what_a_killed_process_wrote_is_synced_before_it_is_called_durable() -> None:
    """kills-async/0/50: the pages outlive the process, and not the power cut."""
    machine = Machine(flush_disk_type="ASYNC_FLUSH")
    machine.witness.open()
    machine.witness.put("a", 100)
    machine.witness.kill()
    store = machine.witness.open()
    assert store.commit_log.flushed_offset == store.max_offset > 0
    assert machine.reopen(machine.power_cut(NOTHING_KEPT)).max_offset == store.max_offset


def test_whole_records_behind_a_torn_one_are_no_damage_in_a_new_store() -> None:
    """kills-async/0/19: in its first second a store had no recovery point, and did not open again."""
    machine = Machine(flush_disk_type="ASYNC_FLUSH")
    store = machine.witness.open()
    first = machine.witness.put("a", 600)
    machine.witness.put("a", 600)
    image = machine.disk.image()
    torn = bytes(first.store_size) + bytes(image.files[SEGMENT][first.store_size :])
    assert machine.reopen(replaced(image, SEGMENT, torn)).max_offset == 0
    assert store.max_offset > 0


def test_a_record_torn_right_at_the_recovery_point_leaves_the_point_good() -> None:
    """rolling-async/0/169: no whole record begins there, and yet it is where records end."""
    machine = Machine(flush_disk_type="ASYNC_FLUSH")
    witness = machine.witness
    witness.open()
    witness.put("a", 300)
    witness.flush()
    point = witness.store.max_offset
    witness.put("a", 2_000)
    image = machine.disk.image()
    segment = bytearray(image.files[SEGMENT])
    segment[point + 1_000 : point + 1_512] = bytes(512)
    store = machine.reopen(replaced(image, SEGMENT, bytes(segment)))
    assert (store.recovery.start_offset, store.max_offset) == (point, point)


def test_the_recovery_point_goes_back_before_the_queues_are_cut() -> None:
    """rolling-async/0/169/5-of-6/23: a crash in between found half the queues and a point behind them."""
    machine = Machine()
    witness = machine.witness
    witness.open()
    witness.put_all(*(("a", 100, {}) for _ in range(5)))
    witness.flush()
    # A point of somebody else's log: inside a record, so recovery walks from the segment's beginning.
    lie = encode_recovery_point(RecoveryPoint(witness.store.max_offset, 50))
    disk = SimulatedDisk(replaced(machine.disk.image(), POINT, lie))
    MessageStore.open(ROOT, witness.config, file_system=disk, start=False)
    saved = next(at for at, step in enumerate(disk.steps) if step.target == POINT)
    cut = next(at for at, step in enumerate(disk.steps) if "consumequeue" in step.path.parts)
    assert saved < cut
    point = decode_recovery_point(disk.read(POINT))
    assert point == RecoveryPoint(witness.store.max_offset, 0)


def test_half_an_entry_across_two_sectors_is_no_entry() -> None:
    """rolling-async/0/169/5-of-6/23: a crash in between found half the queues, a point behind them."""
    machine = Machine()
    witness = machine.witness
    witness.open()
    for count in (60, 42):
        witness.put_all(*(("c", 7, {}) for _ in range(count)))
    witness.flush()
    witness.put("c", 7)
    witness.pull("group", "c")
    image = machine.disk.image()
    path = ROOT / "consumequeue" / "c" / "0" / f"{0:020d}"
    entries = bytearray(image.files[path])
    assert struct.unpack_from(">qi", entries, 2_040)[0] > 0
    entries[2_040:2_048] = bytes(8)
    machine.reopen(replaced(image, path, bytes(entries)))


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_queue_whose_first_file_never_came_to_be_is_dispatched_again(is_missing: bool) -> None:
    """long-queue/1/295: names of derived files become durable with their entries, in any order before."""
    machine = Machine()
    witness = machine.witness
    witness.open()
    for _ in range(3):
        witness.put_all(*(("a", 7, {}) for _ in range(50)))
    witness.pull("group", "a")
    image = machine.disk.image()
    first = ROOT / "consumequeue" / "a" / "0" / f"{0:020d}"
    files = {path: data for path, data in image.files.items() if path != first or not is_missing}
    machine.reopen(Image(files if is_missing else files | {first: b""}, image.directories))


def test_entries_before_an_error_of_the_dispatcher_are_flushed_all_the_same() -> None:
    """SYNC_FLUSH ENOSPC at 86: they were not new the second time, and so in no flush."""
    machine = Machine()
    witness = machine.witness
    witness.open()
    witness.put("a", 100)
    witness.put("b", 100)

    def refuse(what: str, path: Path) -> None:
        if what == "reserve" and "b" in path.parts:
            raise StoreFull(path, 1, "no room")

    machine.disk.before = refuse
    witness.pull("group", "a", commit=False)
    assert "no room" in witness.store.stats().errors["consume queues"]
    machine.disk.before = lambda what, path: None
    witness.flush()
    machine.reopen(machine.power_cut(NOTHING_KEPT))


def test_erasing_a_torn_tail_touches_no_block_without_data() -> None:
    """puts/0/13: on a full disk a write into a hole of a mapped file is a SIGBUS."""
    machine = Machine(flush_disk_type="ASYNC_FLUSH")
    witness = machine.witness
    witness.open()
    witness.put("a", 300)
    image = machine.disk.image()
    torn = bytearray(image.files[SEGMENT])
    torn[:8] = bytes(8)
    disk = SimulatedDisk(replaced(image, SEGMENT, bytes(torn)))
    MessageStore.open(ROOT, witness.config, file_system=disk, start=False)
    written = [step for step in disk.steps if step.kind == "write" and step.path == SEGMENT]
    assert [(step.position, len(step.data)) for step in written] == [(8, 4_088)]


def test_what_a_failed_sync_left_in_memory_is_written_again() -> None:
    """ASYNC_FLUSH EIO at 56: the pages counted as clean, the next sync succeeded, the disk had nothing."""
    machine = Machine(flush_disk_type="ASYNC_FLUSH")
    witness = machine.witness
    witness.open()
    witness.put("a", 100)

    def fail(what: str, path: Path) -> None:
        if what == "sync" and path == SEGMENT:
            raise OSError(errno.EIO, "Input/output error")

    machine.disk.before = fail
    with pytest.raises(StorePoisoned):
        witness.flush()
    witness.kill()
    assert witness.open().max_offset > 0
    assert machine.reopen(machine.power_cut(NOTHING_KEPT)).max_offset == witness.store.max_offset


@pytest.mark.parametrize("broken", ["create", "reserve", "sync_directory"])
def test_a_disk_that_fails_under_a_put_poisons_the_store(broken: str) -> None:
    """ASYNC_FLUSH EIO at 31: an OSError escaped; and a directory sync was repeated after it had failed."""
    machine = Machine()
    witness = machine.witness
    witness.open()

    def fail(what: str, path: Path) -> None:
        if what == broken and LOG in (path, path.parent):
            raise OSError(errno.EIO, "Input/output error")

    machine.disk.before = fail
    for _ in range(2):
        with pytest.raises(StorePoisoned, match="Input/output error"):
            witness.store.put_message(Message("a", b"x"))
    with pytest.raises(StorePoisoned):
        witness.store.put_messages([Message("a", b"x")])


def test_an_entry_too_short_for_any_record_is_damage() -> None:
    """A size of 1 in a consume queue: struct.error escaped from get_message."""
    machine = Machine()
    witness = machine.witness
    witness.open()
    witness.put("a", 100)
    witness.close()
    image = machine.disk.image()
    path = ROOT / "consumequeue" / "a" / "0" / f"{0:020d}"
    entries = bytearray(image.files[path])
    struct.pack_into(">i", entries, 8, 1)
    disk = SimulatedDisk(replaced(image, path, bytes(entries)))
    store = MessageStore.open(ROOT, witness.config, file_system=disk, start=False)
    with pytest.raises(CorruptRecord, match="a record of 1 bytes"):
        store.get_message("group", "a", 0, 0)


def test_an_empty_segment_behind_a_durable_blank_may_be_lost() -> None:
    """prepared-async/1/109: a killed process had rolled; its successor noted the full segment as durable.

    The length of the new segment was not durable then, and a power cut left it at zero bytes.
    """
    machine = Machine(flush_disk_type="ASYNC_FLUSH")
    witness = machine.witness
    store = witness.open()
    blank_offset = 0
    while len(store.commit_log.files.files) < 2:
        blank_offset = store.max_offset
        witness.put("a", 2_000)
    witness.kill()
    left: list[tuple[Image, Promises]] = []
    machine.disk.before = lambda what, path: left.append((machine.power_cut(NOTHING_KEPT), machine.promises))
    end_offset = witness.open().max_offset
    ends = [machine.reopen(*each).max_offset for each in left]
    assert ends == sorted(ends)
    # Nothing of the log is durable; the full segment is; it is noted, too; the second one is durable.
    assert set(ends) == {0, blank_offset, SEGMENT_BYTES, end_offset}


def test_a_blank_may_be_torn_between_two_sectors() -> None:
    """prepared-async/3/159: its magic was kept and its length was not; the next segment had whole records.

    Recovery believed the magic, went on behind it, and the queues could not follow.
    """
    machine = Machine(flush_disk_type="ASYNC_FLUSH")
    witness = machine.witness
    store = witness.open()
    while len(store.commit_log.files.files) < 2:
        blank_offset = store.max_offset
        witness.flush()
        witness.put("a", 2_000)
    image = machine.disk.image()
    full = bytearray(image.files[SEGMENT])
    assert full[blank_offset + 4 : blank_offset + 8] == BLANK_MAGIC
    full[blank_offset : blank_offset + 4] = bytes(4)
    # Of two messages nothing was promised: the last, and what a rolling put begins.
    assert machine.reopen(replaced(image, SEGMENT, bytes(full))).max_offset == blank_offset
