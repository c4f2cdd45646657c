"""Closing: everything is durable and the directory is unlocked, also where a step fails or is interrupted."""

from pathlib import Path

import pytest

from mqstore import Message
from mqstore.store.errors import StoreClosed, StoreFull, StoreLocked
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.disks.watched_file_system import WatchedFileSystem
from support.stores.small_store import SmallStore, bodies_of, messages_of


def test_everything_is_there_after_closing_and_opening(small: SmallStore) -> None:
    """Messages, offsets, keys, topics, groups, consumer positions, delayed messages."""
    with small.open() as store:
        for index in range(300):
            store.put_message(
                Message("orders", bytes([index % 256]) * 1_000, keys=f"k{index % 7}", queue_id=index % 2)
            )
        store.put_message(Message("orders", b"later", delay_level=2))
        store.subscription_groups.create("billing", retry_max_times=3)
        store.consumer_offsets.commit("billing", "orders", 0, 17)
        before = [bodies_of(store, "orders", queue_id) for queue_id in (0, 1)]
        keys = [
            [m.physical_offset for m in store.query_message("orders", f"k{k}", max_num=99)] for k in range(7)
        ]
    assert not small.file_system.exists(small.path / "abort")
    with small.open() as store:
        assert store.recovery.records == 0
        assert [bodies_of(store, "orders", queue_id) for queue_id in (0, 1)] == before
        assert [
            [m.physical_offset for m in store.query_message("orders", f"k{k}", max_num=99)] for k in range(7)
        ] == keys
        assert store.consumer_offsets.query("billing", "orders", 0) == 17
        group = store.subscription_groups.get("billing")
        assert group is not None
        assert group.retry_max_times == 3
        assert store.put_message(Message("orders", b"next")).queue_offset == 150
        small.clock.advance(5_000)
        assert store.deliver_due() == 1


def test_closing_twice_is_no_error(small: SmallStore) -> None:
    """Nor is closing inside `with`."""
    with small.open() as store:
        store.close()
    store.close()
    small.open().close()


def test_after_closing_everything_is_refused(small: SmallStore) -> None:
    """With StoreClosed; only looking at it is still possible."""
    store = small.open()
    put = store.put_message(Message("orders", b"x"))
    store.close()
    for use in (
        lambda: store.put_message(Message("orders", b"y")),
        lambda: store.put_messages([Message("orders", b"y")]),
        lambda: store.put_message_async(Message("orders", b"y")),
        lambda: store.put_retry(Message("orders", b"y"), is_in_order=True),
        lambda: store.check_message(Message("orders", b"y")),
        lambda: store.put_own([Message("orders", b"y")]),
        lambda: store.when_visible(lambda: None),
        lambda: store.get_message("billing", "orders", 0, 0),
        lambda: store.look_message_by_offset(put.physical_offset),
        lambda: store.query_message("orders", "k"),
        lambda: store.get_max_offset_in_queue("orders", 0),
        lambda: store.get_min_offset_in_queue("orders", 0),
        lambda: store.get_offset_in_queue_by_time("orders", 0, 0),
        lambda: store.wait_for_messages("orders", 0, 0, 1_000),
        lambda: store.consumer_send_msg_back("billing", put.physical_offset),
        store.deliver_due,
        store.flush,
        lambda: store.topics.create("late"),
        store.topics.persist,
        lambda: store.subscription_groups.create("late"),
        lambda: store.consumer_offsets.commit("billing", "orders", 0, 1),
        lambda: store.consumer_offsets.reset("billing", "orders", 0, 1),
        lambda: store.consumer_offsets.persist(lambda topic, queue_id: 1),
    ):
        with pytest.raises(StoreClosed, match="is closed: open it again"):
            use()
    with small.open() as again:
        assert again.topics.get("late") is again.subscription_groups.get("late") is None
        assert again.consumer_offsets.query("billing", "orders", 0) == -1
    assert repr(store) == f"MessageStore({str(small.path)!r}, closed, max_offset={put.store_size})"


