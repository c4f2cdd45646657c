"""The duty cycle of expensive work, and that a flush without the queues claims nothing about them."""

from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.duty_cycle import LONGEST_PAUSE_S, DutyCycle
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.disks.watched_file_system import WatchedFileSystem
from support.stores.small_log import small_config


class Clock:
    """Seconds, turned by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.0, 0.0), (0.5, 4.5), (1_000.0, LONGEST_PAUSE_S)])
def test_a_pause_is_nine_times_the_work(took_s: float, pause_s: float) -> None:
    """So the work takes a tenth of the time; but a minute is the longest pause."""
    clock = Clock()
    duty_cycle = DutyCycle(clock)
    assert duty_cycle.is_due

    def work() -> None:
        clock.now_s += took_s

    duty_cycle.run(work)
    assert duty_cycle.is_due == (pause_s == 0)
    clock.now_s += pause_s
    assert repr(duty_cycle) == "DutyCycle(is_due=True)"


def test_failed_work_may_be_tried_at_once() -> None:
    """Nothing is known of what it takes."""
    duty_cycle = DutyCycle(Clock())

    def fail() -> None:
        raise OSError("no such disk")

    with pytest.raises(OSError, match="no such disk"):
        duty_cycle.run(fail)
    assert duty_cycle.is_due


def test_a_flush_without_the_queues_leaves_their_recovery_point(tmp_path: Path) -> None:
    """Log and keys are durable; the point from which queues are made anew stays."""
    disk = WatchedFileSystem(MemoryFileSystem())
    store = MessageStore.open(tmp_path, small_config(), file_system=disk, start=False)
    persistence, parts = store._persistence, store._parts
    first = store.put_message(Message("orders", b"first"))
    store.get_max_offset_in_queue("orders", 0)
    # The first time they are synced, whatever was asked.
    persistence.flush_derived(with_queues=False)
    queue_file = tmp_path / "consumequeue" / "orders" / str(first.queue_id) / f"{0:020d}"
    assert disk.count("sync", queue_file) == 1
    point = parts.recovery_point.point
    assert point is not None
    store.put_message(Message("orders", b"second", queue_id=first.queue_id))
    store.get_max_offset_in_queue("orders", first.queue_id)
    persistence.flush_derived(with_queues=False)
    assert disk.count("sync", queue_file) == 1
    assert parts.recovery_point.point == (store.max_offset, point.queues_offset)
    assert store.max_offset > point.log_offset
    persistence.flush_derived()
    assert disk.count("sync", queue_file) == 2
    assert parts.recovery_point.point == (store.max_offset, store.max_offset)
    store.close()
