"""Replacing a small file: the steps, and every state that a power cut can make of them."""

from pathlib import Path

import pytest

from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.state.atomic_file import TEMPORARY_SUFFIX, read_if_present, replace_file, write_temporary
from support.disks.forgetful_directory import ForgetfulDirectory
from support.disks.watched_file_system import WatchedFileSystem

PATH = Path("/store/point")


def test_a_replacement_takes_four_steps(file_system: FileSystem, root: Path) -> None:
    """Written beside, synced, renamed, the name synced; what is left is the file alone."""
    watched = WatchedFileSystem(file_system)
    path = root / "point"
    temporary = path.with_name("point" + TEMPORARY_SUFFIX)
    replace_file(watched, path, b"new")
    assert watched.steps == [
        ("write", temporary),
        ("sync", temporary),
        ("rename", path),
        ("sync_directory", root),
    ]
    assert (watched.read(path), watched.exists(temporary)) == (b"new", False)


def test_a_temporary_file_is_synced_and_changes_nothing_else(file_system: FileSystem, root: Path) -> None:
    """The caller decides what to do with it."""
    watched = WatchedFileSystem(file_system)
    path = root / "point"
    watched.write(path, b"old")
    temporary = write_temporary(watched, path, b"new")
    assert watched.steps[-2:] == [("write", temporary), ("sync", temporary)]
    assert (watched.read(path), watched.read(temporary)) == (b"old", b"new")


@pytest.mark.parametrize("old", [None, b"old content"])
def test_a_power_cut_leaves_the_old_content_or_the_new(old: bytes | None) -> None:
    """After every step, whichever unsynced changes the disk kept; after the last step, the new content."""
    disk = ForgetfulDirectory({} if old is None else {PATH: old})
    allowed = {old, b"new content"}
    cuts = 0

    def cut_the_power() -> None:
        nonlocal cuts
        for left in disk.after_power_cut():
            cuts += 1
            assert read_if_present(left, PATH) in allowed

    disk.after_step = cut_the_power
    replace_file(disk, PATH, b"new content")
    allowed = {b"new content"}
    cut_the_power()
    assert cuts > 5


def test_what_a_crash_left_beside_is_overwritten() -> None:
    """A longer temporary file leaves no trace in the new one."""
    disk = MemoryFileSystem()
    disk.make_directories(PATH.parent)
    disk.write(PATH.with_name("point.tmp"), b"torn and longer")
    replace_file(disk, PATH, b"new")
    assert disk.read(PATH) == b"new"


def test_a_missing_file_reads_as_none(file_system: FileSystem, root: Path) -> None:
    """And an empty one as empty."""
    assert read_if_present(file_system, root / "point") is None
    file_system.write(root / "point", b"")
    assert read_if_present(file_system, root / "point") == b""
