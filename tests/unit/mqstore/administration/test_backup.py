"""Backup: a copy made beside a writer is a whole store, holds all that was put before, and claims no more.

Method: small stores on the real disk. What runs beside the copy is let in at chosen moments, by wrapping the
file system, or runs in threads; copies are verified, opened, and compared with what had been acknowledged.
"""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.administration.backup import BackupReport
from mqstore.store.errors import (
    BackupFull,
    BackupRefused,
    BackupUnfinished,
    CorruptRecord,
    StoreClosed,
    StoreFull,
    StoreLocked,
)
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.verify.verification import verify
from support.manual_clock import ManualClock

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 68_096,
    "max_message_size": 2_500,
    "mapped_file_size_consume_queue": 2_080,
    "reserve_window_commit_log": 65_536,
    "message_delay_level": "1s 5s 10s",
    "delete_when": ";".join(map(str, range(24))),
}
SMALL = StoreConfig(**SIZES, flush_disk_type="SYNC_FLUSH")


def sound(root: Path) -> int:
    """How many records a directory has, which is sound, closed, and nobody's."""
    assert not (root / "abort").exists()
    assert not (root / "lock").exists()
    assert not (root / "unfinished-backup").exists()
    report = verify(root, SMALL)
    assert report.is_sound, report.findings
    return report.records


def bodies(store: MessageStore, topic: str = "a") -> set[bytes]:
    found: set[bytes] = set()
    for queue_id in range(8):
        offset = store.get_min_offset_in_queue(topic, queue_id)
        while messages := (got := store.get_message("reader", topic, queue_id, offset)).messages:
            found |= {bytes(message.body) for message in messages}
            offset = got.next_begin_offset
    return found


@pytest.mark.slow
def test_a_copy_holds_what_the_store_holds(tmp_path: Path) -> None:
    """Messages, keys, offsets, topics and what waits; the store goes on, and the copy is another store."""
    root, copy = tmp_path / "store", tmp_path / "copies" / "first"
    with MessageStore.open(root, SMALL, start=False) as store:
        bulk = [Message("a", b"%d" % at + bytes(900), keys=(f"k{at}",)) for at in range(200)]
        put = [store.put_message(message) for message in bulk]
        store.put_message(Message("a", b"later", delay_level=3))
        store.topics.create("named", 3)
        store.consumer_offsets.commit("group", "a", 0, 7)
        told: list[tuple[int, int]] = []
        report = store.backup(copy, on_progress=lambda done, total: told.append((done, total)))
        store.put_message(Message("a", b"behind"))
        assert report[:4] == (copy, 0, report.max_offset, 4)
        assert report.max_offset < store.max_offset
        assert told[-1][0] <= told[-1][1]
        assert all(early[0] <= late[0] for early, late in itertools.pairwise(told))
    assert sound(copy) == 201
    assert sorted(path.name for path in copy.parent.iterdir()) == ["first"]
    with MessageStore.open(copy, start=False) as opened:
        assert opened.recovery.records <= 1
        assert len(bodies(opened)) == 200
        assert bytes(opened.query_message("a", "k150")[0].body) == b"150" + bytes(900)
        assert opened.consumer_offsets.query("group", "a", 0) == 7
        assert opened.topics.get("named") is not None
        assert [level.pending for level in opened.delivery.status()] == [0, 0, 1]
        next_put = opened.put_message(Message("a", b"own", queue_id=put[-1].queue_id))
        assert next_put.physical_offset >= report.max_offset
    assert verify(root, SMALL).records == 202


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("from_outside", [False, True])
def test_copies_beside_putters_and_retention(tmp_path: Path, flush: str, *, from_outside: bool) -> None:
    """Each holds all that was acknowledged before it was begun, but for what retention took; none is torn."""
    config = StoreConfig(**SIZES, flush_disk_type=flush, file_reserved_time=0)  # type: ignore[arg-type]
    root = tmp_path / "store"
    with MessageStore.open(root, config) as store:
        acknowledged: dict[bytes, int] = {}
        is_over = threading.Event()

        def put(number: int) -> None:
            at = 0
            while not is_over.is_set():
                body = b"%d-%d-" % (number, at) + bytes(500)
                acknowledged[body] = store.put_message(Message("a", body, keys=("k",))).physical_offset
                store.consumer_offsets.commit(
                    "group", "a", at % 8, store.get_max_offset_in_queue("a", at % 8)
                )
                at += 1
                time.sleep(0.0005)

        def retain() -> None:
            while not is_over.is_set():
                if len(store.commit_log.files.files) > 4:
                    store._services.retain()
                time.sleep(0.01)

        threads = [threading.Thread(target=put, args=(number,)) for number in range(3)]
        threads.append(threading.Thread(target=retain))
        for thread in threads:
            thread.start()
        try:
            for number in range(4):
                time.sleep(0.15)
                before = dict(acknowledged)
                report = copied(store, root, tmp_path / f"copy-{number}", config, from_outside=from_outside)
                check_copy(report, before, acknowledged, config)
        finally:
            is_over.set()
            for thread in threads:
                thread.join()


