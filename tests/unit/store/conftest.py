"""A log in SYNC_FLUSH whose disk is watched, and its flusher: what tests of waiting puts play on."""

from pathlib import Path

import pytest

from mqstore.store.files.file_system import FileSystem
from mqstore.store.log.flusher import Flusher
from support.disks.watched_file_system import WatchedFileSystem
from support.stores.small_log import SmallLog


@pytest.fixture
def watched(file_system: FileSystem) -> WatchedFileSystem:
    return WatchedFileSystem(file_system)


@pytest.fixture
def small(watched: WatchedFileSystem, root: Path) -> SmallLog:
    return SmallLog(watched, root, flush_disk_type="SYNC_FLUSH", sync_flush_timeout=60_000)


@pytest.fixture
def flusher(small: SmallLog) -> Flusher:
    return Flusher(small.log, small.config)
