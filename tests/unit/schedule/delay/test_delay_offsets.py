"""Delay offsets: what is read, what is clamped, and that the file never runs ahead of what it is told."""

from pathlib import Path

import pytest

from mqstore.schedule.delay.delay_offsets import DELAY_OFFSET_FILE_NAME, DelayOffsets
from mqstore.store.errors import StateFileCorrupt
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.state.data_version import DataVersion
from support.manual_clock import ManualClock

SAMPLE = (
    b'{\n\t"dataVersion":{\n\t\t"counter":3,\n\t\t"stateVersion":0,\n\t\t"timestamp":1726740000000\n\t},\n'
    b'\t"offsetTable":{3:24,4:11,18:2\n\t}\n}'
)


def write_file(
    file_system: FileSystem, directory: Path, text: bytes, name: str = DELAY_OFFSET_FILE_NAME
) -> None:
    file_system.make_directories(directory)
    file_system.write(directory / name, text)


def new_offsets(file_system: FileSystem, directory: Path, **settings: int) -> DelayOffsets:
    return DelayOffsets(file_system, directory, ManualClock(1726740000000), **settings)


def test_without_a_file_every_level_begins_at_0(file_system: FileSystem, tmp_path: Path) -> None:
    """A new store has delivered nothing."""
    offsets = new_offsets(file_system, tmp_path)
    assert offsets.load() == {}
    assert offsets.offset(3) == 0
    assert file_system.list(tmp_path) == []


def test_the_sample_is_read_and_written_byte_for_byte(file_system: FileSystem, tmp_path: Path) -> None:
    """RocketMQ's file comes back unchanged, version and all."""
    write_file(file_system, tmp_path, SAMPLE)
    offsets = new_offsets(file_system, tmp_path)
    assert offsets.load() == {3: 24, 4: 11, 18: 2}
    assert offsets.data_version == DataVersion(3, 0, 1726740000000)
    assert not offsets.persist(offsets.snapshot())
    offsets.update(3, 25)
    offsets.update(3, 24)
    assert not offsets.persist(offsets.snapshot())
    assert offsets.persist({3: 23, 4: 11, 18: 2})
    assert file_system.read(tmp_path / DELAY_OFFSET_FILE_NAME) == SAMPLE.replace(b"3:24", b"3:23")
    assert file_system.read(tmp_path / "delayOffset.json.bak") == SAMPLE


def test_load_clamps_in_memory_and_leaves_the_file(file_system: FileSystem, tmp_path: Path) -> None:
    """A queue that lost entries at either end decides where delivery starts."""
    write_file(file_system, tmp_path, SAMPLE)
    offsets = new_offsets(file_system, tmp_path)
    assert offsets.load(lambda level, offset: min(max(offset, 5), 20)) == {3: 20, 4: 11, 18: 5}
    assert file_system.read(tmp_path / DELAY_OFFSET_FILE_NAME) == SAMPLE


def test_the_file_is_never_ahead_of_the_bound(file_system: FileSystem, tmp_path: Path) -> None:
    """The lower of memory and bound is written; a level without a bound stays as it was on disk."""
    write_file(file_system, tmp_path, SAMPLE)
    offsets = new_offsets(file_system, tmp_path)
    offsets.load()
    offsets.update(3, 30)
    offsets.update(4, 40)
    offsets.update(5, 50)
    offsets.persist({3: 27, 18: 99})
    assert new_offsets(file_system, tmp_path).load() == {3: 27, 4: 11, 18: 2}
    assert offsets.snapshot() == {3: 30, 4: 40, 5: 50, 18: 2}
    offsets.persist({3: 30, 4: 40, 5: 50})
    assert new_offsets(file_system, tmp_path).load() == {3: 30, 4: 40, 5: 50, 18: 2}


def test_the_version_moves_every_so_many_updates(file_system: FileSystem, tmp_path: Path) -> None:
    """200 by default, as delayOffsetUpdateVersionStep says."""
    offsets = new_offsets(file_system, tmp_path)
    offsets.load()
    for entry in range(399):
        offsets.update(1, entry)
    assert offsets.data_version.counter == 1
    offsets.update(1, 399)
    assert offsets.data_version.counter == 2


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        SAMPLE[:-9],
        b'{"offsetTable":{"x":1}}',
        b'{"offsetTable":{1:"x"}}',
        b'{"offsetTable":{1:1.5}}',
        b'{"offsetTable":7}',
        b'{"dataVersion":7}',
    ],
)
def test_garbage_gives_way_to_the_backup_or_is_refused(
    file_system: FileSystem, tmp_path: Path, garbage: bytes
) -> None:
    """With a good .bak delivery goes on from there; without one the store does not open at 0."""
    write_file(file_system, tmp_path, garbage)
    with pytest.raises(StateFileCorrupt, match=r"delayOffset\.json"):
        new_offsets(file_system, tmp_path).load()
    write_file(file_system, tmp_path, SAMPLE, "delayOffset.json.bak")
    assert new_offsets(file_system, tmp_path).load() == {3: 24, 4: 11, 18: 2}


def test_the_repr_shows_the_table() -> None:
    """Level and next entry."""
    offsets = new_offsets(MemoryFileSystem(), Path("/store/config"))
    offsets.load()
    offsets.update(3, 24)
    assert repr(offsets) == "<DelayOffsets {3: 24} in '/store/config/delayOffset.json'>"