def copied(
    store: MessageStore, root: Path, target: Path, config: StoreConfig, *, from_outside: bool
) -> BackupReport:
    """A backup by the writer, or by a reader, as another process is one."""
    if not from_outside:
        return store.backup(target)
    with MessageStore.open(root, config, read_only=True) as reader:
        return reader.backup(target)


def check_copy(
    report: BackupReport, before: dict[bytes, int], acknowledged: dict[bytes, int], config: StoreConfig
) -> None:
    sound(report.path)
    with MessageStore.open(report.path, config, start=False) as copy:
        found = bodies(copy)
        required = {body for body, offset in before.items() if offset >= report.min_offset}
        assert not required - found
        for row in copy.consumer_offsets:
            assert row.offset <= copy.get_max_offset_in_queue(row.topic, row.queue_id)


class Interrupting(OsFileSystem):
    """The real disk; `before` is called with each file that is about to be read."""

    before: Callable[[Path], None] = staticmethod(lambda path: None)

    def read_at(self, path: Path, position: int, length_bytes: int) -> bytes:
        self.before(path)
        return super().read_at(path, position, length_bytes)


def test_no_delayed_message_falls_between_cut_and_retention(tmp_path: Path) -> None:
    """Delivered behind the cut, its segment deleted before it was copied: the cut is made again."""
    disk, clock = Interrupting(), ManualClock()
    config = StoreConfig(**SIZES, flush_disk_type="SYNC_FLUSH", file_reserved_time=1)
    root = tmp_path / "store"
    store = MessageStore.open(root, config, clock=clock, file_system=disk, start=False)
    store.put_message(Message("a", b"later", delay_level=1))
    for at in range(200):
        store.put_message(Message("b", b"%d" % at + bytes(900)))

    def deliver_and_retain(path: Path) -> None:
        if path.name == f"{0:020d}" and path.parent.name == "commitlog":
            disk.before = lambda path: None
            clock.advance(1_100)
            assert store.deliver_due() == 1
            store.flush()
            os.utime(path, (0, 0))
            store._services._retention.run_once()
            assert store.min_offset > 0

    disk.before = deliver_and_retain
    report = store.backup(tmp_path / "copy")
    store.close()
    assert report.min_offset > 0
    assert sound(tmp_path / "copy") > 0
    with MessageStore.open(tmp_path / "copy", config, clock=clock, start=False) as copy:
        assert bodies(copy) == {b"later"}


