"""Persistence: what each round makes durable, and that nothing on disk claims more than the log holds.

Method: a store without services on a file system that counts and logs its syncs; each step is called by hand.
"""

from pathlib import Path

from mqstore import Message, MessageStore
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.disks.watched_file_system import WatchedFileSystem
from support.stores.small_log import small_config


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
