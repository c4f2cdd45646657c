"""One mapped file: positions, room reserved in windows before a byte is touched, and erasing a tail.

All of it on both file systems; a watched file system shows what reached the disk, and in which order.
"""

from pathlib import Path

import pytest

from mqstore.store.errors import StoreFull
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.mapped_file import MappedFile, MappedFileSettings
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from support.disks.watched_file_system import WatchedFileSystem

SIZE = 65_536
WINDOW = 8_192


def make(
    file_system: FileSystem,
    root: Path,
    *,
    create: bool = True,
    read_only: bool = False,
    is_synced_often: bool = False,
) -> MappedFile:
    return MappedFile(
        file_system,
        root / file_name(SIZE),
        MappedFileSettings(
            file_size_bytes=SIZE,
            reserve_window_bytes=WINDOW,
            read_only=read_only,
            is_synced_often=is_synced_often,
        ),
        create=create,
    )


@pytest.fixture
def watched(file_system: FileSystem) -> WatchedFileSystem:
    return WatchedFileSystem(file_system)


@pytest.fixture
def mapped_file(watched: WatchedFileSystem, root: Path) -> MappedFile:
    return make(watched, root)


def test_a_new_file_is_full_length_and_zero(mapped_file: MappedFile, watched: WatchedFileSystem) -> None:
    """Named by the offset of its first byte, in twenty digits."""
    assert mapped_file.path.name == "00000000000000065536"
    assert (mapped_file.start_offset, mapped_file.end_offset) == (SIZE, 2 * SIZE)
    assert watched.read(mapped_file.path) == bytes(SIZE)
    assert (mapped_file.wrote_position, mapped_file.is_full) == (0, False)


def test_publish_appends_and_moves_the_position(mapped_file: MappedFile, watched: WatchedFileSystem) -> None:
    """Records lie one behind the other, in the view and in the file."""
    assert mapped_file.publish(b"first record") == 0
    assert mapped_file.publish(bytearray(b"second record")) == 12
    assert mapped_file.wrote_position == 25
    assert bytes(mapped_file.view[:25]) == b"first recordsecond record"
    assert mapped_file.array[:5].tobytes() == b"first"
    assert watched.read(mapped_file.path)[:26] == b"first recordsecond record\0"


def test_write_leaves_the_position_alone(mapped_file: MappedFile) -> None:
    """Its owner decides what the bytes mean."""
    mapped_file.write(100, memoryview(b"data"))
    assert bytes(mapped_file.view[98:106]) == b"\0\0data\0\0"
    assert mapped_file.wrote_position == 0