def test_a_target_that_is_taken_is_refused(tmp_path: Path) -> None:
    """Whatever lies there stays; an empty directory is taken."""
    root = tmp_path / "store"
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "a.unfinished").mkdir()
    (tmp_path / "a.unfinished" / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    with MessageStore.open(root, SMALL, start=False) as store:
        store.put_message(Message("a", b"first"))
        for target in (tmp_path / "taken", tmp_path / "file", root, root / "within", tmp_path / "a"):
            with pytest.raises(BackupRefused):
                store.backup(target)
        store.backup(tmp_path / "empty")
    assert (tmp_path / "taken" / "file").read_text() == "mine"
    assert (tmp_path / "a.unfinished" / "file").read_text() == "mine"
    assert sound(tmp_path / "empty") == 1
    with pytest.raises(StoreClosed):
        store.backup(tmp_path / "late")


def test_a_full_target_is_told_and_given_up(tmp_path: Path) -> None:
    """By a StoreFull that names the target; nothing is left there, and the store goes on."""

    class Full(OsFileSystem):
        def map(self, path: Path, size_bytes: int, **settings: Any) -> Any:
            if "copy" in str(path) and settings.get("create"):
                raise StoreFull(path, size_bytes, "No space left on device")
            return super().map(path, size_bytes, **settings)

    store = MessageStore.open(tmp_path / "store", SMALL, file_system=Full(), start=False)
    store.put_message(Message("a", b"first"))
    with pytest.raises(BackupFull, match="given up and deleted") as caught:
        store.backup(tmp_path / "copy")
    assert caught.value.path == tmp_path / "copy"
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    store.put_message(Message("a", b"second"))
    store.close()


def test_a_damaged_store_is_not_copied_in_silence(tmp_path: Path) -> None:
    """A reader would see the log end before the damage."""
    root = tmp_path / "store"
    with MessageStore.open(root, SMALL, start=False) as store:
        offsets = [store.put_message(Message("a", bytes(100))).physical_offset for _ in range(5)]
    (root / "mqstore" / "recovery-point").unlink()
    with (root / "commitlog" / f"{0:020d}").open("r+b") as segment:
        segment.seek(offsets[2] + 90)
        segment.write(b"x")
    with MessageStore.open(root, SMALL, read_only=True) as reader, pytest.raises(CorruptRecord):
        reader.backup(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


PROGRAM = """
import os, sys, signal
from pathlib import Path
from mqstore import MessageStore
from mqstore.store.files.os_file_system import OsFileSystem

class Dying(OsFileSystem):
    left = int(sys.argv[3])

    def count(self):
        Dying.left -= 1
        if Dying.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def map(self, path, size_bytes, **settings):
        self.count()
        return super().map(path, size_bytes, **settings)

    def delete(self, path):
        self.count()
        super().delete(path)

    def rename(self, source, target):
        self.count()
        super().rename(source, target)
        self.count()

    def sync_directory(self, path):
        self.count()
        super().sync_directory(path)

with MessageStore.open(sys.argv[1], read_only=True, file_system=Dying()) as store:
    store.backup(sys.argv[2])
print("done")
"""


@pytest.mark.slow
def test_a_backup_that_is_killed_is_no_backup(tmp_path: Path) -> None:
    """At any step the target is not there, or whole; what is left does not open; the next one succeeds."""
    root, target = tmp_path / "store", tmp_path / "copy"
    with MessageStore.open(root, SMALL, start=False) as store:
        for at in range(100):
            store.put_message(Message("a", b"%d" % at + bytes(900), keys=("k",)))
    seen = set()
    for step in range(2, 400, 19):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(root), str(target), str(step)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        unfinished = tmp_path / "copy.unfinished"
        if target.exists():
            seen.add("whole")
            break
        if (unfinished / "unfinished-backup").exists():
            seen.add("marked")
            for read_only in (False, True):
                with pytest.raises(BackupUnfinished, match="delete it and make it again"):
                    MessageStore.open(unfinished, SMALL, read_only=read_only)
        elif unfinished.exists() and any(unfinished.iterdir()):
            # All is copied: only the name is missing.
            seen.add("unnamed")
            with MessageStore.open(unfinished, SMALL) as copy:
                assert len(bodies(copy)) == 100
            unfinished.rename(tmp_path / f"unnamed-{step}")
    assert "marked" in seen
    assert sound(target) == 100


def test_two_backups_to_one_place_exclude_each_other(tmp_path: Path) -> None:
    """The second is refused while the first is at work, and names its process."""
    disk = Interrupting()
    store = MessageStore.open(tmp_path / "store", SMALL, file_system=disk, start=False)
    store.put_message(Message("a", b"first"))
    refused: list[StoreLocked] = []

    def begin_second(path: Path) -> None:
        disk.before = lambda path: None
        with pytest.raises(StoreLocked) as caught:
            store.backup(tmp_path / "copy")
        refused.append(caught.value)

    disk.before = begin_second
    store.backup(tmp_path / "copy")
    store.close()
    assert [error.holder_pid for error in refused] == [os.getpid()]
    assert sound(tmp_path / "copy") == 1


def test_a_store_in_memory_is_copied_in_memory() -> None:
    """The seam is the same."""
    disk = MemoryFileSystem()
    store = MessageStore.open("/store", SMALL, file_system=disk, start=False)
    store.put_message(Message("a", b"first"))
    store.backup("/copy")
    store.close()
    with MessageStore.open("/copy", SMALL, file_system=disk, start=False) as copy:
        assert bodies(copy) == {b"first"}


def test_an_empty_store_is_copied(tmp_path: Path) -> None:
    """As one that opens."""
    with MessageStore.open(tmp_path / "store", SMALL) as store:
        assert store.backup(tmp_path / "copy")[1:4] == (0, 0, 0)
    with MessageStore.open(tmp_path / "copy", SMALL) as copy:
        assert copy.max_offset == 0
