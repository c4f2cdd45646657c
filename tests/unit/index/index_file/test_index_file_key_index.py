"""RocketMQ's index files behind a log: their bytes, where they are taken up again, and what they answer.

Small logs are indexed into tiny files (so that rolling is met all the time), something happens, and the files
are opened again. In the end their bytes must be those that a broker would have written behind the same log
(support/twins/plain_index_files.py), so that no key is missed and none is there twice. What every key index
must do is tested in tests/contract/test_key_lookup.py; crashes in test_index_files_crash.py.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqstore.index.index_file import index_file_key_index
from mqstore.index.index_file.index_file import IndexFile, IndexFileSize
from mqstore.index.index_file.index_file_format import SLOT_BYTES
from mqstore.index.index_file.index_file_key_index import IndexFileKeyIndex
from mqstore.index.index_file.index_file_recovery import Reached
from mqstore.store.errors import SegmentSizeMismatch, StoreClosed, StoreFull, StorePoisoned, StoreReadOnly
from mqstore.store.files.file_system import BytesLike, FileSystem
from mqstore.store.files.mapped_file import MappedFile
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.disks.watched_file_system import WatchedFileSystem
from support.stores.key_log import KeyLog
from support.twins.plain_index_files import index_contents, plain_index_files

SIZE = IndexFileSize(slot_count=7, entry_count=6)


class IndexedLog:
    """A log, the offsets of its records, and the directory of its index files."""

    def __init__(self, file_system: FileSystem, root: Path, size: IndexFileSize = SIZE) -> None:
        self.file_system = file_system
        self.root = root
        self.size = size
        self.log = KeyLog()
        self.put: list[int] = []
        self.tags: str | None = "TagA"

    @property
    def directory(self) -> Path:
        return self.root / "index"

    @property
    def point_path(self) -> Path:
        return self.root / "mqstore" / "index-point"

    def put_messages(self, count: int) -> None:
        """Messages with no to three keys; each third shares a key with others."""
        for number in range(len(self.put), len(self.put) + count):
            keys = [f"k{number}", f"mod-{number % 3}", "all"][: number % 4]
            self.log.clock.advance(700)
            unique = f"u{number}" if number % 5 else None
            tags = self.tags if number % 7 > 4 else None
            self.put.append(self.log.put(keys, unique=unique, tags=tags))

    def open(
        self, *, after_crash: bool = False, read_only: bool = False, index_msg_timestamp: int = 0
    ) -> IndexFileKeyIndex:
        return IndexFileKeyIndex(
            self.file_system,
            self.directory,
            self.point_path,
            self.log.log,
            self.size,
            self.log.clock,
            after_crash=after_crash,
            index_msg_timestamp=index_msg_timestamp,
            read_only=read_only,
        )

    def index_all(self) -> None:
        """As one store does: open, take in, close."""
        index = self.open()
        self.log.feed(index)
        index.close()

    def contents(self) -> list[bytes]:
        return index_contents(self.file_system, self.directory)

    def expected(self) -> list[bytes]:
        return plain_index_files(self.log.log, self.put, self.size)

    def names(self) -> list[str]:
        return [entry.name for entry in self.file_system.list(self.directory)]

    def as_found(self, index: IndexFileKeyIndex, key: str) -> list[int]:
        return [message.physical_offset for message in index.query("T", key, max_num=10_000)]

    def assert_answers(self, index: IndexFileKeyIndex) -> None:
        """Every key leads to its messages and to no others."""
        for remainder in range(3):
            expected = [
                offset
                for number, offset in enumerate(self.put)
                if number % 4 >= 2 and number % 3 == remainder
            ]
            assert self.as_found(index, f"mod-{remainder}") == expected
        for number, offset in enumerate(self.put):
            assert self.as_found(index, f"u{number}") == ([offset] if number % 5 else [])


@pytest.fixture
def indexed(file_system: FileSystem, root: Path) -> IndexedLog:
    return IndexedLog(file_system, root)


# -- bytes ----------------------------------------------------------------------------------------------


def test_the_bytes_are_those_of_a_broker(indexed: IndexedLog) -> None:
    """Slots, chains, time differences, counters, and the times that a file takes over from the one before."""
    indexed.put_messages(40)
    indexed.index_all()
    assert len(indexed.names()) > 10
    assert indexed.contents() == indexed.expected()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from("abc"), max_size=9), st.integers(-9_000, 9_000)), max_size=30
    ),
    st.integers(1, 12),
    st.integers(2, 9),
    st.integers(150, 2_000),
)
def test_the_bytes_are_those_of_a_broker_for_any_log(
    puts: list[tuple[list[str], int]], slot_count: int, entry_count: int, limit_bytes: int
) -> None:
    """Of any sizes, cut into any chunks, closed and opened after each, with a clock that steps back."""
    indexed = IndexedLog(MemoryFileSystem(), Path("/"), IndexFileSize(slot_count, entry_count))
    indexed.file_system.make_directories(indexed.root)
    for keys, step_ms in puts:
        indexed.log.clock.advance(step_ms)
        indexed.put.append(indexed.log.put(keys))
    index = indexed.open()
    while (chunk := indexed.log.log.chunk(index.dispatched_offset, limit_bytes)) is not None:
        if not index.absorb(chunk):
            limit_bytes += 500
        index.close()
        index = indexed.open()
    index.close()
    assert indexed.contents() == indexed.expected()


@pytest.mark.slow
@pytest.mark.parametrize("first_count", range(1, 21))
def test_goes_on_where_it_was_closed(indexed: IndexedLog, first_count: int) -> None:
    """Wherever that is: in a file, at its end, after messages without keys."""
    indexed.put_messages(first_count)
    indexed.index_all()
    indexed.put_messages(20 - first_count)
    index = indexed.open()
    assert index.dispatched_offset == (
        indexed.put[first_count] if first_count < 20 else indexed.log.log.max_offset
    )
    indexed.log.feed(index)
    indexed.assert_answers(index)
    index.close()
    assert indexed.contents() == indexed.expected()


def test_tags_may_be_left_out_and_put_in_from_then_on(indexed: IndexedLog) -> None:
    """As older brokers do not index them: what they wrote is complete, and goes on."""
    indexed.put_messages(20)
    without = IndexFileKeyIndex(
        indexed.file_system,
        indexed.directory,
        indexed.point_path,
        indexed.log.log,
        indexed.size,
        indexed.log.clock,
        after_crash=False,
        with_tags=False,
    )
    indexed.log.feed(without)
    without.close()
    older = plain_index_files(indexed.log.log, indexed.put, SIZE, with_tags=False)
    assert indexed.contents() == older
    indexed.file_system.delete(indexed.point_path)
    indexed.put_messages(10)
    index = indexed.open()
    indexed.log.feed(index)
    indexed.assert_answers(index)
    index.close()
    assert indexed.contents()[: len(older) - 1] == older[:-1]


def test_no_file_is_made_for_messages_without_keys(indexed: IndexedLog) -> None:
    """But it is remembered that they were seen."""
    for _ in range(3):
        indexed.log.put()
    indexed.index_all()
    assert indexed.names() == []
    assert indexed.open().dispatched_offset == indexed.log.log.max_offset


def test_names_ascend_though_the_clock_stands_still_or_steps_back(indexed: IndexedLog) -> None:
    """17 digits, as RocketMQ sorts them."""
    for step_ms in (0, 0, -3_600_000):
        indexed.log.clock.advance(step_ms)
        indexed.put += [indexed.log.put(("a", "b", "c", "d", "e")) for _ in range(2)]
        indexed.index_all()
    names = indexed.names()
    assert len(set(names)) == 6
    assert all(len(name) == 17 and name.isdigit() for name in names)
    assert indexed.contents() == indexed.expected()


# -- taking up files of others ----------------------------------------------------------------------


def test_a_brokers_files_are_taken_up_without_a_point(indexed: IndexedLog) -> None:
    """Closed by a broker: the entries count, and what comes behind the last of them is taken in."""
    indexed.put_messages(30)
    indexed.index_all()
    before = indexed.contents()
    indexed.file_system.delete(indexed.point_path)
    index = indexed.open()
    assert index.dispatched_offset <= indexed.put[-1]
    assert indexed.log.feed(index) == indexed.log.log.max_offset
    index.close()
    assert indexed.contents() == before


def test_the_entries_that_a_broker_added_count(indexed: IndexedLog) -> None:
    """It went on in our files while our point stood still."""
    indexed.put_messages(10)
    indexed.index_all()
    point = indexed.file_system.read(indexed.point_path)
    indexed.put_messages(10)
    indexed.index_all()
    indexed.file_system.write(indexed.point_path, point)
    indexed.put_messages(10)
    indexed.index_all()
    assert indexed.contents() == indexed.expected()


@pytest.mark.parametrize("skipped", [0, 1, 3, 11])
def test_a_hole_behind_the_point_is_found(indexed: IndexedLog, skipped: int) -> None:
    """Messages were stored without index files, then a broker went on in them: the rest is done anew."""
    indexed.put_messages(9)
    indexed.index_all()
    point = indexed.file_system.read(indexed.point_path)
    indexed.put_messages(skipped)
    indexed.file_system.delete(indexed.point_path)
    append_as_broker(indexed, 8)
    indexed.file_system.write(indexed.point_path, point)
    indexed.index_all()
    assert indexed.contents() == indexed.expected()


def append_as_broker(indexed: IndexedLog, count: int) -> None:
    """Put messages and let a fresh dispatcher, which knows nothing of those before them, index them."""
    end = indexed.log.log.max_offset
    indexed.put_messages(count)
    index = indexed.open()
    index._reached = Reached(end)  # where a broker begins: at the end of the log
    indexed.log.feed_from(index, end)
    index.close()
    indexed.file_system.delete(indexed.point_path)


@pytest.mark.parametrize("lost", range(5))
def test_a_missing_file_is_made_again(indexed: IndexedLog, lost: int) -> None:
    """As a broker drops the files that it does not trust, and goes on in a new one."""
    indexed.tags = None
    indexed.put_messages(20)
    indexed.index_all()
    indexed.file_system.delete(indexed.point_path)
    indexed.file_system.delete(indexed.directory / indexed.names()[lost])
    indexed.index_all()
    assert indexed.contents() == indexed.expected()


def test_what_was_lost_with_the_folder_is_made_again(indexed: IndexedLog) -> None:
    """Delete `index/`, open: the same."""
    indexed.put_messages(20)
    indexed.index_all()
    for name in indexed.names():
        indexed.file_system.delete(indexed.directory / name)
    indexed.index_all()
    assert indexed.contents() == indexed.expected()


def test_files_of_another_log_are_begun_anew(indexed: IndexedLog) -> None:
    """A log of the same length, stored at other times."""
    indexed.put_messages(20)
    indexed.index_all()
    indexed.log, indexed.put = KeyLog(), []
    indexed.log.clock.advance(1)
    indexed.put_messages(25)
    indexed.index_all()
    assert indexed.contents() == indexed.expected()


def test_a_damaged_point_costs_a_walk_only(indexed: IndexedLog) -> None:
    """It is a shortcut."""
    indexed.put_messages(20)
    indexed.index_all()
    data = bytearray(indexed.file_system.read(indexed.point_path))
    data[12] ^= 1
    indexed.file_system.write(indexed.point_path, bytes(data))
    indexed.put_messages(5)
    indexed.index_all()
    assert indexed.contents() == indexed.expected()


@pytest.mark.parametrize(("flushed_files", "is_trusted"), [(0, False), (1, True)])
def test_without_a_point_an_unclean_stop_leaves_what_the_checkpoint_vouches_for(
    indexed: IndexedLog, flushed_files: int, is_trusted: bool
) -> None:
    """A power cut may have torn any other file, also one whose header and entries look right."""
    indexed.put.append(indexed.log.put(("a", "b", "c", "d", "e")))
    index = indexed.open()
    indexed.log.feed(index)
    index.close()
    indexed.file_system.delete(indexed.point_path)
    (name,) = indexed.names()
    whole = indexed.contents()[0]
    torn = bytearray(whole)
    torn[40:68] = bytes(28)
    indexed.file_system.write(indexed.directory / name, bytes(torn))
    vouched_ms = indexed.log.clock.now_ms() - 1 + flushed_files
    indexed.open(after_crash=True, index_msg_timestamp=vouched_ms).close()
    assert indexed.contents() == ([bytes(torn)] if is_trusted else [])
    indexed.index_all()
    assert indexed.contents() == [bytes(torn) if is_trusted else whole]


@pytest.mark.parametrize("cut_at", range(0, 20, 3))
def test_the_log_lost_its_tail(indexed: IndexedLog, cut_at: int) -> None:
    """And other messages came in its place."""
    indexed.put_messages(20)
    indexed.index_all()
    indexed.log.cut(indexed.put[cut_at])
    del indexed.put[cut_at:]
    for number in range(7):
        indexed.put.append(indexed.log.put(f"new-{number}"))
    indexed.index_all()
    assert indexed.contents() == indexed.expected()


def test_what_is_below_the_lost_tail_stays(indexed: IndexedLog) -> None:
    """After a power cut that took the end of the log, the entries of the rest are not made again."""
    indexed.put_messages(20)
    indexed.index_all()
    indexed.log.cut(indexed.put[15])
    del indexed.put[15:]
    index = indexed.open()
    assert indexed.put[13] <= index.dispatched_offset <= indexed.log.log.max_offset
    index.close()
    indexed.index_all()
    assert indexed.contents() == indexed.expected()


@pytest.mark.parametrize(
    ("stored", "done"),
    [([], 0), (["a"], 1), (["a", "b"], 2), (["a", "a"], 1), (["a", "b", "a", "b"], 2), (["b", "a"], 1)],
)
def test_goes_on_in_the_middle_of_a_record(indexed: IndexedLog, stored: list[str], done: int) -> None:
    """A broker that dispatches a record again puts its keys again; those that follow are not missed."""
    offset = indexed.log.put(("a", "b"))
    index = indexed.open()
    codes = {key: index_file_key_index.key_hash("T", key) for key in "ab"}
    rows = index_file_key_index.np.array(
        [(codes[key], indexed.log.clock.now_ms(), offset) for key in stored], index_file_key_index.np.int64
    ).reshape(-1, 3)
    if stored:
        index._file_with_room().put(rows)
    assert index._recovery._count_rows_done(offset) == done
    index._reached = index._recovery.reached_from(Reached(0))
    indexed.log.feed(index)
    assert indexed.as_found(index, "a") == indexed.as_found(index, "b") == [offset]
    assert index.entry_count == len(stored) + 2 - done
    index.close()


def test_files_of_another_size_are_gone_on_with_in_theirs(file_system: FileSystem, root: Path) -> None:
    """So that the broker that made them finds its own size everywhere."""
    indexed = IndexedLog(file_system, root, IndexFileSize(50, 40))
    indexed.put_messages(60)
    indexed.index_all()
    expected_files = len(indexed.names())
    assert expected_files > 1
    indexed.size = IndexFileSize(7, 6)
    for read_only in True, False:
        index = indexed.open(read_only=read_only)
        indexed.assert_answers(index)
        index.close()
    indexed.put_messages(60)
    indexed.index_all()
    indexed.size = IndexFileSize(50, 40)
    assert indexed.contents() == indexed.expected()
    assert len(indexed.names()) > expected_files


def test_files_that_do_not_tell_their_size_are_refused(indexed: IndexedLog) -> None:
    """The error says which settings the size comes from."""
    indexed.file_system.make_directories(indexed.directory)
    first = indexed.directory / "20260101000000000"
    indexed.file_system.write(first, bytes(IndexFileSize(7, 7).file_bytes))
    with pytest.raises(SegmentSizeMismatch, match="max_index_num") as caught:
        indexed.open()
    assert (caught.value.path, caught.value.found_bytes) == (first, IndexFileSize(7, 7).file_bytes)
    assert caught.value.expected_bytes == SIZE.file_bytes


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("length", [-1, 0, 10, 10_000])
@pytest.mark.parametrize("size", [SIZE, IndexFileSize(50, 40)])
def test_a_file_of_another_length_is_made_again(
    file_system: FileSystem, root: Path, number: int, length: int, size: IndexFileSize
) -> None:
    """With all behind it, in the size of the others, whether the settings say that or not."""
    indexed = IndexedLog(file_system, root, size)
    indexed.put_messages(100)
    indexed.index_all()
    expected = indexed.contents()
    path = indexed.directory / indexed.names()[number]
    whole = file_system.read(path)
    file_system.write(path, (whole + bytes(10_000))[:length] if length < 0 else whole[:length])
    indexed.size = IndexFileSize(7, 6)
    reader = indexed.open(read_only=True)
    indexed.log.feed(reader)
    indexed.assert_answers(reader)
    reader.close()
    indexed.index_all()
    assert indexed.contents() == expected
    index = indexed.open()
    indexed.assert_answers(index)
    index.close()


@pytest.mark.parametrize("whole", [True, False])
def test_files_of_length_zero_are_creations_that_were_interrupted(indexed: IndexedLog, whole: bool) -> None:
    """They go, also where there is no other file."""
    indexed.put_messages(20)
    if whole:
        indexed.index_all()
    indexed.file_system.make_directories(indexed.directory)
    for name in ("99990101000000000", "99990101000000001"):
        indexed.file_system.write(indexed.directory / name, b"")
    indexed.put_messages(5)
    indexed.index_all()
    assert indexed.contents() == indexed.expected()


def test_files_with_other_names_are_left_alone(indexed: IndexedLog) -> None:
    """As RocketMQ does."""
    indexed.put_messages(5)
    indexed.index_all()
    indexed.file_system.write(indexed.directory / "note", b"x")
    indexed.index_all()
    assert indexed.file_system.read(indexed.directory / "note") == b"x"


# -- disks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("free_files", [0, 1, 2])
def test_a_full_disk_is_an_error_and_nothing_is_lost(free_files: int) -> None:
    """When a file is made, also in the middle of a chunk and of a record. With room again, all goes on."""
    file_system = MemoryFileSystem()
    indexed = IndexedLog(file_system, Path("/"))
    file_system.make_directories(indexed.root)
    indexed.put_messages(30)
    index = indexed.open()
    # A file, and the point that is saved before it is followed by another.
    file_system.free_bytes = (SIZE.file_bytes + 84) * free_files + 50
    for _ in range(2):
        with pytest.raises(StoreFull):
            indexed.log.feed(index)
        assert len(indexed.names()) == free_files
    file_system.free_bytes = 2**30
    assert indexed.log.feed(index) == indexed.log.log.max_offset
    indexed.assert_answers(index)
    index.close()
    assert indexed.contents() == indexed.expected()


WINDOW_BYTES, GROUP_BYTES = 1 << 20, 4 << 10


def test_room_for_entries_is_reserved_in_windows() -> None:
    """20 bytes an entry, 1 MiB at a time: the file is long, the disk is not."""
    file_system = MemoryFileSystem()
    indexed = IndexedLog(file_system, Path("/"), IndexFileSize(1_000, 1_000_000))
    file_system.make_directories(indexed.root)
    indexed.put_messages(2)
    index = indexed.open()
    file_system.free_bytes = WINDOW_BYTES
    indexed.log.feed(index)
    # From behind the slots to the end of the window, and the header.
    assert file_system.free_bytes == 1_000 * SLOT_BYTES
    rows = index_file_key_index.np.zeros((100_000, 3), index_file_key_index.np.int64)
    (file,) = index._row.files
    with pytest.raises(StoreFull):
        file.put(rows)
    assert file.index_count == 3
    file_system.free_bytes = 2 * WINDOW_BYTES
    assert file.put(rows) == 100_000
    assert file_system.free_bytes == WINDOW_BYTES


def test_a_few_keys_take_little_room() -> None:
    """Of 20 MB of slots the pages that are in use, until so many are that all are taken in one piece."""
    file_system = MemoryFileSystem()
    indexed = IndexedLog(file_system, Path("/"), IndexFileSize(5_000_000, 20_000_000))
    file_system.make_directories(indexed.root)
    indexed.put_messages(2)
    file_system.free_bytes = 100 << 20
    index = indexed.open()
    indexed.log.feed(index)
    index.flush()
    taken = (100 << 20) - file_system.free_bytes
    assert 2 * GROUP_BYTES < taken < WINDOW_BYTES + 3 * GROUP_BYTES
    rows = index_file_key_index.np.zeros((400, 3), index_file_key_index.np.int64)
    rows[:, 0] = index_file_key_index.np.arange(400) * 12_345
    (file,) = index._row.files
    file.put(rows)
    file.write_back()
    taken = (100 << 20) - file_system.free_bytes
    assert 20_000_000 < taken < 20_000_000 + 2 * WINDOW_BYTES
    index.close()


def test_a_disk_that_is_full_when_slots_are_written_back() -> None:
    """Nothing is written, all is found, and with room again it is written."""
    file_system = MemoryFileSystem()
    indexed = IndexedLog(file_system, Path("/"), IndexFileSize(10_000, 1_000))
    file_system.make_directories(indexed.root)
    indexed.put_messages(20)
    index = indexed.open()
    indexed.log.feed(index)
    before = indexed.contents()
    file_system.free_bytes = GROUP_BYTES - 1
    with pytest.raises(StoreFull):
        index.flush()
    assert indexed.contents() == before
    indexed.assert_answers(index)
    file_system.free_bytes = 2**30
    index.close()
    assert indexed.contents() == indexed.expected()


def test_a_full_file_is_synced_before_the_next_begins(file_system: FileSystem, root: Path) -> None:
    """And counts as flushed for a broker: checkpoint.indexMsgTimestamp."""
    watched = WatchedFileSystem(file_system)
    indexed = IndexedLog(watched, root)
    index = indexed.open()
    indexed.put.append(indexed.log.put(("a", "b", "c", "d", "e")))
    full_ms = indexed.log.clock.now_ms()
    indexed.log.feed(index)
    (first,) = indexed.names()
    assert index.flushed_timestamp == 0
    assert watched.count("sync", indexed.directory / first) == 0
    indexed.log.clock.advance(10)
    indexed.put.append(indexed.log.put("f"))
    indexed.log.feed(index)
    assert index.flushed_timestamp == full_ms
    # Entries with their count, slots, header.
    assert watched.count("sync", indexed.directory / first) == 3
    index.close()


def failing(failing_step: str, directory: Path) -> Callable[[str, Path], None]:
    """For WatchedFileSystem.before: this step fails for files in a directory."""

    def fail(step: str, path: Path) -> None:
        if (step, path.parent) == (failing_step, directory):
            raise OSError(5, "Input/output error", str(path))

    return fail


def test_a_failed_sync_is_never_tried_again(file_system: FileSystem, root: Path) -> None:
    """The kernel may have forgotten what was dirty: nothing is called durable any more, and all is found. The
    next opening goes back to the last point, and the files come out as if nothing had happened."""
    watched = WatchedFileSystem(file_system)
    indexed = IndexedLog(watched, root, IndexFileSize(7, 90))
    indexed.put_messages(10)
    index = indexed.open()
    indexed.log.feed(index)
    index.flush()
    point = file_system.read(indexed.point_path)
    indexed.put_messages(10)
    indexed.log.feed(index)
    watched.before = failing("sync", indexed.directory)
    with pytest.raises(StorePoisoned, match="Input/output") as caught:
        index.flush()
    assert caught.value.path == indexed.directory
    assert isinstance(caught.value.cause, OSError)
    watched.before = lambda step, path: None
    count = len(watched.steps)
    with pytest.raises(StorePoisoned):
        index.flush()
    # The first file runs full, and cannot be made durable before the next begins.
    indexed.put_messages(60)
    with pytest.raises(StorePoisoned):
        indexed.log.feed(index)
    assert indexed.as_found(index, "u9") == [indexed.put[9]]
    index.close()
    assert not any(step == "sync" for step, _ in watched.steps[count:])
    assert file_system.read(indexed.point_path) == point
    index = indexed.open(after_crash=True)
    indexed.log.feed(index)
    indexed.assert_answers(index)
    index.close()
    assert indexed.contents() == indexed.expected()


def test_a_file_that_cannot_be_made_is_a_typed_error_once(file_system: FileSystem, root: Path) -> None:
    """Too many open files, a directory without permission: a query says so, and the next may succeed."""
    watched = WatchedFileSystem(file_system)
    indexed = IndexedLog(watched, root)
    indexed.put_messages(20)
    index = indexed.open()
    watched.before = failing("map", indexed.directory)
    with pytest.raises(StorePoisoned, match="Input/output"):
        indexed.log.feed(index)
    watched.before = lambda step, path: None
    indexed.log.feed(index)
    indexed.assert_answers(index)
    index.close()
    assert indexed.contents() == indexed.expected()


def test_flush_makes_durable_and_then_says_so(file_system: FileSystem, root: Path) -> None:
    """The file, then the point; and nothing at all when nothing is new."""
    watched = WatchedFileSystem(file_system)
    indexed = IndexedLog(watched, root)
    indexed.put_messages(4)
    index = indexed.open()
    indexed.log.feed(index)
    index.flush()
    assert watched.steps[-2] == ("rename", indexed.point_path)
    assert ("sync", indexed.directory / indexed.names()[-1]) in watched.steps[:-2]
    count = len(watched.steps)
    index.flush()
    assert len(watched.steps) == count


def test_flush_if_due_waits_for_much(indexed: IndexedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries, or bytes of log without any."""
    index = indexed.open()
    indexed.put_messages(3)
    indexed.log.feed(index)
    index.flush_if_due()
    assert not indexed.file_system.exists(indexed.point_path)
    monkeypatch.setattr(index_file_key_index, "_FLUSH_ENTRIES", 3)
    index.flush_if_due()
    assert indexed.file_system.exists(indexed.point_path)
    indexed.file_system.delete(indexed.point_path)
    indexed.log.put()
    indexed.log.feed(index)
    index.flush_if_due()
    assert not indexed.file_system.exists(indexed.point_path)
    monkeypatch.setattr(index_file_key_index, "_FLUSH_BYTES", 50)
    index.flush_if_due()
    assert indexed.file_system.exists(indexed.point_path)
    index.close()


