"""Deletions that were cut short are finished at the next opening; queues of later messages stay."""

from pathlib import Path

from mqstore.index.queue.consume_queue_format import ENTRY, PRE_BLANK_ENTRY
from mqstore.index.queue.deleted_topics import DeletedTopics
from mqstore.index.queue.queue_leftovers import delete_leftovers
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_system import FileSystem

FILE_BYTES = 200
DELETED = DeletedTopics({"orders": 5_000})


def add_queue(file_system: FileSystem, path: Path, *entries: bytes, size: int = FILE_BYTES) -> None:
    file_system.make_directories(path)
    file_system.write(path / file_name(0), b"".join(entries).ljust(size, b"\0"))


def delete(file_system: FileSystem, root: Path) -> int:
    return delete_leftovers(file_system, root, FILE_BYTES, DELETED)


def test_queues_of_before_the_deletion_go(file_system: FileSystem, root: Path) -> None:
    """Also one that a first entry without a record precedes, and one without any entry; then their topic."""
    add_queue(file_system, root / "orders" / "0", ENTRY.pack(4_900, 100, 0))
    add_queue(file_system, root / "orders" / "1", PRE_BLANK_ENTRY, ENTRY.pack(100, 100, 0))
    add_queue(file_system, root / "orders" / "2")
    add_queue(file_system, root / "orders" / "3", size=0)
    file_system.make_directories(root / "orders" / "4")
    assert delete(file_system, root) == 5
    assert not file_system.exists(root / "orders")
    assert delete(file_system, root) == 0


def test_queues_of_after_the_deletion_stay(file_system: FileSystem, root: Path) -> None:
    """The topic came to be again; other topics are not looked at."""
    add_queue(file_system, root / "orders" / "0", ENTRY.pack(4_900, 100, 0))
    add_queue(file_system, root / "orders" / "1", ENTRY.pack(5_000, 100, 0))
    add_queue(file_system, root / "paid" / "0", ENTRY.pack(0, 100, 0))
    assert delete(file_system, root) == 1
    assert [entry.name for entry in file_system.list(root / "orders")] == ["1"]
    assert file_system.exists(root / "paid" / "0" / file_name(0))


def test_what_is_no_queue_stays(file_system: FileSystem, root: Path) -> None:
    """A file that somebody put there keeps the topic's directory."""
    add_queue(file_system, root / "orders" / "0", ENTRY.pack(0, 100, 0))
    file_system.write(root / "orders" / "notes.txt", b"keep")
    assert delete(file_system, root) == 1
    assert [entry.name for entry in file_system.list(root / "orders")] == ["notes.txt"]
