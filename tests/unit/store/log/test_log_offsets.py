"""Offsets of the log: what readers see, by flush mode."""

from pathlib import Path

import pytest

from mqstore.store.files.file_system import FileSystem
from mqstore.store.log.flusher import Flusher
from support.stores.small_log import SmallLog


@pytest.fixture
def small(file_system: FileSystem, root: Path) -> SmallLog:
    return SmallLog(file_system, root / "commitlog")


def test_readers_see_what_is_written_in_async_flush(small: SmallLog) -> None:
    """At once, flushed or not."""
    place = small.append(b"body")
    assert small.log.visible_offset == small.log.max_offset > small.log.flushed_offset == 0
    found = small.log.look_message_by_offset(place.physical_offset)
    assert found is not None
    assert found.body == b"body"
    assert small.log.store_timestamp_at(place.physical_offset) == place.store_timestamp


def test_readers_see_only_what_is_durable_in_sync_flush(file_system: FileSystem, root: Path) -> None:
    """Neither by offset, nor by size, nor in chunks, before the flush."""
    small = SmallLog(file_system, root, flush_disk_type="SYNC_FLUSH")
    first = small.append(b"first")
    flusher = Flusher(small.log, small.config)
    flusher.flush()
    second = small.append(b"second")
    log = small.log
    assert log.visible_offset == second.physical_offset
    assert log.look_message_by_offset(first.physical_offset) is not None
    assert log.look_message_by_offset(second.physical_offset) is None
    assert log.record_at(second.physical_offset, second.store_size) is None
    assert log.store_timestamp_at(second.physical_offset) == -1
    chunk = log.chunk(0, 1 << 20)
    assert chunk is not None
    assert len(chunk.data) == second.physical_offset
    assert log.chunk(second.physical_offset, 1 << 20) is None
    flusher.flush()
    assert log.look_message_by_offset(second.physical_offset) is not None
