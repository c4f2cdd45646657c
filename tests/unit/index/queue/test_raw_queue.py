"""The entries of a queue as they lie on disk: files may be missing, short, long or empty."""

from pathlib import Path

import pytest

from mqstore.index.queue.consume_queue_format import ENTRY
from mqstore.index.queue.raw_queue import QueueEntries
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_system import FileSystem

FILE_BYTES = 200
ENTRIES = [ENTRY.pack(1_000 + at, 100, at) for at in range(30)]


@pytest.fixture
def directory(file_system: FileSystem, root: Path) -> Path:
    """Entries 10 to 24 of a queue in two files of ten entries; the second is half full."""
    file_system.make_directories(root)
    write(file_system, root, 200, ENTRIES[10:20])
    write(file_system, root, 400, ENTRIES[20:25])
    return root


def write(file_system: FileSystem, root: Path, start: int, entries: list[bytes], size: int = 200) -> None:
    file_system.write(root / file_name(start), b"".join(entries).ljust(size, b"\0")[:size])


def raw(file_system: FileSystem, directory: Path) -> QueueEntries:
    return QueueEntries(file_system, directory, FILE_BYTES)


def read(entries: QueueEntries, queue_offset: int, count: int) -> list[bytes]:
    return [bytes(row) for row in entries.read(queue_offset, count)]


def test_entries_are_read_across_files(file_system: FileSystem, directory: Path) -> None:
    """Zeros stand where there is no entry or no file."""
    entries = raw(file_system, directory)
    assert (entries.min_offset, entries.end_offset(), entries.end_offset(27)) == (10, 25, 27)
    assert read(entries, 18, 4) == ENTRIES[18:22]
    assert read(entries, 9, 2) == [bytes(20), ENTRIES[10]]
    assert read(entries, 24, 8) == [ENTRIES[24], *[bytes(20)] * 7]
    assert entries.place_of(23) == (directory / file_name(400), 60)
    assert repr(entries) == f"QueueEntries({str(directory)!r}, files=2)"


def test_pieces_cover_what_files_have_room_for(file_system: FileSystem, directory: Path) -> None:
    """No piece of a file that is missing."""
    assert list(raw(file_system, directory).pieces(0, 100)) == [(10, 20), (20, 30)]
    assert list(raw(file_system, directory).pieces(15, 22)) == [(15, 20), (20, 22)]
    file_system.delete(directory / file_name(200))
    assert list(raw(file_system, directory).pieces(0, 100)) == [(20, 30)]


def test_a_queue_without_files(file_system: FileSystem, root: Path) -> None:
    """It is empty, whether or not it has a directory."""
    entries = raw(file_system, root / "none")
    assert (entries.min_offset, entries.end_offset(), list(entries.pieces(0, 9))) == (0, 0, [])
    assert read(entries, 0, 1) == [bytes(20)]
    assert entries.find_wrong_files(after_crash=False) == []


def test_a_file_of_another_length(file_system: FileSystem, directory: Path) -> None:
    """What is missing reads as zeros, what is behind the file's own length is not read."""
    write(file_system, directory, 200, ENTRIES[10:15], size=90)
    write(file_system, directory, 400, ENTRIES[15:30], size=300)
    entries = raw(file_system, directory)
    assert read(entries, 14, 2) == [ENTRIES[14][:10] + bytes(10), bytes(20)]
    assert read(entries, 29, 2) == [ENTRIES[24], bytes(20)]
    kinds = [(finding.kind, finding.is_damage) for finding in entries.find_wrong_files(after_crash=True)]
    assert kinds == [("queue-file-length", True)] * 2


@pytest.mark.parametrize("after_crash", [False, True])
def test_a_file_that_is_missing_between_others(
    file_system: FileSystem, directory: Path, after_crash: bool
) -> None:
    """Damage, unless a crash may have taken its name before it was durable."""
    write(file_system, directory, 800, ENTRIES[:1])
    (finding,) = raw(file_system, directory).find_wrong_files(after_crash=after_crash)
    assert (finding.kind, finding.is_damage) == ("queue-file-missing", not after_crash)


@pytest.mark.parametrize("after_crash", [False, True])
def test_a_file_that_was_being_created(file_system: FileSystem, directory: Path, after_crash: bool) -> None:
    """Empty, and the last: no damage. One that a longer file follows is damage, but after a crash."""
    file_system.write(directory / file_name(600), b"")
    (finding,) = raw(file_system, directory).find_wrong_files(after_crash=after_crash)
    assert (finding.kind, finding.is_damage) == ("queue-file-length", False)
    write(file_system, directory, 800, ENTRIES[:1])
    (finding,) = raw(file_system, directory).find_wrong_files(after_crash=after_crash)
    assert (finding.kind, finding.is_damage) == ("queue-file-length", not after_crash)