def test_a_file_can_be_filled_to_its_last_byte(mapped_file: MappedFile) -> None:
    """The last window is cut to the file's length."""
    for _ in range(SIZE // 1_024):
        mapped_file.publish(bytes(1_024))
    assert (mapped_file.is_full, mapped_file.reserved_position) == (True, SIZE)


def test_what_is_lent_is_read_only(mapped_file: MappedFile) -> None:
    """Neither the view nor the array can be written through."""
    with pytest.raises(TypeError):
        mapped_file.view[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        mapped_file.array[0] = 1


def test_room_is_reserved_in_windows_before_it_is_touched(
    mapped_file: MappedFile, watched: WatchedFileSystem
) -> None:
    """One reservation serves all records of a window."""
    for _ in range(WINDOW // 512):
        mapped_file.publish(bytes(512))
    assert mapped_file.reserved_position == WINDOW
    assert watched.count("reserve") == 1
    mapped_file.publish(bytes(512))
    assert mapped_file.reserved_position == 2 * WINDOW
    changes = [step for step, _ in watched.steps if step in ("reserve", "publish")]
    assert changes[0] == changes[-2] == "reserve"


def test_a_record_longer_than_a_window_takes_several(mapped_file: MappedFile) -> None:
    """Whole windows, always."""
    mapped_file.publish(bytes(WINDOW + 1))
    assert mapped_file.reserved_position == 2 * WINDOW


@pytest.mark.parametrize("free_bytes", [0, WINDOW - 1])
def test_a_full_disk_is_an_error_before_anything_is_written(free_bytes: int) -> None:
    """Nothing has moved, and the same call succeeds once there is room."""
    memory, root = MemoryFileSystem(free_bytes=free_bytes), Path("/row")
    memory.make_directories(root)
    mapped_file = make(memory, root)
    for attempt in (lambda: mapped_file.publish(b"a record"), lambda: mapped_file.write(0, b"data")):
        with pytest.raises(StoreFull, match=f"cannot reserve {WINDOW} bytes") as caught:
            attempt()
        assert caught.value.wanted_bytes == WINDOW
    assert (mapped_file.wrote_position, mapped_file.reserved_position) == (0, 0)
    assert memory.read(mapped_file.path) == bytes(SIZE)
    memory.free_bytes = WINDOW
    assert mapped_file.publish(b"a record") == 0
    assert memory.free_bytes == 0


def test_low_space_is_told_when_half_a_window_is_left(file_system: FileSystem, root: Path) -> None:
    """So that someone else can populate this window and reserve the next one while the writer goes on."""
    told: list[int] = []
    settings = MappedFileSettings(
        file_size_bytes=SIZE,
        reserve_window_bytes=WINDOW,
        on_low_space=lambda: told.append(mapped_file.wrote_position),
    )
    mapped_file = MappedFile(file_system, root / file_name(SIZE), settings, create=True)
    for _ in range(WINDOW // 512):
        mapped_file.publish(bytes(512))
    # At the first record, which reserves, behind an eighth of the window, and when half of it is used up.
    assert told == [0, WINDOW // 8 + 512, WINDOW // 2]


def test_the_next_window_is_reserved_ahead_only_when_space_is_low(mapped_file: MappedFile) -> None:
    """Not before the first record, not twice, and not beyond the end."""
    assert not mapped_file.reserve_next_window()
    mapped_file.publish(bytes(512))
    assert not mapped_file.reserve_next_window()
    mapped_file.publish(bytes(WINDOW // 2))
    assert mapped_file.reserve_next_window()
    assert mapped_file.reserved_position == 2 * WINDOW
    assert not mapped_file.reserve_next_window()
    mapped_file.publish(bytes(SIZE - mapped_file.wrote_position))
    assert not mapped_file.reserve_next_window()


def populated_of(mapped_file: MappedFile, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    populated = []

    def populate(position: int, length_bytes: int, *, writable: bool = True) -> None:
        assert writable
        populated.append((position, length_bytes))

    monkeypatch.setattr(mapped_file.region, "populate", populate)
    return populated


def test_the_window_of_the_first_record_is_populated_when_more_are_written(
    mapped_file: MappedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once: not for a single record, and nothing that was written is touched again."""
    populated = populated_of(mapped_file, monkeypatch)
    mapped_file.publish(bytes(512))
    mapped_file.reserve_next_window()
    mapped_file.publish(bytes(512))
    mapped_file.reserve_next_window()
    assert populated == []
    mapped_file.publish(bytes(WINDOW // 8))
    for _ in range(2):
        mapped_file.reserve_next_window()
        assert populated == [(2_048, WINDOW - 2_048)]


def test_a_first_window_is_reserved_and_populated_once(
    mapped_file: MappedFile, watched: WatchedFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a file that is needed soon: its first records touch nothing new."""
    populated = populated_of(mapped_file, monkeypatch)
    for _ in range(2):
        mapped_file.reserve_first_window()
    assert (mapped_file.reserved_position, populated) == (WINDOW, [(0, WINDOW)])
    mapped_file.publish(bytes(512))
    assert watched.count("reserve") == 1


@pytest.mark.parametrize("is_synced_often", [False, True])
def test_a_sync_that_is_waited_for_writes_no_zeros_of_a_first_window(
    file_system: FileSystem, root: Path, monkeypatch: pytest.MonkeyPatch, is_synced_often: bool
) -> None:
    """Its pages are in memory and clean; in ASYNC_FLUSH they can be written without a fault."""
    mapped_file = make(file_system, root, is_synced_often=is_synced_often)
    writable: list[object] = []
    monkeypatch.setattr(mapped_file.region, "populate", lambda *_, **how: writable.append(how["writable"]))
    mapped_file.reserve_first_window()
    assert writable == [not is_synced_often]


@pytest.mark.parametrize("is_synced_often", [False, True])
def test_a_file_whose_syncs_are_waited_for_is_not_read_ahead_while_it_grows(
    file_system: FileSystem, root: Path, monkeypatch: pytest.MonkeyPatch, is_synced_often: bool
) -> None:
    """Said before its first page is touched, and taken back once it is finished."""
    mapped_file = make(file_system, root, is_synced_often=is_synced_often)
    said: list[object] = []
    monkeypatch.setattr(mapped_file.region, "read_ahead", lambda _, **how: said.append(how["is_wanted"]))
    monkeypatch.setattr(mapped_file.region, "populate", lambda *_, **how: said.append(how["writable"]))
    mapped_file.reserve_first_window()
    while mapped_file.reserved_position < SIZE:
        mapped_file.publish(bytes(512))
        mapped_file.reserve_next_window()
    windows = SIZE // WINDOW
    assert said == ([False, *[False] * windows] if is_synced_often else [True] * windows)
    said.clear()
    mapped_file.finish()
    assert said == [True] * is_synced_often


@pytest.mark.parametrize(("wrote_position", "begin"), [(5_000, 0), (100 << 20, 36 << 20)])
def test_what_was_in_a_file_long_before_may_be_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrote_position: int, begin: int
) -> None:
    """A consumer that is far behind reads it from a disk. The last 64 MiB are too near what is written."""
    settings = MappedFileSettings(
        file_size_bytes=128 << 20, reserve_window_bytes=WINDOW, is_synced_often=True
    )
    path = tmp_path / file_name(0)
    MappedFile(OsFileSystem(), path, settings, create=True)
    again = MappedFile(OsFileSystem(), path, settings)
    again.wrote_position = wrote_position
    begins: list[int] = []
    monkeypatch.setattr(again.region, "read_ahead", lambda position, **_: begins.append(position))
    again.publish(bytes(512))
    assert begins == [begin]


def test_a_file_is_mapped_when_it_is_first_touched(
    mapped_file: MappedFile, watched: WatchedFileSystem, root: Path
) -> None:
    """Listing a row of thousands costs nothing."""
    mapped_file.publish(b"a record")
    before = watched.count("map")
    again = make(watched, root, create=False)
    assert watched.count("map") == before
    assert bytes(again.view[:8]) == b"a record"
    assert again.array[0] == ord("a")
    assert watched.count("map") == before + 1


def test_a_file_opened_for_reading_cannot_be_written(
    mapped_file: MappedFile, watched: WatchedFileSystem, root: Path
) -> None:
    """And sees what the writer publishes."""
    reader = make(watched, root, create=False, read_only=True)
    assert not reader.array.any()
    mapped_file.publish(b"a record")
    assert bytes(reader.view[:8]) == b"a record"
    with pytest.raises((TypeError, OSError)):
        reader.publish(b"another record")
    assert bytes(reader.view[:9]) == b"a record\0"


@pytest.mark.parametrize("position", [0, 1, 4_095, 4_096, SIZE - 1, SIZE])
def test_erasing_zeroes_all_from_a_position_on(
    mapped_file: MappedFile, watched: WatchedFileSystem, position: int
) -> None:
    """Whatever lies there, near or far; what lies before stays. The zeros are synced."""
    mapped_file.write(0, b"\xff" * SIZE)
    mapped_file.wrote_position = SIZE
    erased = mapped_file.erase_from(position)
    assert watched.read(mapped_file.path) == b"\xff" * position + bytes(SIZE - position)
    assert mapped_file.wrote_position == position
    assert (erased > 0) == (position < SIZE)
    assert watched.count("sync") == (position < SIZE)


def test_erasing_finds_bytes_behind_a_hole(mapped_file: MappedFile) -> None:
    """Sparse or not, nothing is left behind."""
    mapped_file.write(SIZE - 3, b"end")
    mapped_file.write(5, b"begin")
    assert mapped_file.erase_from(5) > 0
    assert not mapped_file.array.any()


def test_erasing_zeros_writes_nothing(mapped_file: MappedFile, watched: WatchedFileSystem) -> None:
    """A clean tail costs no write and no sync."""
    mapped_file.publish(b"a record")
    before = list(watched.steps)
    assert mapped_file.erase_from(8) == 0
    assert watched.steps == before


def test_repr_tells_how_far_it_is_written(mapped_file: MappedFile) -> None:
    """Name, position, size."""
    assert repr(mapped_file) == "MappedFile('00000000000000065536', wrote_position=0, size_bytes=65536)"


def test_what_a_failed_publish_left_is_zeroed_before_the_next(
    mapped_file: MappedFile, watched: WatchedFileSystem
) -> None:
    """Where even the zeros find no room, the next publish is refused until they do."""
    mapped_file.publish(b"a record")
    region, refused = mapped_file.region, ["publish", "write"]

    def refuse(step: str, path: Path) -> None:
        if step in refused:
            raise StoreFull(path, 1, "no room")

    # As a write by call leaves it that ends early.
    region.write(16, b"half of a record")
    watched.before = refuse
    with pytest.raises(StoreFull):
        mapped_file.publish(bytes(range(1, 33)))
    mapped_file.undo_publish(32)
    with pytest.raises(StoreFull):
        mapped_file.publish(b"12345678")
    refused.clear()
    mapped_file.publish(b"12345678")
    assert bytes(mapped_file.view[:64]) == b"a record12345678" + bytes(48)


def test_room_that_is_reserved_ahead_does_not_keep_what_a_failed_publish_left(
    mapped_file: MappedFile, watched: WatchedFileSystem
) -> None:
    """A service reserves the next window before the zeros are written: they are still due."""
    mapped_file.publish(b"a record")
    region, refused = mapped_file.region, ["write"]

    def refuse(step: str, path: Path) -> None:
        if step in refused:
            raise StoreFull(path, 1, "no room")

    region.write(16, b"half of a record")
    watched.before = refuse
    mapped_file.undo_publish(32)
    refused.clear()
    mapped_file.reserve(WINDOW + 1)
    mapped_file.publish(b"12345678")
    assert bytes(mapped_file.view[:64]) == b"a record12345678" + bytes(48)
