"""The medium: what a disk may hold after the power is cut, given the steps that were done to it.

It follows the steps of a SimulatedDisk one by one and keeps apart what is durable and what is pending:

    bytes       each write, cut at 512-byte sectors, until the file's sync. A sector holds its durable bytes
                plus any number of the pending writes to it, in their order, the last of them possibly only
                in part (the page was written back while it was being filled). Sectors are independent.
    whole file  `replace`: the old content, none, some first sectors of the new, the new one with its first
                sector zero (the length went first), or all of it, until the file's sync.
    length      of a created file: none or all, until the file's sync; its directory's does not help (btrfs).
                Lengths come in the order in which they were set, as in a journal, so that several files at
                the end of a row may be empty.
    names       each creation, rename and deletion may be there or not, in any combination, until the
                directory's sync; also directories, with all in them, unless they were made durably.

Everything pending is a unit with a number of options, 0 for "not there" and the highest for "all there".
A state is one choice for each unit; `choose` makes the choices from a seed, all of them in turn where
they are few.
"""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from support.disks.simulated_disk import Image, SimulatedDisk, Step

__all__ = ["Medium", "choose"]

_SECTOR_BYTES = 512


class _Piece(NamedTuple):
    """The part of a write that lies in one sector. `time`: number of the step."""

    time: int
    position: int
    data: bytes

    def torn(self) -> bytes:
        """Its first half, in words of 8 bytes."""
        return self.data[: len(self.data) // 16 * 8]


class _File:
    """One inode."""

    __slots__ = ("durable", "length_time", "replaced", "sectors")

    def __init__(self, durable: bytes | bytearray) -> None:
        self.durable = bytearray(durable)
        # When the length was set that is not durable yet; 0: it is.
        self.length_time = 0
        self.sectors: dict[int, list[_Piece]] = {}
        self.replaced: list[tuple[int, bytes]] = []

    def write(self, time: int, position: int, data: bytes) -> None:
        end = position + len(data)
        for sector in range(position // _SECTOR_BYTES, -(-end // _SECTOR_BYTES)):
            start = max(position, sector * _SECTOR_BYTES)
            stop = min(end, (sector + 1) * _SECTOR_BYTES)
            piece = _Piece(time, start, data[start - position : stop - position])
            self.sectors.setdefault(sector, []).append(piece)

    def settle(self) -> None:
        """All that is pending has become durable."""
        for pieces in self.sectors.values():
            for _, position, data in pieces:
                self.durable[position : position + len(data)] = data
        self.sectors = {}
        if self.replaced:
            self.durable = bytearray(self.replaced[-1][1])
            self.replaced = []
        self.length_time = 0

    def forget(self) -> None:
        """A sync failed: the pages count as clean, and were not written."""
        self.sectors = {}
        self.replaced = []

    def replaced_options(self) -> list[bytes]:
        """What may be there in place of the durable content, the newest and whole one last."""
        options: list[bytes] = []
        for _, data in self.replaced:
            options.append(b"")
            options += [data[:cut] for cut in range(_SECTOR_BYTES, len(data), _SECTOR_BYTES)]
            options += [bytes(min(len(data), _SECTOR_BYTES)) + data[_SECTOR_BYTES:], data]
        return options


class _NameChange(NamedTuple):
    """`name` comes to mean `inode` (None: nothing); with `source`, that one ceases to mean it."""

    time: int
    name: str
    inode: int | None
    source: str | None = None

    def apply(self, names: dict[str, int]) -> None:
        if self.source is not None and names.get(self.source) == self.inode:
            del names[self.source]
        if self.inode is not None:
            names[self.name] = self.inode
        else:
            names.pop(self.name, None)


class Unit(NamedTuple):
    """Something pending: `options` ways for it to be there; `times` of its steps, one for each change."""

    kind: str
    key: tuple[object, ...]
    options: int
    times: tuple[int, ...]


class Medium:
    """The medium under `disk`, as it is before the first of its steps."""

    def __init__(self, disk: SimulatedDisk) -> None:
        image = disk.image()
        numbers = disk.inode_numbers()
        self.time = 0
        self._files = {numbers[path]: _File(content) for path, content in image.files.items()}
        self._names: dict[Path, dict[str, int]] = {path: {} for path in image.directories}
        for path, number in numbers.items():
            self._names[path.parent][path.name] = number
        self._live_names = {directory: dict(names) for directory, names in self._names.items()}
        self._changes: dict[Path, list[_NameChange]] = {}
        # Directories whose making or removal is not durable, and since when.
        self._made_directories: dict[Path, int] = {}
        self._removed_directories: dict[Path, int] = {}

    def apply(self, step: Step) -> None:
        """Follow the disk by one step."""
        self.time += 1
        getattr(self, f"_on_{step.kind}")(step)

    def _on_create(self, step: Step) -> None:
        file = self._files[step.inode] = _File(bytes(step.size))
        file.length_time = self.time
        self._change(step.path, _NameChange(self.time, step.path.name, step.inode))

    def _on_write(self, step: Step) -> None:
        self._files[step.inode].write(self.time, step.position, step.data)

    def _on_replace(self, step: Step) -> None:
        if step.inode not in self._files:
            self._files[step.inode] = _File(b"")
            self._change(step.path, _NameChange(self.time, step.path.name, step.inode))
        self._files[step.inode].replaced.append((self.time, step.data))

    def _on_sync(self, step: Step) -> None:
        self._files[step.inode].settle()

    def _on_lost_sync(self, step: Step) -> None:
        self._files[step.inode].forget()

    def _on_rename(self, step: Step) -> None:
        assert step.target is not None
        self._change(step.path, _NameChange(self.time, step.target.name, step.inode, source=step.path.name))

    def _on_delete(self, step: Step) -> None:
        self._change(step.path, _NameChange(self.time, step.path.name, None))

    def _on_make_directory(self, step: Step) -> None:
        if step.path in self._removed_directories:
            # It is empty, as the one before was: whether that one went or not makes no difference now.
            del self._removed_directories[step.path]
        elif not step.size:
            self._made_directories[step.path] = self.time
        self._names.setdefault(step.path, {})
        self._live_names.setdefault(step.path, {})

    def _on_delete_directory(self, step: Step) -> None:
        self._removed_directories[step.path] = self.time

    def _on_sync_directory(self, step: Step) -> None:
        names = self._names[step.path] = dict(self._live_names[step.path])
        self._changes.pop(step.path, None)
        for made in [path for path in self._made_directories if path.parent == step.path]:
            del self._made_directories[made]
        for removed in [path for path in self._removed_directories if path.parent == step.path]:
            del self._removed_directories[removed], self._names[removed], self._live_names[removed]
        assert all(number in self._files for number in names.values())

    def _on_reserve(self, step: Step) -> None:
        return

    def _change(self, path: Path, change: _NameChange) -> None:
        change.apply(self._live_names[path.parent])
        self._changes.setdefault(path.parent, []).append(change)

    # -- states ---------------------------------------------------------------------------------------

    def units(self) -> list[Unit]:
        """All that is pending, in a fixed order."""
        units = []
        for number, file in self._files.items():
            if file.length_time:
                units.append(Unit("length", (number,), 2, (file.length_time,)))
            for sector, pieces in file.sectors.items():
                times = tuple(piece.time for piece in pieces)
                units.append(Unit("sector", (number, sector), 2 * len(pieces) + 1, times))
            if file.replaced:
                options = len(file.replaced_options()) + 1
                units.append(Unit("content", (number,), options, (file.replaced[-1][0],)))
        for directory, changes in self._changes.items():
            units += [Unit("name", (directory, at), 2, (change.time,)) for at, change in enumerate(changes)]
        units += [Unit("made", (path,), 2, (time,)) for path, time in self._made_directories.items()]
        units += [Unit("gone", (path,), 2, (time,)) for path, time in self._removed_directories.items()]
        return units

    def image(self, units: Sequence[Unit], choices: Sequence[int]) -> Image:
        """The disk after a power cut that left of each unit what its choice says."""
        chosen = {(unit.kind, *unit.key): choice for unit, choice in zip(units, choices, strict=True)}
        empty = (unit.times[0] for unit in units if unit.kind == "length" and not chosen["length", *unit.key])
        first_empty = min(empty, default=math.inf)
        files: dict[Path, bytes | bytearray] = {}
        directories = set(self._names)
        missing = {path for path in self._made_directories if not chosen["made", path]}
        for directory, durable_names in self._names.items():
            if missing and not missing.isdisjoint((directory, *directory.parents)):
                directories.discard(directory)
                continue
            names = durable_names
            changes = self._changes.get(directory, ())
            if changes:
                names = dict(durable_names)
                for at, change in enumerate(changes):
                    if chosen["name", directory, at]:
                        change.apply(names)
            for name, number in names.items():
                came_to_be = self._files[number].length_time < first_empty
                files[directory / name] = self._content(number, chosen) if came_to_be else b""
            if chosen.get(("gone", directory)) and not names:
                directories.discard(directory)
        return Image(files, directories)

    def _content(self, number: int, chosen: dict[tuple[object, ...], int]) -> bytes | bytearray:
        file = self._files[number]
        if file.replaced and (choice := chosen["content", number]):
            return file.replaced_options()[choice - 1]
        if not file.sectors:
            return file.durable
        content = bytearray(file.durable)
        for sector, pieces in file.sectors.items():
            choice = chosen["sector", number, sector]
            # 0: none. 2k: the first k. 2k - 1: the first k, the last of them torn.
            for index in range((choice + 1) // 2):
                piece = pieces[index]
                data = piece.torn() if choice == 2 * index + 1 else piece.data
                content[piece.position : piece.position + len(data)] = data
        return content


def choose(units: Sequence[Unit], seed: int, budget: int, salt: str) -> tuple[int, ...] | None:
    """The choices of state number `seed` out of `budget`; None when there are fewer states than that.

    Where all combinations fit the budget they come one after the other. Else the first are the clear
    cases (nothing, everything, names without bytes, bytes without names), then those that kept an early
    part of what was done, and those where each unit went its own way.
    """
    combinations = math.prod(unit.options for unit in units)
    if combinations <= budget:
        return _combination(units, seed) if seed < combinations else None
    if seed < 4:
        keep = (lambda name: False, lambda name: True, lambda name: name, lambda name: not name)[seed]
        return tuple(
            unit.options - 1 if keep(unit.kind in ("name", "made", "gone", "length")) else 0 for unit in units
        )
    chance = random.Random(f"{salt}/{seed}")
    if seed % 4 == 0:
        until = chance.choice([time for unit in units for time in unit.times])
        return tuple(_up_to(unit, until) for unit in units)
    bias = (0.0, 0.0, 0.85, 0.85)[seed % 4]
    extreme = seed % 4 == 2
    return tuple(
        (unit.options - 1 if extreme else 0) if chance.random() < bias else chance.randrange(unit.options)
        for unit in units
    )


def _combination(units: Sequence[Unit], number: int) -> tuple[int, ...]:
    choices = []
    for unit in units:
        number, choice = divmod(number, unit.options)
        choices.append(choice)
    return tuple(choices)


def _up_to(unit: Unit, until: int) -> int:
    """The choice that holds what was done until then, in order."""
    done = sum(time <= until for time in unit.times)
    return 2 * done if unit.kind == "sector" else (unit.options - 1 if done == len(unit.times) else 0)
