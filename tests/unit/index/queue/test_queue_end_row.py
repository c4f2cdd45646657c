"""The row of one queue: what each step writes, and that no address outlives its mapping."""

from pathlib import Path

import numpy as np
import pytest

from mqstore.index.queue.queue_end_row import ADDRESS, COLUMNS, FIRST_OFFSET, ROOM_END, QueueEndRow
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.mapped_file import MappedFile, MappedFileSettings
from mqstore.store.files.mapped_file_queue import MappedFileQueue
from mqstore.store.files.os_file_system import OsFileSystem
from support.disks.watched_file_system import WatchedFileSystem


def queue_file(file_system: FileSystem, directory: Path) -> MappedFile:
    """The second file of a queue, 200 bytes long, with ten entries."""
    settings = MappedFileSettings(file_size_bytes=200, reserve_window_bytes=4096, is_derived_row=True)
    files = MappedFileQueue(file_system, directory, settings)
    files.append_file(200).write(0, bytes(200))
    return files.files[0]


def room(row: QueueEndRow) -> list[int]:
    """Address, first offset, end of the room."""
    return [row.numbers[column] for column in (ADDRESS, FIRST_OFFSET, ROOM_END)]


def test_a_new_row_is_the_end_of_an_empty_queue() -> None:
    """Nothing appended, nothing to flush, no room."""
    row = QueueEndRow()
    assert (row.max_offset, row.max_physical_offset, row.flushed_offset) == (0, -1, 0)
    assert room(row) == [0, 0, 0]
    assert repr(row) == "QueueEndRow(0, -1, 0)"


def test_appended_entries_are_not_flushed_and_found_ones_are() -> None:
    """`raise_to` leaves the flushed offset where it was; `reset_to` takes it along."""
    row = QueueEndRow()
    row.raise_to(3, 700)
    assert (row.max_offset, row.max_physical_offset, row.flushed_offset) == (3, 700, 0)
    row.flushed_offset = 2
    row.reset_to(9, -1)
    assert (row.max_offset, row.max_physical_offset, row.flushed_offset) == (9, -1, 9)


def test_the_room_is_that_of_the_last_file(tmp_path: Path) -> None:
    """From the file's first entry to the end of what is reserved; a reset closes it."""
    row = QueueEndRow()
    mapped_file = queue_file(OsFileSystem(), tmp_path)
    row.open_room(mapped_file)
    assert room(row) == [mapped_file.region.address, 10, 20]
    row.reset_to(10, -1)
    assert room(row) == [0, 0, 0]


def test_a_file_without_an_address_gives_no_room(file_system: FileSystem, root: Path) -> None:
    """Then only Python appends."""
    row = QueueEndRow()
    row.open_room(queue_file(WatchedFileSystem(file_system), root))
    assert room(row) == [0, 0, 0]


def test_a_row_of_a_table_takes_the_end_and_no_room(tmp_path: Path) -> None:
    """The name in the first columns stays; what is written from then on is written to the table."""
    table = np.full((2, COLUMNS), 77, np.int64)
    row = QueueEndRow()
    row.raise_to(3, 700)
    row.open_room(queue_file(OsFileSystem(), tmp_path))
    row.move_into(table[1].data)
    assert table[1].tolist() == [77, 77, 77, 0, 0, 0, 3, 700, 0]
    row.raise_to(4, 900)
    assert table[1, 6:8].tolist() == [4, 900]
    assert (table[0] == 77).all()


def test_a_queue_leaves_the_table_empty(tmp_path: Path) -> None:
    """Only without room: else a compiled loop could still write to a file that is about to go."""
    table = np.zeros((1, COLUMNS), np.int64)
    row = QueueEndRow()
    row.move_into(table[0].data)
    row.raise_to(10, 700)
    row.open_room(queue_file(OsFileSystem(), tmp_path))
    with pytest.raises(AssertionError):
        row.leave_table()
    row.close_room()
    row.leave_table()
    row.raise_to(1, 100)
    assert table[0].tolist() == [0, 0, 0, 0, 0, 0, 10, 700, 0]