def test_messages_outlive_the_store(small: SmallStore) -> None:
    """What was lent stays readable."""
    with small.open() as store:
        store.put_message(Message("orders", b"kept", keys="k"))
        (message,) = messages_of(store, "orders")
    assert (message.body, message.keys) == (b"kept", ("k",))


def test_async_puts_are_done_when_the_store_is_closed(small: SmallStore) -> None:
    """Also those that nobody flushed before."""
    store = small.open(flush_disk_type="SYNC_FLUSH")
    future = store.put_message_async(Message("orders", b"x"))
    store.close()
    assert future.result(0).durable


def test_a_close_that_was_interrupted_can_be_called_again(
    small: SmallStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the disk is waited for leaves the lock held, and the second close gives it back."""
    store = small.open()
    store.put_message(Message("orders", b"kept"))

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store.commit_log.files, "delete_from", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.close()
    with pytest.raises(StoreLocked):
        small.open()
    store.close()
    with small.open() as again:
        assert again.get_max_offset_in_queue("orders", 0) == 1


def test_abort_is_the_last_file_that_goes() -> None:
    """Log, queues and state files are synced before it: a crash at any step is found by the next opening."""
    disk = WatchedFileSystem(MemoryFileSystem())
    small = SmallStore(disk, Path("/store"))
    store = small.open()
    put = store.put_message(Message("orders", b"x", queue_id=0))
    store.consumer_offsets.commit("group", "orders", 0, 1)
    disk.steps.clear()
    store.close()
    (gone,) = (at for at, step in enumerate(disk.steps) if step == ("delete", small.path / "abort"))
    log = small.path / "commitlog" / f"{0:020d}"
    queue = small.path / "consumequeue" / put.topic / "0" / f"{0:020d}"
    assert ("sync", log) in disk.steps[:gone]
    assert disk.steps.index(("sync", log)) < disk.steps.index(("sync", queue)) < gone
    assert not [step for step, _ in disk.steps[gone + 1 :] if step in ("write", "sync", "publish", "rename")]


@pytest.mark.parametrize("step", ["dispatch", "flush_derived", "persist_delay_offsets"])
def test_a_disk_too_full_for_what_is_derived_keeps_abort(
    step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The other steps are done all the same, a warning is logged, and the next opening makes up for it."""
    small = SmallStore(MemoryFileSystem(), Path("/store"))
    store = small.open()
    store.put_message(Message("orders", b"x", queue_id=0))
    store.get_max_offset_in_queue("orders", 0)
    store.consumer_offsets.commit("group", "orders", 0, 1)

    def too_full(*_: object, **__: object) -> None:
        raise StoreFull(small.path, 1, "no room")

    owner = store._services if step == "dispatch" else store._persistence
    monkeypatch.setattr(owner, step, too_full)
    store.close()
    assert store._closing.is_over
    assert "no room" in caplog.text
    assert "abort" in small.content
    with small.open() as again:
        assert [message.body for message in messages_of(again, "orders")] == [b"x"]
        assert again.consumer_offsets.query("group", "orders", 0) == 1


def test_a_state_file_that_fails_unlocks_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised, `abort` stays, nothing can be put, and a second close has nothing to do."""
    small = SmallStore(MemoryFileSystem(), Path("/store"))
    store = small.open()
    store.put_message(Message("orders", b"x", queue_id=0))

    def too_full() -> None:
        raise StoreFull(small.path, 1, "no room")

    with monkeypatch.context() as patched:
        patched.setattr(store._persistence, "persist_state", too_full)
        with pytest.raises(StoreFull):
            store.close()
    with pytest.raises(StoreClosed):
        store.put_message(Message("orders", b"lost"))
    store.close()
    assert "abort" in small.content
    with small.open() as again:
        assert again.get_max_offset_in_queue("orders", 0) == 1
