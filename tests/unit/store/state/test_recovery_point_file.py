"""The recovery point's file: replaced as a whole, trusted only when whole."""

import struct
from pathlib import Path

import crcmod.predefined
import pytest

from mqstore.store.errors import UnknownVersion
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store.state.recovery_point_format import RecoveryPoint
from support.disks.watched_file_system import WatchedFileSystem


@pytest.fixture
def watched(file_system: FileSystem) -> WatchedFileSystem:
    return WatchedFileSystem(file_system)


@pytest.fixture
def path(watched: WatchedFileSystem, root: Path) -> Path:
    return root / "recovery-point"


def test_there_is_none_at_first(watched: WatchedFileSystem, path: Path) -> None:
    """And none is made by loading."""
    assert RecoveryPointFile(watched, path).load() is None
    assert not watched.exists(path)


def test_a_point_is_replaced_as_a_whole(watched: WatchedFileSystem, path: Path) -> None:
    """Written beside, synced, renamed, the name synced."""
    file = RecoveryPointFile(watched, path)
    file.save(RecoveryPoint(100, 50))
    assert [step for step, _ in watched.steps] == ["write", "sync", "rename", "sync_directory"]
    assert RecoveryPointFile(watched, path).load() == RecoveryPoint(100, 50)
    file.save(RecoveryPoint(200, 200))
    assert RecoveryPointFile(watched, path).load() == RecoveryPoint(200, 200)


def test_saving_the_same_again_writes_nothing(watched: WatchedFileSystem, path: Path) -> None:
    """Also after a load."""
    RecoveryPointFile(watched, path).save(RecoveryPoint(100, 50))
    file = RecoveryPointFile(watched, path)
    file.load()
    before = list(watched.steps)
    file.save(RecoveryPoint(100, 50))
    assert watched.steps == before


@pytest.mark.parametrize("content", [b"", b"MQSP", bytes(28), b"x" * 28])
def test_a_damaged_file_is_no_point(watched: WatchedFileSystem, path: Path, content: bytes) -> None:
    """The next save replaces it."""
    watched.write(path, content)
    file = RecoveryPointFile(watched, path)
    assert file.load() is None
    file.save(RecoveryPoint(1, 1))
    assert RecoveryPointFile(watched, path).load() == RecoveryPoint(1, 1)


def test_a_newer_version_is_refused(watched: WatchedFileSystem, path: Path) -> None:
    """The error names the file and both versions."""
    content = struct.pack(">4siqq", b"MQSP", 2, 1, 1)
    crc = crcmod.predefined.mkPredefinedCrcFun("crc-32c")(content)
    watched.write(path, content + struct.pack(">I", crc))
    with pytest.raises(
        UnknownVersion, match="has version 2, and this release knows versions up to 1"
    ) as caught:
        RecoveryPointFile(watched, path).load()
    assert (caught.value.path, caught.value.found) == (path, 2)


def test_a_point_can_be_forgotten(watched: WatchedFileSystem, path: Path) -> None:
    """Durably, before what it covers is rebuilt."""
    file = RecoveryPointFile(watched, path)
    file.save(RecoveryPoint(1, 1))
    file.delete()
    assert watched.steps[-2:] == [("delete", path), ("sync_directory", path.parent)]
    assert (file.point, RecoveryPointFile(watched, path).load()) == (None, None)


def test_queues_are_never_ahead_of_the_log(watched: WatchedFileSystem, path: Path) -> None:
    """A programmer's mistake, stopped before it is written."""
    with pytest.raises(AssertionError):
        RecoveryPointFile(watched, path).save(RecoveryPoint(1, 2))
