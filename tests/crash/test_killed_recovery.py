"""A recovery that is killed goes on where it was: what it had made durable is not done again.

Method: a store is left by a process that has synced nothing of several segments. It is opened, and killed
where it tells its progress, again and again; each attempt starts on what the one before has left.
What is written to the log, and dispatched to the queues, is counted over all of them.
"""

from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.index.queue.queue_manifest_format import QueueFiles, QueueManifest
from mqstore.index.queue.queue_recovery import bring_up_to_date
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.recovery_point_format import decode_recovery_point
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.filled_queues import FilledQueues
from support.stores.small_log import SEGMENT_BYTES, small_config

ROOT = Path("/store")
SEGMENTS = 6


class Killed(BaseException):
    """The process ends here."""


def leave_unsynced(disk: SimulatedDisk) -> int:
    """Fill some segments and be killed; returns the messages that were put."""
    store = MessageStore.open(ROOT, small_config(), file_system=disk, clock=disk.clock, start=False)
    count = 0
    while store.max_offset < (SEGMENTS - 0.5) * SEGMENT_BYTES:
        store.put_message(Message("orders", bytes([count % 251]) * 5_000, queue_id=count % 3))
        count += 1
    disk.kill()
    return count


def open_until(disk: SimulatedDisk, kill_at: int) -> MessageStore | None:
    """Open; be killed at the `kill_at`-th word of progress. None when that was the end."""
    told = 0

    def on_progress(what: str, done: int, total: int) -> None:
        nonlocal told
        told += 1
        if told == kill_at:
            raise Killed

    try:
        return MessageStore.open(
            ROOT, small_config(), file_system=disk, clock=disk.clock, start=False, on_progress=on_progress
        )
    except Killed:
        disk.kill()
        return None


def bytes_written_to_log(disk: SimulatedDisk) -> int:
    return sum(
        len(step.data) for step in disk.steps if step.kind == "write" and step.path.parent.name == "commitlog"
    )


@pytest.mark.parametrize("kill_at", range(1, SEGMENTS + 1))
def test_a_segment_that_was_settled_is_not_written_again(kill_at: int) -> None:
    """Three kills at the same place, then an opening that ends: each byte once, and one segment a kill."""
    disk = SimulatedDisk(clock=ManualClock())
    count = leave_unsynced(disk)
    disk.steps.clear()
    for _ in range(3):
        assert open_until(disk, kill_at) is None
    settled = decode_recovery_point(disk.read(ROOT / "mqstore" / "recovery-point"))
    assert isinstance(settled, tuple)
    assert settled.log_offset >= (kill_at - 1) * SEGMENT_BYTES
    store = open_until(disk, 0)
    assert store is not None
    assert bytes_written_to_log(disk) <= SEGMENTS * SEGMENT_BYTES
    assert sum(store.get_max_offset_in_queue("orders", queue_id) for queue_id in range(3)) == count
    store.close()


@pytest.mark.parametrize("is_rebuild", [True, False])
def test_queues_that_were_made_durable_are_not_filled_again(
    file_system: FileSystem, root: Path, *, is_rebuild: bool
) -> None:
    """Killed behind each piece in turn: those before are passed over, and the files are those of one go."""
    filled = FilledQueues(file_system, root)
    while filled.log.max_offset < 4 * SEGMENT_BYTES:
        filled.put(b"x" * 900, topic="ab"[filled.log.max_offset % 2], queue_id=filled.log.max_offset % 3)
    before = filled.files()
    filled.queues.destroy()
    piece_bytes = SEGMENT_BYTES // 2
    start, position, kills, dispatched_bytes, may_go_on = 0, 0, 0, 0, True
    lost = QueueManifest(0, {("a", 0): QueueFiles(0, 0)} if is_rebuild else {})

    def on_durable(offset: int) -> None:
        nonlocal start, may_go_on
        start, may_go_on = offset, False

    def on_progress(_: str, done_bytes: int, __: int) -> None:
        nonlocal dispatched_bytes, position
        offset = filled.log.min_offset + done_bytes
        if not may_go_on:
            raise Killed
        dispatched_bytes += offset - position
        position = offset

    while position < filled.log.max_offset:
        position, may_go_on = start, True
        try:
            bring_up_to_date(
                filled.log,
                filled.open_queues(),
                start,
                after_crash=True,
                expected=lost if start == 0 else None,
                on_progress=on_progress,
                on_durable=on_durable,
                durable_bytes=piece_bytes,
            )
        except Killed:
            kills += 1
    assert kills >= 3
    assert filled.files() == before
    assert dispatched_bytes == filled.log.max_offset
