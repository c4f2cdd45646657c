"""Index files of Apache RocketMQ 5.3.3: written by us behind the same log, and taken up where it stopped.

That version does not index tags yet.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore.index.dispatcher import Dispatcher
from mqstore.index.index_file import IndexFileSize
from mqstore.index.index_files import IndexFiles
from mqstore.store.checkpoint_file import CheckpointFile
from mqstore.store.commit_log import CommitLog
from mqstore.store.config import StoreConfig
from mqstore.store.file_system import FileSystem
from mqstore.store.os_file_system import OsFileSystem
from mqstore.store.recovery import recover
from support.golden_manifest import GOLDEN_NAMES
from support.manual_clock import ManualClock
from support.plain_index_files import index_contents

CONFIG = StoreConfig(mapped_file_size_commit_log=1_048_576, max_message_size=65_536)
SIZE = IndexFileSize(500, 2_000)


@pytest.fixture(params=GOLDEN_NAMES)
def broker(request: pytest.FixtureRequest, golden_directory: Callable[[str], Path]) -> Path:
    """A directory that a broker left."""
    return golden_directory(request.param)


@pytest.fixture
def log(broker: Path) -> CommitLog:
    log = CommitLog(OsFileSystem(), broker / "commitlog", CONFIG, ManualClock(), writable=False)
    log.load()
    recover(log, 0, 0, writable=False)
    return log


def index_rest(
    file_system: FileSystem, root: Path, log: CommitLog, *, clean: bool = True, index_msg_timestamp: int = 0
) -> tuple[int, list[bytes]]:
    """Where the index is taken up, and the files when it has caught up."""
    index = IndexFiles(
        file_system,
        root / "index",
        root / "index-point",
        log,
        SIZE,
        ManualClock(),
        clean=clean,
        index_msg_timestamp=index_msg_timestamp,
        with_tags=False,
    )
    start_offset = index.dispatched_offset
    Dispatcher(log, index, start_offset, "index files").catch_up(log.max_offset)
    index.close()
    return start_offset, index_contents(file_system, root / "index")


@pytest.fixture
def copy(broker: Path, root: Path, file_system: FileSystem) -> Path:
    """The broker's index files in a directory of our own."""
    file_system.make_directories(root / "index")
    for path in sorted((broker / "index").iterdir()):
        file_system.write(root / "index" / path.name, path.read_bytes())
    return root


def test_we_write_what_the_broker_wrote(
    broker: Path, log: CommitLog, file_system: FileSystem, root: Path
) -> None:
    """Two files of 2,000 entries, byte for byte; the message in which the first ran full lies in both."""
    theirs = index_contents(OsFileSystem(), broker / "index")
    assert len(theirs) == 2
    assert index_rest(file_system, root, log) == (0, theirs)


def test_a_brokers_files_are_complete(
    broker: Path, log: CommitLog, file_system: FileSystem, copy: Path
) -> None:
    """Taken up at their last entry, and nothing is added."""
    before = index_contents(file_system, copy / "index")
    start_offset, after = index_rest(file_system, copy, log)
    assert start_offset > log.max_offset // 2
    assert after == before


def test_after_an_unclean_stop_the_flushed_file_stays(
    broker: Path, log: CommitLog, file_system: FileSystem, copy: Path
) -> None:
    """The checkpoint tells which one it is; the other is made again, as it was."""
    before = index_contents(file_system, copy / "index")
    checkpoint = CheckpointFile(OsFileSystem(), broker / "checkpoint").load()
    start_offset, after = index_rest(
        file_system, copy, log, clean=False, index_msg_timestamp=checkpoint.index_msg_timestamp
    )
    assert 0 < start_offset < log.max_offset - 100_000
    assert after == before
