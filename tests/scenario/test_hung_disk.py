"""A disk that hangs: in SYNC_FLUSH no put waits longer than `sync_flush_timeout`, and nothing is lost.

Method: a store on real files, whose timed syncs call a function that waits until the test lets it go on.
"""

import dataclasses
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.store.errors import StorePoisoned
from mqstore.store.status import PutMessageStatus
from support.disks.played_disk import PlayedDisk
from support.stores.small_store import messages_of

CONFIG = StoreConfig(
    flush_disk_type="SYNC_FLUSH",
    sync_flush_timeout=100,
    mapped_file_size_commit_log=400_000,
    max_message_size=20_000,
    key_index_enable=False,
)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedDisk]:
    disk = PlayedDisk(monkeypatch)
    yield disk
    disk.goes_on.set()


def put(store: MessageStore, number: int) -> PutMessageStatus:
    return store.put_message(Message("orders", b"%d" % number)).status


def put_durably(store: MessageStore, number: int) -> None:
    """The machine may be slow, too."""
    while put(store, number) is not PutMessageStatus.PUT_OK:
        pass


def test_no_put_waits_longer_than_it_may(tmp_path: Path, disk: PlayedDisk) -> None:
    """Whether it makes the sync itself, waits for another one's or comes later: FLUSH_DISK_TIMEOUT.

    Once the disk goes on, puts are durable again, those before as well. The store leaves no thread.
    """
    with MessageStore.open(tmp_path / "store", CONFIG) as store:
        put_durably(store, 0)
        disk.goes_on.clear()
        with ThreadPoolExecutor(4) as pool:
            begun_s = time.monotonic()
            statuses = list(pool.map(lambda number: put(store, number), range(1, 9)))
            assert time.monotonic() - begun_s < 30
        assert statuses == [PutMessageStatus.FLUSH_DISK_TIMEOUT] * 8
        assert len(disk.threads()) == 1
        disk.goes_on.set()
        put_durably(store, 9)
        bodies = {bytes(message.body) for message in messages_of(store, "orders")}
        assert bodies == {b"%d" % number for number in range(10)}
    assert not disk.threads()


def test_a_late_error_ends_the_puts(tmp_path: Path, disk: PlayedDisk) -> None:
    """Of a sync that nobody waits for any more: it is not taken for another one's success."""
    with MessageStore.open(tmp_path / "store", CONFIG) as store:
        put_durably(store, 0)
        disk.goes_on.clear()
        disk.error_number = 5
        assert put(store, 1) is PutMessageStatus.FLUSH_DISK_TIMEOUT
        disk.goes_on.set()
        with pytest.raises(StorePoisoned, match="Input/output error"):
            put_durably(store, 2)
    assert not disk.threads()


def test_one_thread_syncs_all_segments(tmp_path: Path, disk: PlayedDisk) -> None:
    """It ends with a segment that is full, and the next one has its own."""
    config = dataclasses.replace(CONFIG, sync_flush_timeout=60_000)
    with MessageStore.open(tmp_path / "store", config) as store:
        for _ in range(100):
            result = store.put_message(Message("orders", bytes(20_000)))
            assert result.status is PutMessageStatus.PUT_OK
            assert len(disk.threads()) == 1
        assert len(store.commit_log.files.files) > 3
    assert not disk.threads()


def test_without_a_time_limit_no_thread_is_started(tmp_path: Path, disk: PlayedDisk) -> None:
    """`sync_flush_timeout=None`: the put that leads calls fdatasync itself."""
    config = StoreConfig(flush_disk_type="SYNC_FLUSH", sync_flush_timeout=None, key_index_enable=False)
    disk.goes_on.clear()
    with MessageStore.open(tmp_path / "store", config) as store:
        assert put(store, 0) is PutMessageStatus.PUT_OK
        assert not disk.threads()
