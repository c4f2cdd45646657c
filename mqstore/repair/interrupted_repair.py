"""What a repair in place leaves when it is killed while it renames segments: files `<start offset>.home`.

Segments whose names were swapped are renamed in two steps: first all of them to `<where it belongs>.home`,
then each to its name. Until the second step is finished, the log cannot be judged.
"""

import re
from pathlib import Path

from mqstore.store.errors import RepairRefused
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_system import FileSystem

__all__ = ["finish_renames", "name_in_transit", "refuse_interrupted"]

_IN_TRANSIT = re.compile(r"(\d{20})\.home")


def name_in_transit(start_offset: int) -> str:
    """The name of a segment between the two steps."""
    return f"{file_name(start_offset)}.home"


def _in_transit(file_system: FileSystem, directory: Path) -> list[str]:
    return [entry.name for entry in file_system.list(directory) if _IN_TRANSIT.fullmatch(entry.name)]


def refuse_interrupted(file_system: FileSystem, directory: Path) -> None:
    """Raise RepairRefused if segments are in transit."""
    for name in _in_transit(file_system, directory):
        raise RepairRefused(
            f"{directory / name} was left by a repair that was interrupted: run it again with apply"
        )


def finish_renames(file_system: FileSystem, directory: Path) -> None:
    """The second step: give segments in transit their names, durably."""
    names = _in_transit(file_system, directory)
    for name in names:
        file_system.rename(directory / name, directory / name.removesuffix(".home"))
    if names:
        file_system.sync_directory(directory)
