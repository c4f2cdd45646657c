"""A row of mapped files: found by division, listed from the directory, added and removed at its ends."""

from pathlib import Path

import pytest

from mqstore.store.errors import CorruptRecord, SegmentSizeMismatch, StoreFull
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.mapped_file import MappedFileSettings
from mqstore.store.files.mapped_file_queue import MappedFileQueue
from support.disks.watched_file_system import WatchedFileSystem

SIZE = 4_096


def make(file_system: FileSystem, directory: Path, *, read_only: bool = False) -> MappedFileQueue:
    settings = MappedFileSettings(
        file_size_bytes=SIZE,
        size_key="mapped_file_size_commit_log",
        reserve_window_bytes=SIZE,
        read_only=read_only,
    )
    queue = MappedFileQueue(file_system, directory, settings)
    queue.load()
    return queue


@pytest.fixture
def watched(file_system: FileSystem) -> WatchedFileSystem:
    return WatchedFileSystem(file_system)


@pytest.fixture
def directory(watched: WatchedFileSystem, root: Path) -> Path:
    return root / "row"


def row(watched: WatchedFileSystem, directory: Path, count: int, start: int = 0) -> MappedFileQueue:
    queue = make(watched, directory)
    for index in range(count):
        queue.append_file(start + index * SIZE)
    return queue


def names(queue: MappedFileQueue) -> list[int]:
    return [mapped_file.start_offset for mapped_file in queue.files]


def test_a_row_that_does_not_exist_is_empty(watched: WatchedFileSystem, directory: Path) -> None:
    """Nothing is created by looking."""
    queue = make(watched, directory)
    assert (queue.files, queue.min_offset, queue.end_offset, queue.file_for(0)) == ((), 0, 0, None)
    assert not watched.exists(directory)


