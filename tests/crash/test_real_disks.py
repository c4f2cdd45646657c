"""Real disks that fill up, turn read-only, lose their power, or are full before a write is seen to fail.

Goal: what fault_runs.py and the simulator show with errors of their own making holds with those of Linux and
ext4. Method: small ext4 images behind a loop device (loop_disk.py). Where the machine cannot mount one, these
tests are skipped and say why; the limit on the size of files needs no rights at all.

The store runs with its services. A child process holds it where the disk is unmounted behind it, for mapped
pages keep a file system busy as long as anybody lends them.
"""

import contextlib
import gc
import os
import resource
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, PutMessageResult, PutMessageStatus, StoreConfig
from mqstore.store.errors import StoreFull, StorePoisoned
from support.disks.loop_disk import LoopDisk, why_not
from support.shutdowns.putter import store_settings
from support.stores.small_store import messages_of

_MIB = 1 << 20
_PATIENCE_S = 20


def config(**settings: Any) -> StoreConfig:
    return StoreConfig(**(store_settings() | settings))


@pytest.fixture(scope="module")
def can_mount(tmp_path_factory: pytest.TempPathFactory) -> None:
    reason = why_not(tmp_path_factory.mktemp("probe"))
    if reason is not None:
        pytest.skip(f"real disks: {reason}")


@pytest.fixture
def disk(can_mount: None, tmp_path: Path) -> Iterator[LoopDisk]:
    with LoopDisk(tmp_path) as mounted:
        yield mounted
        gc.collect()


