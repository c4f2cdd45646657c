"""What every file system must do, whichever it is: the seam that the whole store stands on.

Each test runs over the machine's file system and over the one in memory; a later one (a crash simulator, a
fault injector) is added to `FILE_SYSTEMS` and has to pass all of them.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore.store.errors import StoreLocked
from mqstore.store.files.file_system import FileEntry, FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from support.disks.watched_file_system import WatchedFileSystem

FILE_SYSTEMS: dict[str, Callable[[], FileSystem]] = {
    "disk": OsFileSystem,
    "disk by calls": lambda: OsFileSystem("never"),
    "memory": MemoryFileSystem,
    "watched": lambda: WatchedFileSystem(MemoryFileSystem()),
}
SIZE = 16_384


@pytest.fixture(params=FILE_SYSTEMS)
def file_system(request: pytest.FixtureRequest) -> FileSystem:
    return FILE_SYSTEMS[request.param]()


@pytest.fixture
def path(root: Path) -> Path:
    return root / "file"


# -- mapped files -------------------------------------------------------------------------------------


def test_a_created_file_is_all_zero(file_system: FileSystem, path: Path) -> None:
    """Of full length at once."""
    region = file_system.map(path, SIZE, create=True)
    assert (region.size_bytes, len(region.view), region.view.format) == (SIZE, SIZE, "B")
    assert bytes(region.view) == file_system.read(path) == bytes(SIZE)


def test_creating_again_keeps_what_is_there(file_system: FileSystem, path: Path) -> None:
    """`create` is for missing files, and for one of length zero whose creation was cut short."""
    file_system.map(path, SIZE, create=True).write(5, b"kept")
    assert bytes(file_system.map(path, SIZE, create=True).view[:9]) == b"\0\0\0\0\0kept"
    empty = path.with_name("empty")
    file_system.write(empty, b"")
    assert len(file_system.map(empty, SIZE, create=True).view) == SIZE


def test_a_missing_file_is_not_mapped(file_system: FileSystem, path: Path) -> None:
    """Nor created in a directory that is not there."""
    with pytest.raises(FileNotFoundError):
        file_system.map(path, SIZE)
    with pytest.raises(FileNotFoundError):
        file_system.map(path.parent / "none" / "file", SIZE, create=True)
    assert not file_system.exists(path)


def test_all_mappings_of_a_file_are_one(file_system: FileSystem, path: Path) -> None:
    """What one writes, the others and `read` see at once."""
    first = file_system.map(path, SIZE, create=True)
    second = file_system.map(path, SIZE)
    first.write(0, b"one")
    second.write(3, bytearray(b"two"))
    second.write(6, memoryview(b"three"))
    assert bytes(first.view[:11]) == bytes(second.view[:11]) == file_system.read(path)[:11] == b"onetwothree"


def test_a_mapping_for_reading_cannot_be_written(file_system: FileSystem, path: Path) -> None:
    """And sees what others write."""
    writer = file_system.map(path, SIZE, create=True)
    reader = file_system.map(path, SIZE, read_only=True)
    assert reader.view.readonly
    with pytest.raises(TypeError):
        reader.write(0, b"x")
    with pytest.raises(TypeError):
        reader.publish(0, b"12345678")
    writer.write(0, b"seen")
    assert bytes(reader.view[:5]) == b"seen\0"


def test_an_address_leads_to_the_bytes_or_is_not_given(
    file_system: FileSystem, path: Path, request: pytest.FixtureRequest
) -> None:
    """What compiled loops write in place is what a view shows; a mapping for reading gives no address."""
    region = file_system.map(path, SIZE, create=True)
    region.reserve(0, SIZE)
    assert file_system.map(path, SIZE, read_only=True).address == 0
    if region.address:
        ctypes.memmove(region.address + 100, b"in place", 8)
        assert bytes(region.view[99:109]) == b"\0in place\0"
    assert bool(region.address) == (request.node.callspec.params["file_system"] in ("disk", "memory"))


@pytest.mark.parametrize("count", [0, 1, 40, 600])
def test_many_regions_are_synced_together(file_system: FileSystem, root: Path, count: int) -> None:
    """Few or many, one deleted meanwhile among them; their bytes are what they were."""
    paths = [root / f"file {index} é" for index in range(count)]
    regions = [file_system.map(path, 4_096, create=True) for path in paths]
    for region in regions:
        region.reserve(0, 4_096)
        region.write(0, b"bytes")
    for path in paths[5:6]:
        file_system.delete(path)
    file_system.sync_all(regions)
    assert all(bytes(region.view[:6]) == b"bytes\0" for region in regions)


def test_a_part_of_a_file_is_read_without_mapping_it(file_system: FileSystem, path: Path) -> None:
    """Fewer bytes where the file ends, none behind it; a missing file is an error."""
    with pytest.raises(FileNotFoundError):
        file_system.read_at(path, 0, 1)
    file_system.write(path, bytes(range(100)))
    assert file_system.read_at(path, 10, 5) == bytes(range(10, 15))
    assert file_system.read_at(path, 98, 50) == bytes([98, 99])
    assert file_system.read_at(path, 100, 1) == b""


@pytest.mark.parametrize("is_populated", [False, True])
@pytest.mark.parametrize("size", [4_095, 4_096, 16_383, 16_384, 100_001])
def test_a_long_record_is_there_as_a_whole(
    file_system: FileSystem, path: Path, size: int, is_populated: bool
) -> None:
    """However it gets there: in all mappings, in what is read, and after the descriptor was given back."""
    record = bytes(range(1, 252)) * (size // 251 + 1)
    region, other = (file_system.map(path, 1 << 20, create=True) for _ in range(2))
    region.reserve(0, 1 << 20)
    if is_populated:
        region.populate(0, 200_000)
    for position in (1, 200_003, (1 << 20) - size):
        region.publish(position, memoryview(record)[:size])
        region.sync()
        region.release_descriptor()
    content = file_system.read(path)
    assert content == bytes(region.view) == bytes(other.view)
    for position in (1, 200_003, (1 << 20) - size):
        assert content[position : position + size] == record[:size]
        assert content[position - 1] == 0
    assert content.count(b"\0") == (1 << 20) - 3 * size


@pytest.mark.parametrize("record", [b"12345678", b"123456789", bytes(range(200)), bytearray(b"a record")])
def test_a_published_record_is_there_as_a_whole(file_system: FileSystem, path: Path, record: bytes) -> None:
    """At any position, and nothing beside it is touched."""
    region = file_system.map(path, SIZE, create=True)
    region.reserve(0, SIZE)
    for position in (0, 1_000, SIZE - len(record)):
        region.publish(position, record)
    content = bytes(region.view)
    assert content.count(bytes(record)) >= 3 - record.count(0)
    for position in (0, 1_000, SIZE - len(record)):
        assert content[position : position + len(record)] == record
    assert not any(content[len(record) : 1_000])


def test_reserving_changes_no_byte(file_system: FileSystem, path: Path) -> None:
    """Again and again, over what is written too; nor does the hint to bring it into memory."""
    region = file_system.map(path, SIZE, create=True)
    region.write(10, b"kept")
    for position, length in ((0, SIZE), (0, 4_096), (5, 100), (SIZE - 1, 1)):
        region.reserve(position, length)
        region.populate(position, length)
        region.populate(position, length, writable=False)
    region.sync()
    assert bytes(region.view) == bytes(10) + b"kept" + bytes(SIZE - 14)
    assert len(file_system.read(path)) == SIZE


@pytest.mark.parametrize("reserved", [True, False])
def test_next_data_never_passes_over_a_byte(file_system: FileSystem, path: Path, reserved: bool) -> None:
    """It may stop early, at zeros, but not late."""
    region = file_system.map(path, 1 << 20, create=True)
    if reserved:
        region.reserve(0, 1 << 20)
    region.write(700_001, b"x")
    for position in (0, 1, 4_096, 700_000, 700_001):
        assert position <= region.next_data(position) <= 700_001
    for position in (700_002, 1_000_000, (1 << 20) - 1):
        assert position <= region.next_data(position) <= 1 << 20
    assert region.next_data(1 << 20) == 1 << 20


def test_a_deleted_file_lives_on_in_its_mappings(file_system: FileSystem, path: Path) -> None:
    """Views stay valid without the region, and a new file of the name is another file.

    A sync that comes too late is no error: retention may delete what a flush is about to sync.
    """
    region = file_system.map(path, SIZE, create=True)
    region.write(0, b"old")
    view = region.view[:3]
    file_system.delete(path)
    region.sync()
    del region
    assert not file_system.exists(path)
    file_system.map(path, SIZE, create=True).write(0, b"new")
    assert bytes(view) == b"old"


# -- small files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 100])
def test_a_file_is_written_and_read_whole(file_system: FileSystem, path: Path, data: bytes) -> None:
    """A longer content before it leaves nothing behind."""
    file_system.write(path, b"longer" * 10_000)
    file_system.write(path, data)
    file_system.sync(path)
    assert file_system.read(path) == data


def test_what_is_missing_is_told_as_such(file_system: FileSystem, path: Path) -> None:
    """The same error from every operation that needs a file."""
    for attempt in (
        lambda: file_system.read(path),
        lambda: file_system.sync(path),
        lambda: file_system.rename(path, path.with_name("other")),
        lambda: file_system.modified_ms(path),
        lambda: file_system.write(path.parent / "none" / "file", b""),
        lambda: file_system.lock(path.parent / "none" / "lock"),
    ):
        with pytest.raises(FileNotFoundError):
            attempt()
    file_system.delete(path)
    assert not file_system.exists(path)


def test_renaming_replaces_the_target(file_system: FileSystem, path: Path) -> None:
    """The old name is gone; onto itself nothing changes."""
    target = path.with_name("target")
    file_system.write(target, b"old")
    file_system.write(path, b"new")
    file_system.rename(path, target)
    assert (file_system.read(target), file_system.exists(path)) == (b"new", False)
    file_system.rename(target, target)
    assert file_system.read(target) == b"new"


# -- directories --------------------------------------------------------------------------------------


def test_a_listing_is_sorted_and_of_one_directory(file_system: FileSystem, root: Path) -> None:
    """Names with sizes, directories marked, nothing from below."""
    file_system.write(root / "b", b"12")
    file_system.write(root / "a", b"")
    file_system.make_directories(root / "c" / "below")
    file_system.write(root / "c" / "file", b"123")
    listed = file_system.list(root)
    assert [entry._replace(size_bytes=0) if entry.is_directory else entry for entry in listed] == [
        FileEntry("a", 0, False),
        FileEntry("b", 2, False),
        FileEntry("c", 0, True),
    ]
    assert [entry.name for entry in file_system.list(root / "c")] == ["below", "file"]


def test_what_is_no_directory_lists_nothing(file_system: FileSystem, root: Path) -> None:
    """A missing one is not an error."""
    assert file_system.list(root / "none") == []


def test_directories_are_made_with_their_parents(file_system: FileSystem, root: Path) -> None:
    """Existing ones are no error, and keep what is in them."""
    file_system.make_directories(root / "a" / "b" / "c")
    file_system.write(root / "a" / "b" / "file", b"kept")
    file_system.make_directories(root / "a" / "b")
    assert file_system.exists(root / "a" / "b" / "c")
    assert file_system.read(root / "a" / "b" / "file") == b"kept"
    file_system.sync_directory(root / "a" / "b")


def test_only_an_empty_directory_is_deleted(file_system: FileSystem, root: Path) -> None:
    """A missing one is no error."""
    file_system.make_directories(root / "a" / "b")
    with pytest.raises(OSError, match=r"[Dd]irectory not empty"):
        file_system.delete_directory(root / "a")
    file_system.delete_directory(root / "a" / "b")
    file_system.delete_directory(root / "a")
    file_system.delete_directory(root / "a")
    assert not file_system.exists(root / "a")


# -- the lock -----------------------------------------------------------------------------------------


def test_a_lock_excludes_until_it_is_released(file_system: FileSystem, root: Path) -> None:
    """The second is told which file; another file is another lock."""
    first = file_system.lock(root / "lock")
    with pytest.raises(StoreLocked) as caught:
        file_system.lock(root / "lock")
    assert caught.value.path == root / "lock"
    file_system.lock(root / "other").release()
    first.release()
    second = file_system.lock(root / "lock")
    first.release()
    with pytest.raises(StoreLocked):
        file_system.lock(root / "lock")
    second.release()
    assert file_system.read(root / "lock") == b"lock"


# -- the disk -----------------------------------------------------------------------------------------


def test_room_is_told_for_any_path(file_system: FileSystem, root: Path) -> None:
    """Also for one that is still to be created."""
    for path in (root, root / "none" / "yet"):
        usage = file_system.disk_usage(path)
        assert 0 <= usage.free_bytes <= usage.total_bytes
        assert 0 <= usage.used_percent <= 100


def test_a_file_has_an_age(file_system: FileSystem, path: Path) -> None:
    """In epoch milliseconds; writing it again makes it younger, not older."""
    file_system.write(path, b"x")
    before = file_system.modified_ms(path)
    assert before > 1_600_000_000_000
    file_system.write(path, b"y")
    assert file_system.modified_ms(path) >= before
