"""Segments in transit: refused where nothing may be changed, renamed where a repair goes on.

Method: files of these names, on both file systems.
"""

from pathlib import Path

import pytest

from mqstore.repair.interrupted_repair import finish_renames, name_in_transit, refuse_interrupted
from mqstore.store.errors import RepairRefused
from mqstore.store.files.file_system import FileSystem


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