def test_files_are_found_by_their_offsets(watched: WatchedFileSystem, directory: Path) -> None:
    """Every byte belongs to one file; none before the first and none behind the last."""
    queue = row(watched, directory, 3, start=2 * SIZE)
    assert (queue.min_offset, queue.end_offset) == (2 * SIZE, 5 * SIZE)
    found = {offset: queue.file_for(offset) for offset in (2 * SIZE, 3 * SIZE - 1, 3 * SIZE, 5 * SIZE - 1)}
    assert [file.start_offset // SIZE if file else None for file in found.values()] == [2, 2, 3, 4]
    for outside in (-1, 0, 2 * SIZE - 1, 5 * SIZE):
        assert queue.file_for(outside) is None
    places = {offset: queue.place_of(offset) for offset in (SIZE + 1, 2 * SIZE, 5 * SIZE - 1, 5 * SIZE)}
    assert [(int(path.name) // SIZE, at) for path, at in places.values()] == [
        (1, 1),
        (2, 0),
        (4, SIZE - 1),
        (5, 0),
    ]


def test_a_row_is_loaded_as_it_was_made(watched: WatchedFileSystem, directory: Path) -> None:
    """In the order of the names; loading again keeps the files that are known."""
    queue = row(watched, directory, 2)
    again = make(watched, directory)
    assert names(again) == [0, SIZE]
    queue.append_file(2 * SIZE)
    first = again.files[0]
    again.load()
    assert names(again) == [0, SIZE, 2 * SIZE]
    assert again.files[0] is first


def test_a_name_is_durable_when_the_file_is_there(watched: WatchedFileSystem, directory: Path) -> None:
    """The directory is synced after each creation and each removal."""
    queue = row(watched, directory, 2)
    assert watched.steps[-1] == ("sync_directory", directory)
    queue.delete_first()
    assert watched.steps[-2:] == [("delete", directory / file_name(0)), ("sync_directory", directory)]


def test_other_names_are_passed_over(watched: WatchedFileSystem, directory: Path) -> None:
    """Directories, and names that are not twenty digits."""
    row(watched, directory, 1)
    for name in ("notes.txt", "1", "0000000000000000000x", "000000000000000040960"):
        watched.write(directory / name, b"x")
    watched.make_directories(directory / file_name(SIZE))
    assert names(make(watched, directory)) == [0]


@pytest.mark.parametrize("length", [1, SIZE - 1, SIZE + 1])
@pytest.mark.parametrize("which", [0, 1])
def test_a_file_of_another_length_is_refused(
    watched: WatchedFileSystem, directory: Path, length: int, which: int
) -> None:
    """The error names file, both sizes and the setting; nothing is changed."""
    row(watched, directory, 2)
    path = directory / file_name(which * SIZE)
    watched.write(path, bytes(length))
    before = list(watched.steps)
    with pytest.raises(
        SegmentSizeMismatch, match="open the directory with the mapped_file_size_commit_log"
    ) as caught:
        make(watched, directory)
    assert (caught.value.path, caught.value.expected_bytes, caught.value.found_bytes) == (path, SIZE, length)
    assert watched.steps == before


@pytest.mark.parametrize("count", [1, 2, 5])
def test_empty_files_at_the_end_are_creations_that_were_cut_short(
    watched: WatchedFileSystem, directory: Path, count: int
) -> None:
    """A writer removes them, the newest first; a reader passes over them."""
    row(watched, directory, 1)
    paths = [directory / file_name((1 + index) * SIZE) for index in range(count)]
    for path in paths:
        watched.write(path, b"")
    assert names(make(watched, directory, read_only=True)) == [0]
    assert all(watched.exists(path) for path in paths)
    queue = make(watched, directory)
    assert names(queue) == [0]
    assert [path for step, path in watched.steps if step == "delete"] == paths[::-1]
    queue.append_file(SIZE)
    assert watched.read(paths[0]) == bytes(SIZE)


def test_a_row_of_empty_files_is_empty(watched: WatchedFileSystem, directory: Path) -> None:
    """A power cut before the first sync."""
    watched.make_directories(directory)
    for index in range(3):
        watched.write(directory / file_name(index * SIZE), b"")
    assert names(make(watched, directory)) == []
    assert watched.list(directory) == []


def test_an_empty_file_before_the_last_is_refused(watched: WatchedFileSystem, directory: Path) -> None:
    """What is behind it was made later: no crash leaves that. Nothing is removed, the empty end neither."""
    row(watched, directory, 2)
    for empty in (0, 2 * SIZE):
        watched.write(directory / file_name(empty), b"")
    with pytest.raises(SegmentSizeMismatch):
        make(watched, directory)
    assert watched.count("delete") == 0


def test_a_missing_file_in_the_middle_is_damage(watched: WatchedFileSystem, directory: Path) -> None:
    """It is told, and nothing behind the gap is deleted; RocketMQ loads such a row."""
    row(watched, directory, 3)
    watched.delete(directory / file_name(SIZE))
    with pytest.raises(CorruptRecord, match=f"expected a file {file_name(SIZE)} before it") as caught:
        make(watched, directory)
    assert caught.value.path == directory / file_name(2 * SIZE)
    assert watched.exists(directory / file_name(2 * SIZE))


def test_readers_keep_what_they_hold(watched: WatchedFileSystem, directory: Path) -> None:
    """The tuple of files is replaced, and a deleted file stays readable."""
    queue = row(watched, directory, 2)
    queue.files[0].publish(b"a record")
    held, view = queue.files, queue.files[0].view
    queue.delete_first()
    assert names(queue) == [SIZE]
    assert len(held) == 2
    assert bytes(view[:8]) == b"a record"
    assert not watched.exists(directory / file_name(0))


def test_files_behind_an_offset_go_newest_first(watched: WatchedFileSystem, directory: Path) -> None:
    """So that a crash in the middle leaves no gap."""
    queue = row(watched, directory, 4)
    queue.delete_from(SIZE + 1)
    assert names(queue) == [0, SIZE]
    deleted = [int(path.name) for step, path in watched.steps if step == "delete"]
    assert deleted == [3 * SIZE, 2 * SIZE]
    queue.delete_from(2 * SIZE)
    assert names(queue) == [0, SIZE]


@pytest.mark.parametrize("others", [False, True])
def test_destroying_removes_files_and_an_empty_directory(
    watched: WatchedFileSystem, directory: Path, others: bool
) -> None:
    """A directory with something else in it stays."""
    queue = row(watched, directory, 2)
    if others:
        watched.write(directory / "notes.txt", b"x")
    queue.destroy()
    assert queue.files == ()
    assert watched.exists(directory) == others
    assert [entry.name for entry in watched.list(directory)] == (["notes.txt"] if others else [])


@pytest.mark.parametrize("start_offset", [1, 0, 3 * SIZE])
def test_a_file_is_added_only_at_the_end(
    watched: WatchedFileSystem, directory: Path, start_offset: int
) -> None:
    """Anything else is a programmer's mistake."""
    queue = row(watched, directory, 2)
    with pytest.raises(AssertionError):
        queue.append_file(start_offset)


def test_a_file_added_while_names_are_synced_is_synced_next_time(file_system: FileSystem, root: Path) -> None:
    """The sync under way may have missed it."""
    watched = WatchedFileSystem(file_system)
    directory = root / "consumequeue" / "orders" / "0"
    settings = MappedFileSettings(file_size_bytes=SIZE, reserve_window_bytes=4096, is_derived_row=True)
    queue = MappedFileQueue(watched, directory, settings)
    queue.append_file(0)

    def add_another(step: str, path: Path) -> None:
        if step == "sync_directory" and path == directory.parent and len(queue.files) == 1:
            queue.append_file(SIZE)

    watched.before = add_another
    queue.sync_names(set())
    before = watched.count("sync_directory", directory)
    queue.sync_names(set())
    assert watched.count("sync_directory", directory) == before + 1


def files_in(watched: WatchedFileSystem, directory: Path) -> list[int]:
    return [int(entry.name) for entry in watched.list(directory)]


def test_a_prepared_file_is_only_taken(watched: WatchedFileSystem, directory: Path) -> None:
    """It is no file of the row before; to add it takes no step on the disk."""
    queue = row(watched, directory, 1)
    prepared = queue.prepare_file(SIZE)
    assert (names(queue), queue.end_offset, files_in(watched, directory)) == ([0], SIZE, [0, SIZE])
    assert watched.steps[-1] == ("sync_directory", directory)
    watched.steps.clear()
    assert queue.prepare_file(SIZE) is prepared
    assert queue.append_file(SIZE) is prepared
    assert watched.steps == []
    assert names(queue) == [0, SIZE]
    assert queue.append_file(2 * SIZE).path.name == file_name(2 * SIZE)


def test_only_the_next_file_is_prepared(watched: WatchedFileSystem, directory: Path) -> None:
    """The writer may have added it meanwhile; the first file of a row is never prepared."""
    assert make(watched, directory).prepare_file(0) is None
    queue = row(watched, directory, 2)
    for start_offset in (0, SIZE, 3 * SIZE):
        assert queue.prepare_file(start_offset) is None
    assert files_in(watched, directory) == [0, SIZE]


@pytest.mark.parametrize("step", ["map", "sync_directory"])
@pytest.mark.parametrize("error", [StoreFull(Path("row"), SIZE, "full"), KeyboardInterrupt()])
def test_a_preparation_that_ends_early_harms_nothing(
    watched: WatchedFileSystem, directory: Path, step: str, error: BaseException
) -> None:
    """The file is added later, or what there is of it goes with the files behind the end."""
    for is_needed in (True, False):
        queue = row(watched, directory / str(is_needed), 1)

        def fail(done: str, path: Path) -> None:
            if done == step:
                raise error

        watched.before = fail
        with pytest.raises(type(error)):
            queue.prepare_file(SIZE)
        watched.before = lambda step, path: None
        if is_needed:
            queue.append_file(SIZE)
            assert watched.steps[-1] == ("sync_directory", queue.directory)
            queue.delete_from(2 * SIZE)
            assert (names(queue), files_in(watched, queue.directory)) == ([0, SIZE], [0, SIZE])
        else:
            queue.delete_from(1)
            assert (names(queue), files_in(watched, queue.directory)) == ([0], [0])


def test_a_name_whose_sync_failed_is_not_synced_again(watched: WatchedFileSystem, directory: Path) -> None:
    """A second sync may succeed though the name is lost: whoever needs the file gets the error."""
    queue = row(watched, directory, 1)

    def fail(step: str, path: Path) -> None:
        if step == "sync_directory":
            raise OSError(5, "Input/output error")

    watched.before = fail
    with pytest.raises(OSError, match="Input/output"):
        queue.prepare_file(SIZE)
    watched.before = lambda step, path: None
    before = watched.count("sync_directory")
    for add in (queue.prepare_file, queue.append_file):
        with pytest.raises(OSError, match="Input/output"):
            add(SIZE)
    assert watched.count("sync_directory") == before
    assert names(queue) == [0]


def test_a_prepared_file_goes_with_what_is_behind_the_end(
    watched: WatchedFileSystem, directory: Path
) -> None:
    """An interrupt in between leaves it to the next call."""
    queue = row(watched, directory, 2)
    queue.prepare_file(2 * SIZE)

    def interrupt(step: str, path: Path) -> None:
        if step == "delete":
            raise KeyboardInterrupt

    watched.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        queue.delete_from(SIZE + 1)
    watched.before = lambda step, path: None
    queue.delete_from(SIZE + 1)
    assert (names(queue), files_in(watched, directory)) == ([0, SIZE], [0, SIZE])
    assert watched.steps[-1] == ("sync_directory", directory)
    assert queue.append_file(2 * SIZE) is queue.files[-1]


def test_a_signal_handler_may_append_what_is_being_prepared(
    watched: WatchedFileSystem, directory: Path
) -> None:
    """It puts in the thread that prepares, so it cannot wait for that."""
    queue = row(watched, directory, 1)

    def put(step: str, path: Path) -> None:
        if step == "sync_directory" and len(queue.files) == 1:
            watched.before = lambda step, path: None
            queue.append_file(SIZE)

    watched.before = put
    assert queue.prepare_file(SIZE) is None
    assert names(queue) == [0, SIZE]
    assert queue.append_file(2 * SIZE).start_offset == 2 * SIZE
