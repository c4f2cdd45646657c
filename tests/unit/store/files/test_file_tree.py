"""Trees of files: copied with all in them, and removed with all in them, on every file system."""

from pathlib import Path

from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.file_tree import copy_file, copy_tree, delete_tree, zero_range


def test_a_tree_is_copied_and_deleted(file_system: FileSystem, root: Path) -> None:
    """Empty files, zeros and folders included; a second deletion does nothing."""
    source, target = root / "source", root / "target"
    file_system.make_directories(source / "below")
    contents = {"a": b"text", "empty": b"", "zeros": bytes(9_000), "below/b": bytes(5_000) + b"end"}
    for name, data in contents.items():
        file_system.write(source / name, data)
    copy_tree(file_system, source, target)
    assert {name: file_system.read(target / name) for name in contents} == contents
    delete_tree(file_system, source)
    delete_tree(file_system, source)
    assert not file_system.exists(source)
    assert file_system.exists(target / "below" / "b")


def test_a_piece_of_a_file_is_copied(file_system: FileSystem, root: Path) -> None:
    """From a position on; longer than the piece if asked for; over what is there."""
    file_system.write(root / "source", bytes(range(200)))
    file_system.write(root / "target", b"something longer than that")
    copy_file(file_system, root / "source", root / "target", 10, position=50)
    assert file_system.read(root / "target") == bytes(range(50, 60))
    copy_file(file_system, root / "source", root / "target", 10, size_bytes=30)
    assert file_system.read(root / "target") == bytes(range(10)) + bytes(20)


def test_zeroing_leaves_the_rest(file_system: FileSystem, root: Path) -> None:
    """And touches no hole."""
    region = file_system.map(root / "file", 50_000, create=True)
    region.reserve(0, 20_000)
    region.write(0, b"x" * 20_000)
    zero_range(region, 5_000, 50_000)
    assert bytes(region.view) == b"x" * 5_000 + bytes(45_000)
