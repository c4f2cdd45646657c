"""A block log: everything that a block device was told to do, in the order in which it was done.

The format is that of Linux's dm-log-writes, which QEMU's driver blklogwrites writes; little-endian words:

    sector 0     magic (8)   version (8)   entries (8)   bytes of a sector (4)
    then, for each entry, one sector, and behind it the data of a write
                 sector (8)  sectors (8)   flags (8)     bytes of a mark (8)

What a power cut leaves is made from it by `replay`: all that a FLUSH has covered, or that was written with
FUA, is on the medium. The writes since then are pending, and a `Loss` says what became of each of them.

It starts nothing and knows no file system; recorded_disk.py makes such logs.
"""

import os
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["LOSSES", "BlockLog", "BlockLogIllegal", "Entry", "Loss", "entry_count"]

_SUPER = struct.Struct("<QQQI")
_HEADER = struct.Struct("<QQQQ")
_MAGIC, _VERSION = 0x6A736677736872, 1
_FLUSH, _FUA, _DISCARD, _MARK = 1, 2, 4, 8

LOSSES = ("kept", "dropped", "some", "halved", "torn", "last torn")
"""What may become of pending writes: all are kept, or none; each is kept or not; of each a half may be
kept; each sector for itself; all are kept but the last, of which each sector is kept or not."""


class BlockLogIllegal(Exception):
    """The file is no whole block log."""


class Entry(NamedTuple):
    """One request. position: of its data in the log file."""

    sector: int
    sectors: int
    flags: int
    position: int

    @property
    def is_flush(self) -> bool:
        """Whether all that was done before is on the medium."""
        return bool(self.flags & _FLUSH)

    @property
    def is_discard(self) -> bool:
        """Whether it takes bytes away; it has no data then."""
        return bool(self.flags & _DISCARD)

    @property
    def is_durable(self) -> bool:
        """Whether it is on the medium when it is done, without a FLUSH."""
        return bool(self.flags & _FUA)


def entry_count(log: int) -> int:
    """The number of entries up to the last FLUSH, of a log that is being written (a file descriptor)."""
    start = os.pread(log, _SUPER.size, 0)
    return 0 if len(start) < _SUPER.size else int(_SUPER.unpack(start)[2])


class Loss:
    """What becomes of pending writes, chosen by a seed.

    whole: (sector, sectors) of places that are written whole or not at all, whatever else is torn.
    """

    def __init__(self, seed: str, *, whole: Sequence[tuple[int, int]] = ()) -> None:
        self._choice = random.Random(seed)
        self._whole = whole
        self.kind = self._choice.choice(LOSSES)
        self._kept_share = self._choice.choice((0.1, 0.5, 0.9))

    def kept(self, entry: Entry, *, is_last: bool) -> list[tuple[int, int]]:
        """The runs (first sector from the entry's start, sectors) of a pending entry that are there."""
        kind = self.kind
        if entry.is_discard and kind not in ("kept", "dropped"):
            kind = "some"
        if kind == "last torn":
            kind = "torn" if is_last else "kept"
        if kind == "halved":
            return self._half(entry.sectors)
        if kind == "torn":
            return self._torn(entry)
        is_kept = kind == "kept" or (kind == "some" and self._choice.random() < self._kept_share)
        return [(0, entry.sectors)] if is_kept else []

    def _half(self, sectors: int) -> list[tuple[int, int]]:
        half = sectors // 2
        return self._choice.choice(([], [(0, half)], [(half, sectors - half)], [(0, sectors)]))

    def _torn(self, entry: Entry) -> list[tuple[int, int]]:
        decided: dict[int, bool] = {}
        runs: list[tuple[int, int]] = []
        for at in range(entry.sectors):
            unit = self._unit_of(entry.sector + at)
            if unit not in decided:
                decided[unit] = self._choice.random() < self._kept_share
            if not decided[unit]:
                continue
            if runs and sum(runs[-1]) == at:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((at, 1))
        return runs

    def _unit_of(self, sector: int) -> int:
        """The first sector of what is written together with this one."""
        for first, sectors in self._whole:
            if first <= sector < first + sectors:
                return first
        return sector


class BlockLog:
    """A log that is no longer written."""

    def __init__(self, path: Path) -> None:
        """Raises BlockLogIllegal."""
        self.path = path
        self._file = path.open("rb")
        try:
            self.entries = self._read_entries()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "BlockLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _read_entries(self) -> list[Entry]:
        magic, version, count, self._sector_bytes = self._read(_SUPER, 0)
        if (magic, version) != (_MAGIC, _VERSION) or self._sector_bytes < 512:
            raise BlockLogIllegal(f"{self.path} begins with {magic:#x}, version {version}")
        entries, position = [], self._sector_bytes
        for number in range(count):
            sector, sectors, flags, mark_bytes = self._read(_HEADER, position)
            if flags > _FLUSH | _FUA | _DISCARD | _MARK or mark_bytes or sector + sectors > 1 << 40:
                raise BlockLogIllegal(f"{self.path}: entry {number} at byte {position} has flags {flags:#x}")
            position += self._sector_bytes
            entries.append(Entry(sector, sectors, flags, position))
            if not flags & _DISCARD:
                position += sectors * self._sector_bytes
        return entries

    def _read(self, words: struct.Struct, position: int) -> tuple[int, ...]:
        data = os.pread(self._file.fileno(), words.size, position)
        if len(data) < words.size:
            raise BlockLogIllegal(f"{self.path} ends at byte {position + len(data)}")
        return words.unpack(data)

    def replay(self, image: Path, cut: int, loss: Loss | None = None) -> int:
        """Do the first `cut` requests on `image`; returns how many of them were pending.

        The file has its length already, and holds what the device held before the first request. Without a
        loss all that is pending is kept.
        """
        covered = max((n + 1 for n, entry in enumerate(self.entries[:cut]) if entry.is_flush), default=0)
        pending = [entry for entry in self.entries[covered:cut] if entry.sectors and not entry.is_durable]
        with image.open("r+b") as file:
            for number, entry in enumerate(self.entries[:cut]):
                runs = [(0, entry.sectors)]
                if number >= covered and not entry.is_durable and loss is not None:
                    runs = loss.kept(entry, is_last=bool(pending) and entry == pending[-1])
                for first, sectors in runs:
                    self._do(entry, first, sectors, file.fileno())
        return len(pending)

    def _do(self, entry: Entry, first: int, sectors: int, image: int) -> None:
        if not sectors:
            return
        size = sectors * self._sector_bytes
        if entry.is_discard:
            data = bytes(size)
        else:
            data = os.pread(self._file.fileno(), size, entry.position + first * self._sector_bytes)
        if os.pwrite(image, data, (entry.sector + first) * self._sector_bytes) != size:
            raise BlockLogIllegal(f"{self.path}: the data of {entry} are not whole")
