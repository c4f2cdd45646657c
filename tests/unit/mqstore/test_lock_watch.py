"""A lost lock: what a writer does that finds its lock file deleted or replaced.

Method: a store on the real disk whose `lock` is deleted under it, with or without a second writer that has
come in. The services do not run; a test does the step that a service would do. What a crash can make of all
this is asked by the simulator (tests/crash).
"""

import shutil
import time
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.store.errors import StoreLocked, StoreLockLost, StorePoisoned
from mqstore.verify.verification import verify

SMALL = StoreConfig(
    mapped_file_size_commit_log=68_096,
    max_message_size=2_500,
    mapped_file_size_consume_queue=2_080,
    reserve_window_commit_log=65_536,
    flush_disk_type="SYNC_FLUSH",
)


def opened(root: Path) -> MessageStore:
    return MessageStore.open(root, SMALL, start=False)


def put_without_end(store: MessageStore, size: int, pause_s: float = 0) -> None:
    while True:
        store.put_message(Message("a", bytes(size)))
        time.sleep(pause_s)


def files_of(root: Path) -> dict[str, bytes]:
    """All files but those of LMDB's readers, which a reader writes to."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name not in ("lock", "lock.mdb")
    }


def test_a_copy_of_the_directory_keeps_the_lock(tmp_path: Path) -> None:
    """Made within the writing process, it gave the lock away: a second writer overwrote the first's puts."""
    with opened(tmp_path / "store") as store:
        store.put_message(Message("a", b"first"))
        shutil.copytree(tmp_path / "store", tmp_path / "copy")
        with pytest.raises(StoreLocked):
            opened(tmp_path / "store")
        store._lock_watch.check()
        store.put_message(Message("a", b"second"))


def test_a_deleted_lock_stops_the_writer(tmp_path: Path) -> None:
    """At the next look: puts, reads and all else raise one error that tells what happened and what to do."""
    store = opened(tmp_path)
    put = store.put_message(Message("a", b"first", keys=("k",)))
    (tmp_path / "lock").unlink()
    with pytest.raises(StoreLockLost, match=r"its lock file was deleted.*mqstore verify") as caught:
        store._lock_watch.check()
    assert isinstance(caught.value, StorePoisoned)
    assert (caught.value.path, caught.value.how) == (tmp_path, "its lock file was deleted")
    for ask in (
        lambda: store.put_message(Message("a", b"second")),
        lambda: store.put_messages([Message("a", b"second")] * 30),
        lambda: store.put_message_async(Message("a", b"second")),
        lambda: store.get_message("group", "a", 0, 0),
        lambda: store.look_message_by_offset(put.physical_offset),
        lambda: store.query_message("a", "k"),
        store.deliver_due,
        lambda: store.topics.create("b", 4),
        store.flush,
        store._services.retain,
        store._persistence.persist_state,
        store._persistence.persist_delay_offsets,
    ):
        with pytest.raises(StoreLockLost):
            ask()
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("notices", ["look", "state", "close"])
def test_nothing_of_the_next_writers_is_touched(tmp_path: Path, notices: str) -> None:
    """Neither by the services of the first nor by its close; not even `abort`, or keys it had in memory."""
    first = opened(tmp_path)
    first.put_message(Message("a", b"first", keys=("k1",)))
    first.query_message("a", "k1")
    (tmp_path / "lock").unlink()
    # As another process: the key index may be open once in a process.
    first._parts.key_feeds[0].index.drop()
    second = opened(tmp_path)
    for number in range(10):
        second.put_message(Message("a", b"second %d" % number, keys=("k2",)))
    second.flush()
    before = files_of(tmp_path)
    if notices == "look":
        with pytest.raises(StoreLockLost):
            first._lock_watch.check()
        first._services.dispatch()
    elif notices == "state":
        with pytest.raises(StoreLockLost):
            first._persistence.flush_in_background()
    first.close()
    assert files_of(tmp_path) == before
    assert "abort" in before
    second._lock_watch.check()
    second.close()
    report = verify(tmp_path, SMALL)
    assert report.is_sound
    assert report.records == 11


def test_no_segment_is_added_without_the_lock(tmp_path: Path) -> None:
    """A writer under load finds out before a whole segment is written, and nothing else is."""
    store = opened(tmp_path)
    store.put_message(Message("a", b"first"))
    (tmp_path / "lock").unlink()
    with pytest.raises(StoreLockLost):
        put_without_end(store, 2_000)
    assert [path.name for path in (tmp_path / "commitlog").iterdir()] == [f"{0:020d}"]
    store.close()


def test_it_is_noticed_without_being_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A service looks once a second; the program's log tells too."""
    store = MessageStore.open(tmp_path, SMALL)
    (tmp_path / "lock").unlink()
    with pytest.raises(StoreLockLost):
        put_without_end(store, 10, pause_s=0.02)
    assert "has lost its lock" in (store.stats().refusal or "")
    store.close()
    assert "has lost its lock" in caplog.text
    assert (tmp_path / "abort").exists()


def test_a_put_that_waits_for_the_disk_is_not_acknowledged(tmp_path: Path) -> None:
    """What it wrote may be overwritten already."""
    store = opened(tmp_path)
    future = store.put_message_async(Message("a", b"first"))
    (tmp_path / "lock").unlink()
    with pytest.raises(StoreLockLost):
        store._lock_watch.check()
    with pytest.raises(StoreLockLost):
        future.result(5)
    store.close()


def test_it_opens_again(tmp_path: Path) -> None:
    """After the loss all that was acknowledged before it is there."""
    store = opened(tmp_path)
    store.put_message(Message("a", b"first"))
    (tmp_path / "lock").unlink()
    store.close()
    with opened(tmp_path) as store:
        assert [bytes(each.body) for each in store.get_message("g", "a", 0, 0).messages] == [b"first"]
