"""What a repair in place leaves when it is killed while it renames segments: files `<start offset>.home`.

Segments whose names were swapped are renamed in two steps: first all of them to `<where it belongs>.home`,
then each to its name. Until the second step is finished, the log cannot be judged. A repair that was killed
in the first step has left segments that still have another one's name: they are renamed first.
"""

import re
from pathlib import Path

from mqstore.store.errors import RepairRefused
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_system import FileSystem
from mqstore.store.log.raw_segments import home_of

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
    """Give segments in transit their names, durably, after what the first step had left to do.

    Raises RepairRefused, and renames nothing, if a segment with such a name belongs there by its records:
    then the file in transit is no repair's.
    """
    names = _in_transit(file_system, directory)
    late = _late_renames(file_system, directory, names)
    for name, name_of_home in late.items():
        file_system.rename(directory / name, directory / name_of_home)
    if late:
        file_system.sync_directory(directory)
    names += late.values()
    for name in names:
        file_system.rename(directory / name, directory / name.removesuffix(".home"))
    if names:
        file_system.sync_directory(directory)


def _late_renames(file_system: FileSystem, directory: Path, in_transit: list[str]) -> dict[str, str]:
    """What the first step had left to do: segments that still have another one's name."""
    there = {entry.name for entry in file_system.list(directory)}
    late: dict[str, str] = {}
    awaited = [name.removesuffix(".home") for name in in_transit]
    while awaited:
        name = awaited.pop()
        if name not in there or name in late:
            continue
        home = home_of(file_system, directory / name)
        taken = {*in_transit, *late.values()}
        if home is None or home == int(name) or name_in_transit(home) in taken:
            raise RepairRefused(
                f"{directory / name}.home would replace {directory / name}, which no interrupted repair "
                f"has left: move one of the two out of {directory}, and run it again"
            )
        late[name] = name_in_transit(home)
        awaited.append(file_name(home))
    return late
