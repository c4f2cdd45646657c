"""The services: what goes on by itself, each step when it is called, and the callbacks between the parts."""

import threading
from pathlib import Path

import pytest

from mqstore import GetMessageStatus, Message
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.disks.watched_file_system import WatchedFileSystem
from support.manual_clock import ManualClock
from support.stores.small_log import SEGMENT_BYTES
from support.stores.small_store import SmallStore, messages_of


def test_a_flush_dispatches_what_nobody_waits_for(small: SmallStore) -> None:
    """In SYNC_FLUSH the dispatcher sees what is durable: a put that does not wait is made so first."""
    with small.open(flush_disk_type="SYNC_FLUSH", start=False) as store:
        store.put_message_async(Message("orders", b"x"))
        store.put_message(Message("orders", b"y", wait_store_msg_ok=False))
        store.flush()
        assert store.stats().dispatch_behind_bytes == 0


def test_services_flush_dispatch_and_deliver_by_themselves(small: SmallStore) -> None:
    """Opened as usual, nothing has to be called."""
    settings = {"flush_interval_commit_log": 1, "flush_commit_log_least_pages": 0, "delivery_interval": 1}
    with small.open(start=True, flush_interval_consume_queue=1, dispatch_interval=1, **settings) as store:
        put = store.put_message(Message("orders", b"later", delay_level=1))
        small.clock.advance(1_000)
        assert store.wait_for_messages("orders", 0, 0, 60_000)
        deadline = threading.Event()
        for _ in range(60_000):
            if (
                store.commit_log.flushed_offset > put.physical_offset
                and store.stats().dispatch_behind_bytes == 0
            ):
                break
            deadline.wait(0.001)
        assert store.commit_log.flushed_offset > put.physical_offset
        assert store.stats().errors == {}


def test_retention_deletes_what_nobody_needs(file_system: FileSystem, root: Path, clock: ManualClock) -> None:
    """Old segments go, queues begin later, keys are forgotten; a waiting message keeps its segment."""
    watched = WatchedFileSystem(file_system)
    watched.used_percent = 80
    small = SmallStore(watched, root / "store", clock=clock)
    with small.open(file_reserved_time=1) as store:
        for index in range(10):
            store.put_message(Message("orders", bytes([index]) * 50_000, keys=f"k{index}"))
        store.put_message(Message("orders", b"later", delay_level=18))
        for index in range(10):
            store.put_message(Message("orders", bytes([index]) * 50_000))
        store.flush()
        for segment in store.commit_log.files.files:
            watched.ages[segment.path] = clock.now_ms() - 3_600_000
        store._services.retain()
        assert store.min_offset == 4 * SEGMENT_BYTES
        waiting = messages_of(store, "SCHEDULE_TOPIC_XXXX", 17)
        assert [message.body for message in waiting] == [b"later"]
        assert store.get_min_offset_in_queue("orders", 0) == 8
        result = store.get_message("test", "orders", 0, 3)
        assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, 8)
        assert store.query_message("orders", "k3") == []
        clock.advance(7_200_000)
        assert store.deliver_due() == 1
        store.flush()
        store._services.retain()
        assert store.min_offset > 4 * SEGMENT_BYTES
    with small.open() as store:
        assert store.put_message(Message("orders", b"next")).queue_offset == 21
        assert store.get_min_offset_in_queue("orders", 0) > 8


def test_what_is_not_dispatched_is_kept(clock: ManualClock) -> None:
    """However old its segment is: queues that never had its entries would have a hole."""
    watched = WatchedFileSystem(MemoryFileSystem())
    small = SmallStore(watched, Path("/store"), clock=clock)
    with small.open(file_reserved_time=1) as store:
        for _ in range(4):
            store.put_message(Message("orders", bytes(50_000)))
        store._flusher.flush()
        segments = [segment.path for segment in store.commit_log.files.files]
        watched.ages.update(dict.fromkeys(segments, clock.now_ms() - 7_200_000))
        assert store._services.expired_files() == []
        assert store._services.delete_expired_now() == 0
        store._services.dispatch()
        assert store._services.expired_files() == segments[:-1]
        assert store._services.delete_expired_now() == len(segments) - 1


def test_errors_are_told_by_the_name_of_what_failed(small: SmallStore) -> None:
    """Of dispatchers and services; what works again is not among them."""
    with small.open() as store:
        delivery = store._services.in_order_of_stop[0]
        store._parts.dispatcher.error, delivery.error = ValueError("no record"), OSError("no disk")
        assert store._services.errors() == {"consume queues": "no record", "delivery": "no disk"}
        assert store.stats().errors == store._services.errors()
        store._parts.dispatcher.error = delivery.error = None
        assert store._services.errors() == {}


def test_services_that_cannot_all_start_end(small: SmallStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads that had begun are over, and every step can be called all the same."""
    start, started = threading.Thread.start, []

    def limited(thread: threading.Thread) -> None:
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    with small.open() as store:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", limited)
            with pytest.raises(RuntimeError, match="cannot be started"):
                store._services.start()
        assert len(started) == 3
        assert not any(thread.is_alive() for thread in started)
        store.put_message(Message("orders", b"x", queue_id=0))
        store._services.dispatch()
        assert store.stats().dispatch_behind_bytes == 0


def test_the_log_asks_the_queues_for_the_first_offset(small: SmallStore) -> None:
    """After a reopening, numbers go on where the queue ends."""
    with small.open() as store:
        store.put_messages([Message("orders", b"x", queue_id=0)] * 3)
    with small.open() as store:
        assert store.put_message(Message("orders", b"x", queue_id=0)).queue_offset == 3


def test_a_put_that_does_not_wait_wakes_the_group_commit(small: SmallStore) -> None:
    """And the service's step makes it durable."""
    with small.open(flush_disk_type="SYNC_FLUSH") as store:
        group_commit = next(s for s in store._services.in_order_of_stop if s.name == "group-commit")
        group_commit.start()
        assert store.put_message_async(Message("orders", b"x")).result(60).durable
