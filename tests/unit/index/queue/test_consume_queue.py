"""One queue: append, restart, cut, delete; on memory and on disk.

Method: packed entries are handed in directly, without a log; message n lies at physical offset 100 n and is
100 bytes long unless a test says otherwise. A file has 10 entries.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore.index.queue.consume_queue import ConsumeQueue, QueueOffsetConflict
from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY, PRE_BLANK_ENTRY
from mqstore.store.errors import CorruptRecord, SegmentSizeMismatch, StoreFull
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.mapped_file import MappedFileSettings
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.disks.watched_file_system import WatchedFileSystem

FILE_BYTES = 200
ROOT = Path("/store/consumequeue/orders/0")


def entries(first: int, count: int, *, size: int = 100) -> bytes:
    """Entries of messages `first` and following."""
    return b"".join(ENTRY.pack(at * 100, size, at) for at in range(first, first + count))


def open_queue(
    file_system: FileSystem, root: Path = ROOT, *, file_bytes: int = FILE_BYTES, log_min: int = 0
) -> ConsumeQueue:
    settings = MappedFileSettings(
        file_size_bytes=file_bytes, reserve_window_bytes=file_bytes, is_derived_row=True
    )
    queue = ConsumeQueue(file_system, root, "orders", 0, settings)
    queue.load(log_min)
    return queue


@pytest.fixture
def queue(file_system: FileSystem, root: Path) -> ConsumeQueue:
    return open_queue(file_system, root / "q")


def codes(queue: ConsumeQueue) -> list[int]:
    """The tags codes, that is the message numbers, of all entries from the minimum on."""
    found: list[int] = []
    at = queue.min_offset
    while len(part := queue.entries_from(at, 1000)):
        found += part["tags_code"].tolist()
        at += len(part)
    return found


def test_a_new_queue_is_empty(queue: ConsumeQueue) -> None:
    """No files, no entries, next offset 0."""
    assert (queue.min_offset, queue.max_offset, queue.max_physical_offset) == (0, 0, -1)
    assert queue.entry_at(0) is None
    assert len(queue.entries_from(0, 5)) == 0
    assert repr(queue) == "ConsumeQueue(topic='orders', queue_id=0, min_offset=0, max_offset=0)"


def test_a_last_entry_with_any_number_is_taken_in(file_system: FileSystem, root: Path) -> None:
    """Offset and size of a damaged one may be more than an offset can be."""
    queue = open_queue(file_system, root / "q")
    queue.append_entries(0, entries(0, 1))
    queue.files[0].write(0, ENTRY.pack(2**63 - 1, 100, 7))
    queue = open_queue(file_system, root / "q")
    assert (queue.max_offset, queue.max_physical_offset) == (1, 2**63 - 1)


@pytest.mark.parametrize("count", [1, 9, 10, 11, 35])
def test_a_batch_crosses_files_and_comes_back(
    queue: ConsumeQueue, file_system: FileSystem, root: Path, count: int
) -> None:
    """All entries are read back, after a reopen too; files are full and named by their start."""
    assert queue.append_entries(0, entries(0, count)) == count
    for view in (queue, open_queue(file_system, root / "q")):
        assert codes(view) == list(range(count))
        assert (view.max_offset, view.max_physical_offset) == (count, count * 100)
        assert len(view.entries_from(0, 1000)) == min(count, 10)
        assert view.entry_at(count - 1) == ((count - 1) * 100, 100, count - 1)
        assert view.entry_at(count) is None
    names = [entry.name for entry in file_system.list(root / "q")]
    assert names == [file_name(start) for start in range(0, count * 20, FILE_BYTES)]
    assert {entry.size_bytes for entry in file_system.list(root / "q")} == {FILE_BYTES}


def test_entries_that_are_known_are_passed_over(queue: ConsumeQueue) -> None:
    """The log may be dispatched again from anywhere: nothing is doubled, what is new is added."""
    queue.append_entries(0, entries(0, 5))
    assert queue.append_entries(0, entries(0, 5)) == 0
    assert queue.append_entries(2, entries(2, 6)) == 3
    assert queue.append_entries(4, entries(4, 1)) == 0
    assert codes(queue) == list(range(8))


def test_an_offset_below_the_end_is_passed_over(queue: ConsumeQueue) -> None:
    """As RocketMQ does with a new message that claims an offset which another one has."""
    queue.append_entries(0, entries(0, 5))
    assert queue.append_entries(3, entries(10, 2)) == 0
    assert queue.append_entries(3, entries(10, 4)) == 2
    assert codes(queue) == [0, 1, 2, 3, 4, 12, 13]


@pytest.mark.parametrize(("end", "found"), [(0, 3), (5, 7), (5, 0)])
def test_a_conflict_is_refused(queue: ConsumeQueue, end: int, found: int) -> None:
    """Lost entries are an error with both offsets, and nothing is appended at a wrong place."""
    queue.append_entries(0, entries(0, end))
    with pytest.raises(QueueOffsetConflict) as caught:
        queue.append_entries(found, entries(20, 2))
    assert (caught.value.expected, caught.value.found, caught.value.physical_offset) == (end, found, 2000)
    assert codes(queue) == list(range(end))


@pytest.mark.parametrize("first", [1, 7, 10, 25])
def test_a_rebuilt_queue_may_begin_above_zero(
    queue: ConsumeQueue, file_system: FileSystem, root: Path, first: int
) -> None:
    """Pre-blank entries as RocketMQ writes them; the minimum is the first real entry, after a reopen too."""
    queue.append_entries(first, entries(first, 3), follow_log=True)
    start = first // 10 * FILE_BYTES
    stored = file_system.read(root / "q" / file_name(start))
    assert stored[: first % 10 * 20] == PRE_BLANK_ENTRY * (first % 10)
    for view in (queue, open_queue(file_system, root / "q")):
        assert (view.min_offset, view.max_offset) == (first, first + 3)
        assert codes(view) == [first, first + 1, first + 2]
        assert view.entry_at(first - 1) is None


def test_a_rebuilt_queue_may_have_a_hole(queue: ConsumeQueue) -> None:
    """Blank entries keep the numbering, and offsets still ascend for the searches."""
    queue.append_entries(0, entries(0, 8), follow_log=True)
    queue.append_entries(13, entries(20, 2), follow_log=True)
    assert queue.max_offset == 15
    assert queue.entry_at(8) == (2000, BLANK_SIZE, 0)
    assert queue.entry_at(12) == (2000, BLANK_SIZE, 0)
    assert queue.entry_at(13) == (2000, 100, 20)
    queue.correct_min_offset(1500)
    assert queue.min_offset == 13


def test_a_rebuilt_queue_may_begin_anew(queue: ConsumeQueue) -> None:
    """Offset 0 again, of a newer message: the topic was deleted and created; only the new one counts."""
    queue.append_entries(0, entries(0, 15), follow_log=True)
    assert queue.append_entries(0, entries(20, 2), follow_log=True) == 2
    assert (codes(queue), queue.min_offset, queue.max_offset) == ([20, 21], 0, 2)


def test_a_full_disk_leaves_a_queue_that_goes_on() -> None:
    """StoreFull in the middle of a batch: what was appended stays, and the same batch succeeds later."""
    file_system = MemoryFileSystem(free_bytes=FILE_BYTES)
    queue = open_queue(file_system)
    with pytest.raises(StoreFull):
        queue.append_entries(0, entries(0, 15))
    assert codes(queue) == list(range(10))
    file_system.free_bytes = FILE_BYTES
    assert queue.append_entries(0, entries(0, 15)) == 5
    assert codes(queue) == list(range(15))


def test_a_full_disk_at_the_first_file_of_a_queue_above_zero() -> None:
    """The pre-blank entries failed to be written: the next try begins the queue in the same way."""
    file_system = MemoryFileSystem(free_bytes=0)
    queue = open_queue(file_system)
    with pytest.raises(StoreFull):
        queue.append_entries(7, entries(7, 1), follow_log=True)
    file_system.free_bytes = FILE_BYTES
    queue.append_entries(7, entries(7, 1), follow_log=True)
    assert (queue.min_offset, queue.max_offset) == (7, 8)
    assert file_system.read(ROOT / file_name(0))[:140] == PRE_BLANK_ENTRY * 7


# -- after a crash ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 10, 11, 35])
@pytest.mark.parametrize("kept", [0, 1, 9, 10, 11, 20, 34, 35])
def test_truncate(file_system: FileSystem, root: Path, count: int, kept: int) -> None:
    """Exactly the entries before the offset stay; the rest is zeroed or deleted, and appending goes on."""
    queue = open_queue(file_system, root / "q")
    queue.append_entries(0, entries(0, count))
    queue.truncate(kept * 100)
    left = min(count, kept)
    for view in (queue, open_queue(file_system, root / "q")):
        assert codes(view) == list(range(left))
        assert (view.max_offset, view.max_physical_offset) == (left, left * 100 if left else -1)
    stored = b"".join(file_system.read(root / "q" / entry.name) for entry in file_system.list(root / "q"))
    assert stored.rstrip(b"\0") == entries(0, left).rstrip(b"\0")
    queue.append_entries(left, entries(left, 25))
    assert codes(queue) == list(range(left + 25))


def test_truncate_in_the_middle_of_a_message(queue: ConsumeQueue) -> None:
    """The entry of a message that begins before the offset stays: the log decides whether it is whole."""
    queue.append_entries(0, entries(0, 5))
    queue.truncate(250)
    assert codes(queue) == [0, 1, 2]


@pytest.mark.parametrize("hole", [0, 3, 9, 10, 17, 29])
def test_what_follows_a_hole_never_comes_back(file_system: FileSystem, root: Path, hole: int) -> None:
    """A page that did not reach the disk: entries behind it are dropped and erased, whatever they say."""
    directory = root / "q"
    open_queue(file_system, directory).append_entries(0, entries(0, 30))
    name = directory / file_name(hole // 10 * FILE_BYTES)
    region = file_system.map(name, FILE_BYTES)
    region.write(hole % 10 * 20, bytes(20))
    queue = open_queue(file_system, directory)
    queue.truncate(10**6)
    assert codes(queue) == list(range(hole))
    queue.append_entries(hole, entries(hole, 1))
    assert codes(open_queue(file_system, directory)) == list(range(hole + 1))


def test_truncate_keeps_the_numbering_of_an_old_queue(file_system: FileSystem, root: Path) -> None:
    """When all that is left of an old queue is cut, its next entry keeps its number."""
    queue = open_queue(file_system, root / "q")
    queue.append_entries(0, entries(0, 35))
    queue.delete_expired(3000)
    queue.truncate(2999)
    for view in (queue, open_queue(file_system, root / "q")):
        assert (view.min_offset, view.max_offset) == (30, 30)
    assert queue.append_entries(30, entries(40, 1)) == 1
    assert codes(queue) == [40]


@given(st.integers(0, 45), st.integers(0, 46), st.sets(st.integers(0, 44), max_size=4))
@settings(deadline=None)
def test_cut_and_dispatched_again_it_is_as_new(count: int, durable: int, lost: set[int]) -> None:
    """Any entries behind the durable offset lost or kept: truncate and a second dispatch repair it."""
    file_system = MemoryFileSystem()
    open_queue(file_system).append_entries(0, entries(0, count))
    for at in lost:
        if durable <= at < count:
            name = ROOT / file_name(at // 10 * FILE_BYTES)
            file_system.map(name, FILE_BYTES).write(at % 10 * 20, bytes(20))
    queue = open_queue(file_system)
    queue.truncate(durable * 100)
    begin = min(durable, count)
    queue.append_entries(begin, entries(begin, 50 - begin))
    assert codes(queue) == list(range(50))


def test_flush_syncs_what_is_new_and_only_that(root: Path, file_system: FileSystem) -> None:
    """Files with entries since the last flush are synced, each once; the others are not."""
    watched = WatchedFileSystem(file_system)
    queue = open_queue(watched, root / "q")

    def synced() -> list[str]:
        names = [path.name for step, path in watched.steps if step == "sync"]
        watched.steps.clear()
        return names

    queue.append_entries(0, entries(0, 25))
    queue.flush()
    assert synced() == [file_name(start) for start in (0, 200, 400)]
    queue.flush()
    assert synced() == []
    queue.append_entries(25, entries(25, 1))
    queue.flush()
    assert synced() == [file_name(400)]


# -- retention ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("log_min", [0, 1, 99, 100, 101, 1000, 1050, 2300, 3400, 3401, 9999])
def test_the_minimum_follows_the_log(file_system: FileSystem, root: Path, log_min: int) -> None:
    """The first entry at or behind the log's minimum; the end when there is none; also at opening."""
    queue = open_queue(file_system, root / "q")
    queue.append_entries(0, entries(0, 35))
    queue.correct_min_offset(log_min)
    expected = min(35, -(-log_min // 100))
    assert queue.min_offset == expected
    assert open_queue(file_system, root / "q", log_min=log_min).min_offset == expected


def test_the_minimum_never_falls(queue: ConsumeQueue) -> None:
    """An older log minimum changes nothing."""
    queue.append_entries(0, entries(0, 20))
    queue.correct_min_offset(1500)
    queue.correct_min_offset(300)
    assert queue.min_offset == 15


@pytest.mark.parametrize(
    ("log_min", "left"), [(0, 4), (900, 4), (901, 3), (1000, 3), (2050, 2), (3000, 1), (9999, 1)]
)
def test_expired_files_are_deleted(file_system: FileSystem, root: Path, log_min: int, left: int) -> None:
    """Whole leading files, never the last; numbers stay; lent arrays stay readable."""
    queue = open_queue(file_system, root / "q")
    queue.append_entries(0, entries(0, 35))
    lent = queue.entries_from(0, 10)
    assert queue.delete_expired(log_min) == 4 - left
    assert len(file_system.list(root / "q")) == left
    assert lent["tags_code"].tolist() == list(range(10))
    for view in (queue, open_queue(file_system, root / "q", log_min=log_min)):
        assert (view.min_offset, view.max_offset) == (min(35, -(-log_min // 100)), 35)
    queue.append_entries(35, entries(100, 1))
    assert queue.entry_at(35) == (10_000, 100, 100)


def test_end_below(queue: ConsumeQueue) -> None:
    """How far a queue is durable when the log is durable up to an offset."""
    queue.append_entries(0, entries(0, 25))
    queue.correct_min_offset(500)
    assert [queue.end_below(offset) for offset in (0, 500, 501, 600, 2400, 2500, 9999)] == [
        5,
        5,
        6,
        6,
        24,
        25,
        25,
    ]


def test_roll_next_file(queue: ConsumeQueue) -> None:
    """The first entry of the following file."""
    assert [queue.roll_next_file(at) for at in (0, 9, 10, 25)] == [10, 10, 20, 30]


def test_destroy(queue: ConsumeQueue, file_system: FileSystem, root: Path) -> None:
    """Files and directory go; a new message begins at 0."""
    queue.append_entries(0, entries(0, 25))
    queue.destroy()
    assert not file_system.exists(root / "q")
    assert queue.append_entries(0, entries(50, 1)) == 1
    assert codes(queue) == [50]


def test_files_that_do_not_fit_are_refused(file_system: FileSystem, root: Path) -> None:
    """Another file size, or a gap in the row: an error that names the file, and nothing is changed."""
    open_queue(file_system, root / "q").append_entries(0, entries(0, 25))
    with pytest.raises(SegmentSizeMismatch):
        open_queue(file_system, root / "q", file_bytes=400)
    file_system.delete(root / "q" / file_name(200))
    with pytest.raises(CorruptRecord):
        open_queue(file_system, root / "q")


def test_arrays_are_lent_for_reading(queue: ConsumeQueue) -> None:
    """Nobody writes into a queue through what it lends."""
    queue.append_entries(0, entries(0, 3))
    part = queue.entries_from(0, 3)
    assert part.dtype.names == ("physical_offset", "size", "tags_code")
    with pytest.raises(ValueError, match="read-only"):
        part["size"] = np.zeros(3)
