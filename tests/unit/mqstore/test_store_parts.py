"""The parts of a store: which key indexes an opening keeps, and that a release goes on after an error."""

from pathlib import Path

import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from support.stores.small_log import small_config
from support.stores.small_store import SmallStore


@pytest.mark.parametrize(
    ("key_index", "on_disk", "read_only", "kinds"),
    [
        ("both", True, False, ["LmdbKeyIndex", "IndexFileKeyIndex"]),
        ("both", True, True, ["LmdbKeyIndex"]),
        ("both", False, False, ["MemoryKeyIndex"]),
        ("lmdb", True, False, ["LmdbKeyIndex"]),
        ("index_file", True, False, ["IndexFileKeyIndex"]),
        ("index_file", True, True, ["IndexFileKeyIndex"]),
        ("index_file", False, False, ["IndexFileKeyIndex"]),
    ],
)
def test_queries_ask_the_first_key_index(
    key_index: str, on_disk: bool, read_only: bool, kinds: list[str], tmp_path: Path
) -> None:
    """Our own where there is one; RocketMQ's beside it only for a broker, so in a writer on a disk."""
    small = SmallStore(OsFileSystem() if on_disk else MemoryFileSystem(), tmp_path / "store")
    with small.open(key_index=key_index) as store:
        store.put_message(Message("orders", b"x", keys="k"))
    with small.open(read_only=read_only) as store:
        assert [type(feed.index).__name__ for feed in store._parts.key_feeds] == kinds
        assert (store._parts.index_files is not None) == ("IndexFileKeyIndex" in kinds)
        assert [message.body for message in store.query_message("orders", "k")] == [b"x"]


def test_without_a_key_index_there_is_no_feed(tmp_path: Path) -> None:
    """Neither ours nor RocketMQ's."""
    with MessageStore.open(tmp_path, small_config(key_index_enable=False), start=False) as store:
        assert store._parts.key_feeds == ()


def test_the_size_of_index_files_is_that_of_the_files(tmp_path: Path) -> None:
    """A broker keeps one size a directory; another one in the settings is not taken."""
    with MessageStore.open(tmp_path, small_config(max_index_num=50), start=False) as store:
        store.put_message(Message("orders", b"x", keys="k"))
    with MessageStore.open(tmp_path, small_config(max_index_num=60), start=False) as store:
        assert store.config.max_index_num == 50


def test_a_key_index_that_cannot_be_closed_does_not_keep_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning is logged: its keys come from the log again."""
    store = MessageStore.open(tmp_path, StoreConfig(), start=False)
    close = store._parts.key_feeds[0].index.close

    def fail() -> None:
        close()
        raise OSError(5, "no such disk")

    monkeypatch.setattr(store._parts.key_feeds[0].index, "close", fail)
    store.close()
    assert "no such disk" in caplog.text
    MessageStore.open(tmp_path, start=False).close()
