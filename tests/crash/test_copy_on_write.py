"""Disks that do not keep the room they have reserved: btrfs, and xfs whose files somebody copies by reflink.

Goal: a full disk is StoreFull there too, and no SIGBUS: reads go on, puts resume, and nothing acknowledged is
lost.
Method: small loop disks that another process fills up while puts go on. Where the machine cannot mount them,
these tests are skipped and say why. What a store does that writes by calls is tested on every machine, too.
"""

import gc
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, PutMessageResult, StoreConfig
from mqstore.store.errors import ConfigIllegal, StoreFull
from mqstore.store.files.os_file_system import OsCalledRegion, OsFileSystem
from support.disks.loop_disk import LoopDisk, why_not
from support.stores.small_store import messages_of

_MIB = 1 << 20
_PATIENCE_S = 60


def config(flush_disk_type: str = "SYNC_FLUSH", mapped_writes: str = "auto") -> StoreConfig:
    return StoreConfig(
        flush_disk_type=flush_disk_type,  # type: ignore[arg-type]
        mapped_writes=mapped_writes,  # type: ignore[arg-type]
        mapped_file_size_commit_log=8 * _MIB,
        max_message_size=60_000,
        mapped_file_size_consume_queue=20_000,
        reserve_window_commit_log=4 * _MIB,
        reserve_window_consume_queue=4_096,
        flush_interval_consume_queue=20,
        clean_resource_interval=3_600_000,
        max_hash_slot_num=5_000,
        max_index_num=20_000,
    )


@pytest.fixture(params=["btrfs", "xfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoopDisk]:
    reason = why_not(tmp_path / "probe", request.param)
    if reason is not None:
        pytest.skip(f"{request.param}: {reason}")
    with LoopDisk(tmp_path, kind=request.param) as mounted:
        yield mounted
        gc.collect()


def message(number: int) -> Message:
    return Message("orders", b"%06d" % number * 60, keys=(f"k{number}",), queue_id=number % 2)


def put(store: MessageStore, acknowledged: list[PutMessageResult]) -> None:
    acknowledged.append(store.put_message(message(len(acknowledged))))


def check_readable(store: MessageStore, acknowledged: list[PutMessageResult]) -> None:
    for number, result in enumerate(acknowledged):
        found = store.look_message_by_offset(result.physical_offset)
        assert found is not None
        assert bytes(found.body) == message(number).body


def check_all_there(store: MessageStore, acknowledged: list[PutMessageResult]) -> None:
    """In the log, in the queues, and under their keys."""
    check_readable(store, acknowledged)
    for queue_id in range(2):
        queue = messages_of(store, "orders", queue_id)
        assert [each.physical_offset for each in queue] == [
            result.physical_offset for result in acknowledged if result.queue_id == queue_id
        ]
    for number in (0, len(acknowledged) - 1):
        assert len(store.query_message("orders", f"k{number}")) == 1


def reflink(store: Path, copy: Path) -> None:
    """Copy log, queues and keys. State files are replaced meanwhile: a name that was listed may be gone."""
    (copy / "mqstore").mkdir(parents=True)
    for name in ("commitlog", "consumequeue", "mqstore/keys"):
        command = ("cp", "-r", "--reflink=always", store / name, copy / name)
        subprocess.run([str(word) for word in command], check=True)


@pytest.mark.parametrize("meanwhile", [True, False])
@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_full_disk_refuses_puts_until_there_is_room(
    disk: LoopDisk, flush_disk_type: str, meanwhile: bool
) -> None:
    """Another process fills it in the midst of puts or before them; one had copied its files by reflink."""
    acknowledged: list[PutMessageResult] = []
    with MessageStore.open(disk.path / "store", config(flush_disk_type)) as store:
        for _ in range(300):
            put(store, acknowledged)
        assert len(messages_of(store, "orders")) == 150
        assert isinstance(store.commit_log.files.files[0].region, OsCalledRegion)
        reflink(disk.path / "store", disk.path / "copy")
        filling = disk.fill_beside()
        if not meanwhile:
            filling.wait(_PATIENCE_S)
        refused = 0
        deadline_s = time.monotonic() + _PATIENCE_S
        while refused < 30 and time.monotonic() < deadline_s:
            try:
                put(store, acknowledged)
            except StoreFull:
                refused += 1
                time.sleep(0.01)
        assert filling.wait(_PATIENCE_S) == 0
        assert refused == 30
        check_readable(store, acknowledged)
        assert store.get_message("group", "orders", 0, 0).messages
        assert len(store.query_message("orders", "k5")) == 1
        with pytest.raises(StoreFull):
            store.put_messages([message(0) for _ in range(20_000)])
        disk.make_room()
        while len(acknowledged) < 600 and time.monotonic() < deadline_s:
            try:
                put(store, acknowledged)
            except StoreFull:
                # btrfs gives room back behind its next commit.
                time.sleep(0.05)
        store.flush()
        check_all_there(store, acknowledged)
    with MessageStore.open(disk.path / "store", config(flush_disk_type)) as store:
        check_all_there(store, acknowledged)


def test_a_killed_store_opens_on_such_a_disk(disk: LoopDisk) -> None:
    """The tail is written again by calls; another process reads what is there beside the writer."""
    acknowledged: list[PutMessageResult] = []
    store = MessageStore.open(disk.path / "store", config("ASYNC_FLUSH"), start=False)
    for _ in range(300):
        put(store, acknowledged)
    with MessageStore.open(disk.path / "store", config(), read_only=True) as reader:
        check_readable(reader, acknowledged)
    store._closing.release()
    del store
    with MessageStore.open(disk.path / "store", config()) as again:
        check_all_there(again, acknowledged)


def test_by_calls_no_mapping_can_be_written(tmp_path: Path) -> None:
    """So that no writer can be forgotten: the memory is read-only, and no loop is given its address."""
    region = OsFileSystem("never").map(tmp_path / "file", 8_192, create=True)
    region.reserve(0, 8_192)
    region.publish(100, b"12345678 a record")
    assert bytes(region.view[100:117]) == b"12345678 a record"
    assert region.view.readonly
    assert region.address == 0
    lines = Path("/proc/self/maps").read_text().splitlines()
    assert [line.split()[1] for line in lines if line.endswith(str(tmp_path / "file"))] == ["r--s"]


def test_a_store_may_be_told_how_to_write(tmp_path: Path) -> None:
    """By calls everywhere, or through mappings; a third word is refused."""
    for mapped_writes, is_called in (("never", True), ("always", False)):
        path = tmp_path / mapped_writes
        acknowledged: list[PutMessageResult] = []
        with MessageStore.open(path, config(mapped_writes=mapped_writes)) as store:
            for _ in range(50):
                put(store, acknowledged)
            check_all_there(store, acknowledged)
            assert isinstance(store.commit_log.files.files[0].region, OsCalledRegion) == is_called
        with MessageStore.open(path, config()) as store:
            check_all_there(store, acknowledged)
    with pytest.raises(ConfigIllegal, match="mapped_writes"):
        config(mapped_writes="sometimes")