@pytest.mark.parametrize("interrupted", ["before", "after"])
def test_an_interrupt_leaves_no_key_out_and_none_twice(
    indexed: IndexedLog, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    """Ctrl-C while entries are copied into the file."""
    indexed.put_messages(20)
    index = indexed.open()
    write, countdown = MappedFile.write, [4]

    def interrupting(self: MappedFile, position: int, data: BytesLike) -> None:
        countdown[0] -= 1
        if countdown[0] == 0 and interrupted == "before":
            raise KeyboardInterrupt
        write(self, position, data)
        if countdown[0] == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(MappedFile, "write", interrupting)
    with pytest.raises(KeyboardInterrupt):
        indexed.log.feed(index)
    indexed.log.feed(index)
    indexed.assert_answers(index)
    index.close()
    assert indexed.contents() == indexed.expected()


def test_an_interrupt_behind_the_last_step_of_an_insertion(
    indexed: IndexedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entries are in, and the index has not taken notice of it yet."""
    indexed.put_messages(20)
    index = indexed.open()
    put: Callable[[IndexFile, index_file_key_index.Rows], int] = IndexFile.put

    def interrupting(self: IndexFile, rows: index_file_key_index.Rows) -> int:
        put(self, rows)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(IndexFile, "put", interrupting)
        with pytest.raises(KeyboardInterrupt):
            indexed.log.feed(index)
    indexed.log.feed(index)
    indexed.assert_answers(index)
    index.close()
    assert indexed.contents() == indexed.expected()


# -- retention ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_files_of_deleted_records_go_and_the_last_stays(indexed: IndexedLog) -> None:
    """Leading files that end below the log's beginning."""
    indexed.put_messages(1_500)
    index = indexed.open()
    indexed.log.feed(index)
    before = indexed.names()
    indexed.log.log.files.delete_first()
    min_offset = indexed.log.log.min_offset
    index.delete_expired(min_offset)
    indexed.put = [offset for offset in indexed.put if offset >= min_offset]
    after = indexed.names()
    assert 1 < len(after) < len(before)
    assert after == before[-len(after) :]
    index.delete_expired(2**62)
    assert indexed.names() == before[-1:]
    index.close()
    index = indexed.open()
    assert index.dispatched_offset == indexed.log.log.max_offset
    index.close()


# -- readers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after_crash", [True, False])
@pytest.mark.parametrize("flushed", [0, 9, 20])
def test_a_reader_finds_all_and_changes_nothing(indexed: IndexedLog, flushed: int, after_crash: bool) -> None:
    """What the writer has not flushed comes from the log; whether the writer lives or was killed."""
    index = indexed.open()
    indexed.put_messages(flushed)
    indexed.log.feed(index)
    index.flush()
    indexed.put_messages(20 - flushed)
    indexed.log.feed(index)
    before = indexed.contents()
    reader = indexed.open(after_crash=after_crash or flushed < 20, read_only=True)
    indexed.log.feed(reader)
    indexed.assert_answers(reader)
    indexed.put_messages(5)
    indexed.log.feed(reader)
    indexed.assert_answers(reader)
    reader.flush()
    for change in (reader.destroy, lambda: reader.delete_expired(0)):
        with pytest.raises(StoreReadOnly):
            change()
    reader.truncate(indexed.put[12])
    del indexed.put[12:]
    indexed.assert_answers(reader)
    reader.close()
    assert indexed.contents() == before


def test_a_reader_finds_all_where_there_are_no_files(indexed: IndexedLog) -> None:
    """It makes none."""
    indexed.put_messages(20)
    reader = indexed.open(read_only=True)
    indexed.log.feed(reader)
    indexed.assert_answers(reader)
    assert not indexed.file_system.exists(indexed.directory)


# -- closing --------------------------------------------------------------------------------------------


def test_a_closed_index_says_so(indexed: IndexedLog) -> None:
    """Closing twice is fine; asking is not."""
    indexed.put_messages(3)
    index = indexed.open()
    indexed.log.feed(index)
    index.close()
    index.close()
    for use in (lambda: index.query("T", "k1"), index.flush, lambda: index.truncate(0)):
        with pytest.raises(StoreClosed):
            use()


def test_destroy_takes_the_files_away(indexed: IndexedLog) -> None:
    """And the point: the next open begins at the log's first record."""
    indexed.put_messages(20)
    indexed.index_all()
    index = indexed.open()
    index.destroy()
    assert not indexed.file_system.exists(indexed.directory)
    assert not indexed.file_system.exists(indexed.point_path)
    assert indexed.open().dispatched_offset == 0


def test_its_repr_tells_how_far_it_is(indexed: IndexedLog) -> None:
    """For error messages and debuggers."""
    index = indexed.open()
    assert repr(index) == f"IndexFileKeyIndex({str(indexed.directory)!r}, dispatched_offset=0)"