def message(number: int, size: int = 3_000) -> Message:
    return Message("orders", b"%06d" % number * (size // 6), keys=(f"k{number}",), queue_id=number % 2)


def put_until_it_fails(store: MessageStore, first: int = 0) -> tuple[list[PutMessageResult], Exception]:
    """What was acknowledged, from message number `first` on, and the error that ended it."""
    acknowledged: list[PutMessageResult] = []
    while True:
        try:
            acknowledged.append(store.put_message(message(first + len(acknowledged))))
        except Exception as error:  # noqa: BLE001 - the tests look at it
            return acknowledged, error


def check_all_there(store: MessageStore, acknowledged: list[PutMessageResult]) -> None:
    """Every acknowledged message, with its content, in its queue and under its key."""
    for number, put in enumerate(acknowledged):
        found = store.look_message_by_offset(put.physical_offset)
        assert found is not None
        assert bytes(found.body) == message(number).body
    for queue_id in range(2):
        queue = messages_of(store, "orders", queue_id)
        assert [each.queue_offset for each in queue] == list(range(len(queue)))
        assert [each.physical_offset for each in queue] >= [
            put.physical_offset for put in acknowledged if put.queue_id == queue_id
        ]
    if acknowledged:
        assert len(store.query_message("orders", f"k{len(acknowledged) - 1}")) == 1


def in_child(work: Callable[[], None]) -> None:
    """Do it in a process of its own, which ends without closing anything."""
    process_id = os.fork()
    if process_id == 0:
        try:
            work()
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(process_id, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "see what the child has printed"


# -- a disk that fills up ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_full_disk_refuses_puts_until_there_is_room(disk: LoopDisk, flush_disk_type: str) -> None:
    """A typed error that leaves nothing; reads go on; puts resume by themselves; nothing is lost."""
    settings = config(flush_disk_type=flush_disk_type)
    with MessageStore.open(disk.path / "store", settings) as store:
        acknowledged = [store.put_message(message(number)) for number in range(80)]
        # They are in their queues now, so that these have files.
        assert len(messages_of(store, "orders")) == 40
        disk.fill(left_bytes=6 * _MIB)
        put_then, error = put_until_it_fails(store, len(acknowledged))
        acknowledged += put_then
        assert isinstance(error, StoreFull)
        assert len(put_then) > 100
        end = store.max_offset
        with pytest.raises(StoreFull):
            store.put_messages([message(0, 30_000) for _ in range(4)])
        assert store.max_offset == end
        # A queue may have no room for more entries then; what it lacks comes from the log.
        for queue_id in range(2):
            found = [each.physical_offset for each in messages_of(store, "orders", queue_id)]
            assert found == [put.physical_offset for put in acknowledged if put.queue_id == queue_id]
        assert all(store.look_message_by_offset(put.physical_offset) for put in acknowledged)
        disk.make_room()
        acknowledged.append(store.put_message(message(len(acknowledged))))
        store.flush()
    with MessageStore.open(disk.path / "store", settings) as store:
        check_all_there(store, acknowledged)


@pytest.mark.slow
def test_a_store_is_closed_on_a_full_disk(disk: LoopDisk, caplog: pytest.LogCaptureFixture) -> None:
    """The log is durable and the directory given back; only what no log can tell is an error."""
    store = MessageStore.open(disk.path / "store", config())
    disk.fill(left_bytes=5 * _MIB)
    acknowledged, error = put_until_it_fails(store)
    assert isinstance(error, StoreFull)
    disk.fill_up()
    store.consumer_offsets.commit("group", "orders", 0, 3)
    with pytest.raises(StoreFull, match="config"):
        store.close()
    assert "closing" in caplog.text
    disk.make_room()
    with MessageStore.open(disk.path / "store", config()) as store:
        check_all_there(store, acknowledged)


@pytest.mark.slow
def test_a_disk_without_inodes_is_a_full_disk(can_mount: None, tmp_path: Path) -> None:
    """No new segment can be made: StoreFull and not a poisoned store, for nothing was lost."""
    with LoopDisk(tmp_path, inodes=64) as disk:
        store = MessageStore.open(disk.path / "store", config(mapped_file_size_commit_log=_MIB))
        store.put_message(message(0))
        store.flush()
        taken = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(disk.path / f"taken-{len(taken)}")
                taken[-1].touch()
        acknowledged, error = put_until_it_fails(store)
        assert isinstance(error, StoreFull), error
        assert len(acknowledged) > 100
        for path in taken[:8]:
            path.unlink(missing_ok=True)
        store.put_message(message(0))
        store.close()
        gc.collect()


# -- a disk that turns read-only, or fails under a sync ------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("what", ["become_read_only", "cut_power"])
def test_a_disk_that_fails_poisons_the_store(disk: LoopDisk, what: str, flush_disk_type: str) -> None:
    """EROFS, and EIO from fdatasync: reads go on, close gives the directory back, nothing durable is lost."""
    settings = config(flush_disk_type=flush_disk_type)
    path = disk.path / "store"

    def work() -> None:
        store = MessageStore.open(path, settings)
        acknowledged = [store.put_message(message(number)) for number in range(200)]
        store.flush()
        getattr(disk, what)()
        with pytest.raises(StorePoisoned):
            wait_until_refused(store)
        assert len(messages_of(store, "orders")) >= 100
        assert store.stats().refusal is not None
        store.close()
        assert acknowledged[-1].queue_offset == 99

    in_child(work)
    disk.remount()
    with MessageStore.open(path, settings) as store:
        found = len(messages_of(store, "orders")) + len(messages_of(store, "orders", 1))
        assert found >= 200
        assert store.put_message(message(0)).queue_offset == len(messages_of(store, "orders")) - 1


def wait_until_refused(store: MessageStore) -> None:
    """In ASYNC_FLUSH the disk is asked in the background."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline_s:
        store.put_message(message(0))


# -- a disk that loses its power ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_what_was_acknowledged_survives_the_end_of_the_file_system(disk: LoopDisk, seed: int) -> None:
    """Three putters, and a power cut at a moment that nobody chose: ext4's own order of things, not ours.

    What is promised while ext4 is being shut down does not count: it lets a sync succeed that the shutdown
    overtakes, and keeps nothing of it (`make shutdowns` shows it with bare files).
    """
    path = disk.path / "store"
    reader, writer = os.pipe()
    is_cut = threading.Event()

    def put_for_ever(store: MessageStore, thread: int) -> None:
        number = 0
        while True:
            text = b"%d-%d" % (thread, number)
            try:
                put = store.put_message(Message("orders", text * 50, queue_id=thread, keys=("k",)))
            except StorePoisoned:
                return
            if is_cut.is_set():
                return
            if put.status != PutMessageStatus.PUT_OK:
                continue
            os.write(writer, b"%d %d %d %s\n" % (put.queue_id, put.queue_offset, put.physical_offset, text))
            number += 1

    def work() -> None:
        store = MessageStore.open(path, config())
        threads = [threading.Thread(target=put_for_ever, args=(store, thread)) for thread in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.15 + 0.07 * seed)
        is_cut.set()
        disk.cut_power()
        for thread in threads:
            thread.join()

    said: list[bytes] = []

    def listen() -> None:
        with os.fdopen(reader, "rb") as pipe:
            said.extend(pipe)

    listener = threading.Thread(target=listen)
    listener.start()
    in_child(work)
    os.close(writer)
    listener.join()
    disk.remount()
    with MessageStore.open(path, config()) as store:
        for line in said:
            queue_id, queue_offset, physical_offset, text = line.split()
            found = store.look_message_by_offset(int(physical_offset))
            assert found is not None
            assert (found.queue_id, found.queue_offset) == (int(queue_id), int(queue_offset))
            assert bytes(found.body) == text * 50
        for queue_id in range(3):
            queue = messages_of(store, "orders", queue_id)
            assert [each.queue_offset for each in queue] == list(range(len(queue)))
        del found
    assert len(said) > 3


# -- a limit on the size of files --------------------------------------------------------------------------


@pytest.fixture
def file_size_limit() -> Iterator[Callable[[int], None]]:
    """Sets RLIMIT_FSIZE; Python ignores SIGXFSZ, so a write beyond it is EFBIG."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size_bytes: resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_limit_on_file_sizes_is_a_full_disk(tmp_path: Path, file_size_limit: Callable[[int], None]) -> None:
    """EFBIG: StoreFull for a segment that may not be made, and puts resume once the limit is gone."""
    store = MessageStore.open(tmp_path / "store", config(mapped_file_size_commit_log=_MIB), start=False)
    first = store.put_message(message(0))
    file_size_limit(_MIB // 2)
    acknowledged, error = put_until_it_fails(store)
    assert isinstance(error, StoreFull), error
    assert store.look_message_by_offset(first.physical_offset) is not None
    file_size_limit(resource.RLIM_INFINITY)
    store.put_message(message(0))
    store.close()
    with MessageStore.open(tmp_path / "store", config(mapped_file_size_commit_log=_MIB)) as store:
        assert store.get_max_offset_in_queue("orders", 0) == (len(acknowledged) + 1) // 2 + 2
