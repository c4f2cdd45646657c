"""Segments in transit: refused where nothing may be changed, renamed where a repair goes on.

Method: files of these names, on both file systems.
"""

import itertools
from pathlib import Path

import pytest

from mqstore.repair.interrupted_repair import finish_renames, name_in_transit, refuse_interrupted
from mqstore.store.errors import RepairRefused
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_system import FileSystem
from support.stores.small_log import SEGMENT_BYTES, SmallLog


def names_in(file_system: FileSystem, directory: Path) -> list[str]:
    return [entry.name for entry in file_system.list(directory)]


def test_segments_in_transit_are_refused(file_system: FileSystem, root: Path) -> None:
    """By name; and nothing is renamed."""
    refuse_interrupted(file_system, root)
    file_system.write(root / name_in_transit(1_000), b"a")
    with pytest.raises(RepairRefused, match=r"1000\.home was left"):
        refuse_interrupted(file_system, root)
    assert names_in(file_system, root) == [f"{1_000:020d}.home"]


def test_renames_are_finished(file_system: FileSystem, root: Path) -> None:
    """Whatever else lies there keeps its name."""
    for name in (name_in_transit(0), name_in_transit(1_000), f"{2_000:020d}", "other.home"):
        file_system.write(root / name, name.encode())
    finish_renames(file_system, root)
    finish_renames(file_system, root)
    assert names_in(file_system, root) == [f"{start:020d}" for start in (0, 1_000, 2_000)] + ["other.home"]
    assert file_system.read(root / f"{1_000:020d}") == name_in_transit(1_000).encode()


STARTS = (0, SEGMENT_BYTES, 2 * SEGMENT_BYTES)


def make_segments(file_system: FileSystem, directory: Path) -> dict[str, bytes]:
    """Three segments of a log; what each file holds."""
    small = SmallLog(file_system, directory)
    while len(small.log.files.files) < len(STARTS):
        small.append(bytes(50_000))
    return contents_of(file_system, directory)


def contents_of(file_system: FileSystem, directory: Path) -> dict[str, bytes]:
    return {name: file_system.read(directory / name) for name in names_in(file_system, directory)}


@pytest.mark.parametrize("homes", [(1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_a_repair_killed_amid_its_first_renames_loses_no_segment(
    file_system: FileSystem, root: Path, homes: tuple[int, ...]
) -> None:
    """Two or three segments in each other's place; some are in transit, in any combination."""
    whole = make_segments(file_system, root / "sound")
    moved = [(STARTS[at], STARTS[home]) for at, home in enumerate(homes) if at != home]
    for cut in itertools.product((False, True), repeat=len(moved)):
        directory = root / f"cut-{cut}"
        file_system.make_directories(directory)
        for at, home in enumerate(homes):
            file_system.write(directory / file_name(STARTS[at]), whole[file_name(STARTS[home])])
        for (start_offset, home), is_renamed in zip(moved, cut, strict=True):
            if is_renamed:
                file_system.rename(directory / file_name(start_offset), directory / name_in_transit(home))
        finish_renames(file_system, directory)
        if any(cut):
            assert contents_of(file_system, directory) == whole


@pytest.mark.parametrize("is_segment", [False, True])
def test_a_file_that_is_no_repairs_replaces_no_segment(
    file_system: FileSystem, root: Path, is_segment: bool
) -> None:
    """Both are named, and both stay."""
    make_segments(file_system, root)
    foreign = file_system.read(root / file_name(0)) if is_segment else b"noise"
    file_system.write(root / name_in_transit(SEGMENT_BYTES), foreign)
    before = contents_of(file_system, root)
    with pytest.raises(RepairRefused, match=r"131072\.home would replace .*131072, which"):
        finish_renames(file_system, root)
    assert contents_of(file_system, root) == before
