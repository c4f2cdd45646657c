"""Index files of Apache RocketMQ: written by us behind the same log, and taken up where it stopped.

Of 5.3.3 with files of 2,000 entries, so that one is full; of 5.5.0, which also indexes tags, 5.1.4 and 4.9.7
with one file that is not. Each version was closed, or killed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from mqstore.index.dispatcher import Dispatcher
from mqstore.index.index_file.index_file import IndexFileSize
from mqstore.index.index_file.index_file_key_index import IndexFileKeyIndex
from mqstore.store.state.checkpoint_file import CheckpointFile
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.config import StoreConfig
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.log.recovery import recover
from support.golden.manifest import GOLDEN_NAMES, VERSION_NAMES
from support.interop.golden import SETTINGS
from support.manual_clock import ManualClock
from support.twins.plain_index_files import index_contents


class Broker(NamedTuple):
    """A directory that a broker left, and its settings."""

    path: Path
    size: IndexFileSize
    segment_bytes: int
    with_tags: bool

    def open_log(self) -> CommitLog:
        """Its log, recovered for reading."""
        config = StoreConfig(mapped_file_size_commit_log=self.segment_bytes, max_message_size=20_000)
        log = CommitLog(OsFileSystem(), self.path / "commitlog", config, ManualClock(), read_only=True)
        log.load()
        recover(log, 0, 0, read_only=True)
        return log

    def index_files(self) -> list[bytes]:
        """The index files that it wrote."""
        return index_contents(OsFileSystem(), self.path / "index")


@pytest.fixture(params=[*GOLDEN_NAMES, *VERSION_NAMES])
def broker(request: pytest.FixtureRequest, golden_directory: Callable[[str], Path]) -> Broker:
    """Each directory in turn."""
    path = golden_directory(request.param)
    if request.param in GOLDEN_NAMES:
        return Broker(path, IndexFileSize(500, 2_000), 1_048_576, with_tags=False)
    size = IndexFileSize(SETTINGS["max_hash_slot_num"], SETTINGS["max_index_num"])
    return Broker(path, size, SETTINGS["mapped_file_size_commit_log"], "5.5.0" in request.param)


@pytest.fixture
def log(broker: Broker) -> CommitLog:
    return broker.open_log()


def index_rest(
    file_system: FileSystem,
    root: Path,
    broker: Broker,
    log: CommitLog,
    *,
    after_crash: bool = False,
    index_msg_timestamp: int = 0,
) -> tuple[int, list[bytes]]:
    """Where the index is taken up, and the files when it has caught up."""
    index = IndexFileKeyIndex(
        file_system,
        root / "index",
        root / "index-point",
        log,
        broker.size,
        ManualClock(),
        after_crash=after_crash,
        index_msg_timestamp=index_msg_timestamp,
        with_tags=broker.with_tags,
    )
    start_offset = index.dispatched_offset
    Dispatcher(log, index, start_offset, "index files").catch_up(log.max_offset)
    index.close()
    return start_offset, index_contents(file_system, root / "index")


@pytest.fixture
def copy(broker: Broker, root: Path, file_system: FileSystem) -> Path:
    """The broker's index files in a directory of our own."""
    file_system.make_directories(root / "index")
    for path in sorted((broker.path / "index").iterdir()):
        file_system.write(root / "index" / path.name, path.read_bytes())
    return root


def test_we_write_what_the_broker_wrote(
    broker: Broker, log: CommitLog, file_system: FileSystem, root: Path
) -> None:
    """Byte for byte; where there are two files, the message in which the first ran full lies in both."""
    theirs = broker.index_files()
    assert len(theirs) == (2 if broker.size.entry_count == 2_000 else 1)
    assert index_rest(file_system, root, broker, log) == (0, theirs)


def test_a_brokers_files_are_complete(
    broker: Broker, log: CommitLog, file_system: FileSystem, copy: Path
) -> None:
    """Taken up at their last entry, and nothing is added."""
    start_offset, after = index_rest(file_system, copy, broker, log)
    assert start_offset > log.max_offset // 2
    assert after == broker.index_files()


def test_after_an_unclean_stop_the_flushed_file_stays(
    broker: Broker, log: CommitLog, file_system: FileSystem, copy: Path
) -> None:
    """The checkpoint tells which one it is; the other is made again, as it was."""
    checkpoint = CheckpointFile(OsFileSystem(), broker.path / "checkpoint").load()
    start_offset, after = index_rest(
        file_system, copy, broker, log, after_crash=True, index_msg_timestamp=checkpoint.index_msg_timestamp
    )
    is_first_kept = len(after) == 2
    assert is_first_kept == (0 < start_offset < log.max_offset - 100_000)
    assert after == broker.index_files()
