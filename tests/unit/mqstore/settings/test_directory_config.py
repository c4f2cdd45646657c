"""The settings of a directory: read off its files, of which a damaged one is outvoted."""

from pathlib import Path

from mqstore.settings.directory_config import tool_config
from mqstore.store.config import StoreConfig
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_log import SEGMENT_BYTES
from support.stores.small_store import SmallStore


def test_lengths_are_read_off(file_system: FileSystem, root: Path) -> None:
    """Of log and queues; the largest body follows."""
    with SmallStore(file_system, root).open() as store:
        from mqstore import Message

        for _ in range(3):
            store.put_message(Message("orders", b"x" * 50_000))
    file_system.delete(root / "mqstore" / "settings")
    config = tool_config(file_system, root).config
    assert (config.mapped_file_size_commit_log, config.mapped_file_size_consume_queue) == (
        SEGMENT_BYTES,
        2_000,
    )
    assert config.max_message_size == SEGMENT_BYTES - 65_536 - 8


def test_a_cut_segment_is_outvoted() -> None:
    """By the others; and what is given wins."""
    disk, root = MemoryFileSystem(), Path("/store")
    disk.make_directories(root / "commitlog")
    for number, size in enumerate((1_000, 200_000, 200_000)):
        disk.write(root / "commitlog" / f"{number * 200_000:020d}", bytes(size))
    assert tool_config(disk, root).config.mapped_file_size_commit_log == 200_000
    given = tool_config(
        disk, root, StoreConfig(mapped_file_size_commit_log=300_000, max_message_size=1_000)
    ).config
    assert given.mapped_file_size_commit_log == 300_000


def test_nothing_there_is_the_default() -> None:
    """A directory without files tells nothing."""
    assert tool_config(MemoryFileSystem(), Path("/none")).config == StoreConfig()
