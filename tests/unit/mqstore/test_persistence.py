"""Persistence: what each round makes durable, and that nothing on disk claims more than the log holds.

Method: a store without services on a file system that counts and logs its syncs; each step is called by hand.
"""

from pathlib import Path

from mqstore import Message, MessageStore
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.state.checkpoint_format import decode_checkpoint
from mqstore.store.threads.duty_cycle import DutyCycle
from support.disks.watched_file_system import WatchedFileSystem
from support.stores.small_log import small_config
from support.stores.small_store import SmallStore


def test_a_flush_without_the_queues_leaves_their_recovery_point(tmp_path: Path) -> None:
    """Log and keys are durable; the point from which queues are rebuilt stays."""
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


def test_the_checkpoint_never_goes_back(small: SmallStore) -> None:
    """A store that is only opened and closed leaves the times of its last messages."""
    with small.open() as store:
        store.put_message(Message("orders", b"x"))
    written = decode_checkpoint(small.file_system.read(small.path / "checkpoint"))
    assert written.physic_msg_timestamp == written.logics_msg_timestamp == small.clock.now_ms()
    small.clock.advance(1_000)
    small.open().close()
    assert decode_checkpoint(small.file_system.read(small.path / "checkpoint")) == written


def test_the_log_is_synced_before_what_points_into_it() -> None:
    """Log, then queues, then the points that say how far both are durable."""
    disk = WatchedFileSystem(MemoryFileSystem())
    small = SmallStore(disk, Path("/store"))
    with small.open() as store:
        store.put_message(Message("orders", b"x", queue_id=0))
        store.get_max_offset_in_queue("orders", 0)
        disk.steps.clear()
        store._persistence.flush_derived()
        synced = [path for step, path in disk.steps if step == "sync"]
        log = synced.index(small.path / "commitlog" / f"{0:020d}")
        queue = synced.index(small.path / "consumequeue" / "orders" / "0" / f"{0:020d}")
        points = [at for at, path in enumerate(synced) if path.parent.name == "mqstore"]
        assert log < queue < min(points)


def test_an_offset_is_saved_up_to_the_durable_end_of_its_queue(small: SmallStore) -> None:
    """A commit ahead of that is in memory only: after a crash the messages might be others (I6)."""
    with small.open() as store:
        store.put_messages([Message("orders", b"x", queue_id=0)] * 2)
        store._services.dispatch()
        store.consumer_offsets.commit("group", "orders", 0, 2)
        store.consumer_offsets.commit("other", "orders", 0, 5)
        store._persistence.persist_state()
        with small.open(read_only=True) as reader:
            assert reader.consumer_offsets.query("group", "orders", 0) == 2
            assert reader.consumer_offsets.query("other", "orders", 0) == 2


def test_a_cut_agrees_with_what_is_read_in_it(small: SmallStore) -> None:
    """The end of the log that a cut names is durable, and behind all that the state files say."""
    with small.open() as store:
        put = store.put_message(Message("orders", b"x", queue_id=0))
        store._services.dispatch()
        store.consumer_offsets.commit("group", "orders", 0, 1)
        end_offset, saved = store._persistence.cut(lambda: small.content["config/consumerOffset.json"])
        assert end_offset == store.commit_log.flushed_offset == put.physical_offset + put.store_size
        assert b"orders@group" in saved


def saved_offsets(small: SmallStore) -> tuple[int, dict[int, int]]:
    """What a store that is opened after a kill begins with: of the group, and of the delay levels."""
    with small.open(read_only=True) as reader:
        levels = {status.level: status.next_offset for status in reader.delivery.status()}
        return reader.consumer_offsets.query("group", "orders", 0), {
            level: offset for level, offset in levels.items() if offset
        }


def test_what_has_moved_is_saved_by_itself(small: SmallStore) -> None:
    """A delivery and a commit; topics are not written, and nothing is when nothing has moved."""
    with small.open() as store:
        store.put("orders", b"later", delay_s=1)
        small.clock.advance(1_000)
        assert store.deliver_due() == 1
        store._services.dispatch()
        store.consumer_offsets.commit("group", "orders", 0, 1)
        persistence = store._persistence
        persistence._progress_duty_cycle = DutyCycle(lambda: 0.0)
        persistence.persist_progress()
        assert saved_offsets(small) == (1, {1: 1})
        assert "config/topics.json" not in small.content
        written = dict(small.content)
        persistence.persist_progress()
        store.consumer_offsets.commit("group", "orders", 0, 1)
        persistence.persist_progress()
        assert small.content == written


def test_offsets_that_do_not_move_sync_nothing() -> None:
    """A store that only takes puts in ASYNC_FLUSH pays nothing for it."""
    disk = WatchedFileSystem(MemoryFileSystem())
    with SmallStore(disk, Path("/store")).open() as store:
        store.put("orders", b"x")
        disk.steps.clear()
        store._persistence.persist_progress()
        assert disk.steps == []


def test_an_offset_ahead_of_the_log_is_saved_again(small: SmallStore) -> None:
    """It was written lower than it is, so it counts as moved until the log has come so far."""
    with small.open() as store:
        store.put_messages([Message("orders", b"x", queue_id=0)] * 2)
        store._services.dispatch()
        store.consumer_offsets.commit("group", "orders", 0, 3)
        store._persistence._progress_duty_cycle = DutyCycle(lambda: 0.0)
        store._persistence.persist_progress()
        assert (saved_offsets(small)[0], store.consumer_offsets.have_moved) == (2, True)
        store.put_message(Message("orders", b"x", queue_id=0))
        store._services.dispatch()
        store._persistence.persist_progress()
        assert (saved_offsets(small)[0], store.consumer_offsets.have_moved) == (3, False)


def test_progress_gets_a_tenth_of_the_time(small: SmallStore) -> None:
    """Where a save takes long, the next one waits."""
    times = iter((0.0, 0.0, 0.0, 1.0, 5.0, 10.0, 10.0, 10.0))
    with small.open() as store:
        persistence = store._persistence
        persistence._progress_duty_cycle = DutyCycle(lambda: next(times))
        for offset, expected in ((1, 1), (2, 1), (3, 3)):
            store.put_message(Message("orders", b"x", queue_id=0))
            store._services.dispatch()
            store.consumer_offsets.commit("group", "orders", 0, offset)
            persistence.persist_progress()
            assert saved_offsets(small)[0] == expected
