"""Which key indexes a store keeps: `key_index`, with the same answers from each, over stops of all kinds."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.store.errors import SegmentSizeMismatch
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.state.checkpoint_file import CheckpointFile
from support.manual_clock import ManualClock

KeyIndex = Literal["lmdb", "index_file", "both"]


def config(key_index: KeyIndex, *, key_index_enable: bool = True) -> StoreConfig:
    return StoreConfig(
        key_index=key_index,
        key_index_enable=key_index_enable,
        max_hash_slot_num=50,
        max_index_num=20,
        max_message_size=4_096,
        mapped_file_size_commit_log=131_072,
        mapped_file_size_consume_queue=6_000,
    )


def open_store(
    root: Path, file_system: FileSystem, key_index: KeyIndex, *, read_only: bool = False
) -> MessageStore:
    return MessageStore.open(
        root / "store",
        config(key_index),
        file_system=file_system,
        clock=ManualClock(),
        start=False,
        read_only=read_only,
    )


def put(store: MessageStore, count: int) -> None:
    start = store.max_offset
    for number in range(count):
        store.put_message(Message("orders", b"body", keys=(f"k-{start}-{number}", "all")))


def found(store: MessageStore) -> int:
    return len(store.query_message("orders", "all", max_num=1_000))


def index_files(store: MessageStore, file_system: FileSystem) -> int:
    return len(file_system.list(store.path / "index"))


@pytest.mark.parametrize("key_index", ["lmdb", "index_file", "both"])
def test_each_finds_the_same(key_index: KeyIndex, file_system: FileSystem, root: Path) -> None:
    """What was put is found at once, after closing, and by a reader."""
    with open_store(root, file_system, key_index) as store:
        put(store, 30)
        assert found(store) == 30
    with open_store(root, file_system, key_index) as store:
        assert found(store) == 30
        put(store, 30)
        assert found(store) == 60
        store.flush()
        assert store.stats().key_index_behind_bytes == 0
    with open_store(root, file_system, key_index, read_only=True) as store:
        assert found(store) == 60
        # 120 keys, 19 a file.
        has_files = key_index == "index_file" or (
            key_index == "both" and isinstance(file_system, OsFileSystem)
        )
        assert index_files(store, file_system) == (7 if has_files else 0)


@pytest.mark.parametrize("key_index", ["index_file", "both"])
def test_a_store_that_was_not_closed(key_index: KeyIndex, tmp_path: Path) -> None:
    """Killed, with and without a flush before: the next opening finds all."""
    file_system = OsFileSystem()
    for count in (20, 40, 60):
        store = open_store(tmp_path, file_system, key_index)
        put(store, 10)
        store.flush()
        put(store, 10)
        assert found(store) == count
        store._closing.release()  # as the end of the process does
    with open_store(tmp_path, file_system, "index_file") as store:
        assert found(store) == 60
        assert index_files(store, file_system) == 7


def test_settings_may_change_from_one_opening_to_the_next(tmp_path: Path) -> None:
    """What an index missed meanwhile is taken in."""
    file_system = OsFileSystem()
    settings: list[KeyIndex] = ["lmdb", "both", "index_file", "lmdb", "index_file", "both", "lmdb"]
    for count, key_index in enumerate(settings, start=1):
        with open_store(tmp_path, file_system, key_index) as store:
            put(store, 7)
            assert found(store) == 7 * count


def test_the_checkpoint_tells_how_far_the_index_files_are_durable(tmp_path: Path) -> None:
    """So that a broker keeps them after an unclean stop, also the one that is not full yet."""
    file_system = OsFileSystem()
    with open_store(tmp_path, file_system, "both") as store:
        put(store, 5)
    checkpoint = CheckpointFile(file_system, tmp_path / "store" / "checkpoint")
    assert checkpoint.load().index_msg_timestamp == ManualClock().now_ms()


@pytest.mark.parametrize("key_index", ["index_file", "both"])
def test_other_sizes_are_gone_on_with(key_index: KeyIndex, tmp_path: Path) -> None:
    """A directory opens without being told the sizes of its index files; new files have them too."""
    file_system = OsFileSystem()
    with open_store(tmp_path, file_system, key_index) as store:
        put(store, 5)
        count = index_files(store, file_system)
    defaults = replace(config(key_index), max_hash_slot_num=5_000_000, max_index_num=20_000_000)
    with MessageStore.open(tmp_path / "store", defaults, start=False) as store:
        assert found(store) == 5
        put(store, 55)
        assert found(store) == 60
        assert index_files(store, file_system) > count
    assert len({path.stat().st_size for path in (tmp_path / "store" / "index").iterdir()}) == 1


@pytest.mark.parametrize("key_index", ["index_file", "both"])
def test_sizes_that_cannot_be_found_are_refused(key_index: KeyIndex, tmp_path: Path) -> None:
    """Before anything is changed, and the error says which settings to change."""
    file_system = OsFileSystem()
    with open_store(tmp_path, file_system, key_index) as store:
        put(store, 5)
    for path in (tmp_path / "store" / "index").iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if path.name != "lock")
    with pytest.raises(SegmentSizeMismatch, match="max_index_num"):
        MessageStore.open(tmp_path / "store", replace(config(key_index), max_index_num=21), start=False)
    after = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if path.name != "lock")
    assert after == before


def test_without_an_index_nothing_is_found() -> None:
    """And nothing is kept: `key_index_enable`."""
    file_system = MemoryFileSystem()
    settings = config("index_file", key_index_enable=False)
    with MessageStore.open("/store", settings, file_system=file_system, start=False) as store:
        put(store, 3)
        assert found(store) == 0
        assert store.stats().key_index_behind_bytes is None
        assert index_files(store, file_system) == 0
