"""The checkpoint file: 4,096 bytes, two fields of ours, three left as a broker wrote them."""

from pathlib import Path

import pytest

from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.checkpoint_file import CheckpointFile
from mqstore.store.state.checkpoint_format import CHECKPOINT_FILE_BYTES, Checkpoint, encode_checkpoint
from support.disks.watched_file_system import WatchedFileSystem


@pytest.fixture
def watched(file_system: FileSystem) -> WatchedFileSystem:
    return WatchedFileSystem(file_system)


@pytest.fixture
def path(watched: WatchedFileSystem, root: Path) -> Path:
    return root / "checkpoint"


def test_a_missing_file_reads_as_zeros_and_is_not_made(watched: WatchedFileSystem, path: Path) -> None:
    """Loading changes nothing."""
    assert CheckpointFile(watched, path).load() == Checkpoint()
    assert not watched.exists(path)


def test_what_was_saved_is_loaded(watched: WatchedFileSystem, path: Path) -> None:
    """And is synced, in a file of the length that RocketMQ maps."""
    CheckpointFile(watched, path).save(10, 9)
    assert ("sync", path) in watched.steps
    assert watched.steps.index(("write", path)) < watched.steps.index(("sync", path))
    assert len(watched.read(path)) == CHECKPOINT_FILE_BYTES
    assert CheckpointFile(watched, path).load() == Checkpoint(10, 9)


def test_the_brokers_fields_stay(watched: WatchedFileSystem, path: Path) -> None:
    """Index time, master offset and confirm offset are written back as they were found."""
    watched.write(path, encode_checkpoint(Checkpoint(1, 2, 3, 4, 5)).ljust(CHECKPOINT_FILE_BYTES, b"\0"))
    checkpoint = CheckpointFile(watched, path)
    checkpoint.load()
    checkpoint.save(10, 9)
    assert CheckpointFile(watched, path).load() == Checkpoint(10, 9, 3, 4, 5)


def test_no_message_since_the_opening_leaves_the_timestamps(watched: WatchedFileSystem, path: Path) -> None:
    """0 is not a time: a store that was only opened and closed does not set its checkpoint back."""
    CheckpointFile(watched, path).save(10, 9)
    checkpoint = CheckpointFile(watched, path)
    checkpoint.load()
    checkpoint.save(0, 0)
    assert CheckpointFile(watched, path).load() == Checkpoint(10, 9)
    checkpoint.save(12, 0)
    assert CheckpointFile(watched, path).load() == Checkpoint(12, 9)


def test_saving_the_same_again_writes_nothing(watched: WatchedFileSystem, path: Path) -> None:
    """The service that saves it runs every second."""
    checkpoint = CheckpointFile(watched, path)
    checkpoint.save(10, 9)
    before = list(watched.steps)
    checkpoint.save(10, 9)
    assert watched.steps == before
    checkpoint.save(11, 9)
    assert watched.steps != before


@pytest.mark.parametrize("length", [0, 5, 24, 40, 4_095])
def test_a_file_that_is_too_short_is_made_whole(watched: WatchedFileSystem, path: Path, length: int) -> None:
    """A broker maps 4,096 bytes; what it held is kept."""
    watched.write(
        path, encode_checkpoint(Checkpoint(1, 2, 3, 4, 5)).ljust(4_096, b"\0")[: length - length % 8]
    )
    checkpoint = CheckpointFile(watched, path)
    found = checkpoint.load()
    checkpoint.save(10, 9)
    assert len(watched.read(path)) == CHECKPOINT_FILE_BYTES
    assert CheckpointFile(watched, path).load() == Checkpoint(10, 9, *found[2:])
