"""The segments of a log as they lie on disk, whatever their state: what verify and repair read.

A log that is opened for use refuses files of a wrong length, gaps, and bytes that are no records
(mapped_file_queue.py, recovery.py). Here all are listed, each at the offset that its records imply: two files
whose names were swapped are listed in each other's place.

Read with `read_at` and not mapped, so that a bad sector is an error and no SIGBUS. What cannot be read counts
as zeros, and is noted. Nothing is changed. Threads: any; a reader is of one thread.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.store.files.file_names import row_entries
from mqstore.store.files.file_system import FileSystem
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.record.record_format import HEADER_BYTES, RecordIllegal, decode_header

__all__ = ["SegmentFile", "SegmentReader", "home_of", "list_segments"]

_SECTOR_BYTES = 4096


class SegmentFile(NamedTuple):
    """One file of the log.

    start_offset: physical offset of its first byte, by its first record if that can be decoded, else by name.
    size_bytes: its length on disk.
    """

    path: Path
    start_offset: int
    size_bytes: int

    @property
    def is_misnamed(self) -> bool:
        """Whether its records belong elsewhere than its name says."""
        return int(self.path.name) != self.start_offset


def list_segments(file_system: FileSystem, directory: Path, segment_bytes: int) -> list[SegmentFile]:
    """The segments in the order of their offsets; files of length zero are left out.

    A file counts as another segment than its name says only if no file of that name holds that segment. One
    that lies at no multiple of `segment_bytes` is no segment: what it covers would overlap others.
    """
    named = {int(entry.name): entry for entry in row_entries(file_system, directory) if entry.size_bytes}
    homes = {
        start_offset: _home(file_system, directory / entry.name, segment_bytes)
        for start_offset, entry in named.items()
    }
    segments = []
    taken = {home for start_offset, home in homes.items() if home == start_offset}
    for start_offset, entry in named.items():
        home = homes[start_offset]
        if home is None or home in taken - {start_offset}:
            home = start_offset
        if home % segment_bytes:
            continue
        taken.add(home)
        segments.append(SegmentFile(directory / entry.name, home, entry.size_bytes))
    return _one_for_each_place(segments)


def _one_for_each_place(segments: list[SegmentFile]) -> list[SegmentFile]:
    """Sorted. If two claim one place, the file of that name keeps it; the other is left out."""
    by_place: dict[int, SegmentFile] = {}
    for segment in sorted(segments, key=lambda each: not each.is_misnamed, reverse=True):
        by_place.setdefault(segment.start_offset, segment)
    return [by_place[start_offset] for start_offset in sorted(by_place)]


def home_of(file_system: FileSystem, path: Path) -> int | None:
    """The start offset that a segment's first record implies; None if it cannot be decoded."""
    try:
        header = decode_header(file_system.read_at(path, 0, HEADER_BYTES + 24))
    except (RecordIllegal, OSError) as error:
        raise_foreign(error)
        return None
    return header.physical_offset if header.physical_offset >= 0 else None


def _home(file_system: FileSystem, path: Path, segment_bytes: int) -> int | None:
    """As `home_of`, if a segment can lie there."""
    home = home_of(file_system, path)
    return home if home is not None and home % segment_bytes == 0 else None


class SegmentReader:
    """Reads one segment in pieces. `unreadable`: positions of sectors that failed, and count as zeros."""

    def __init__(self, file_system: FileSystem, segment: SegmentFile) -> None:
        self.segment = segment
        self.unreadable: list[int] = []
        self._file_system = file_system

    def read(self, position: int, length_bytes: int) -> npt.NDArray[np.uint8]:
        """Up to so many bytes from `position` on, fewer where the file ends."""
        length_bytes = min(length_bytes, self.segment.size_bytes - position)
        try:
            return np.frombuffer(
                self._file_system.read_at(self.segment.path, position, length_bytes), np.uint8
            )
        except FileNotFoundError:
            raise
        except OSError as error:
            raise_foreign(error)
            return self._read_by_sectors(position, position + length_bytes)

    def _read_by_sectors(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        data = np.zeros(stop - start, np.uint8)
        for sector in range(start - start % _SECTOR_BYTES, stop, _SECTOR_BYTES):
            at, end = max(start, sector), min(sector + _SECTOR_BYTES, stop)
            try:
                part = self._file_system.read_at(self.segment.path, at, end - at)
                data[at - start : at - start + len(part)] = np.frombuffer(part, np.uint8)
            except OSError as error:
                raise_foreign(error)
                if sector not in self.unreadable:
                    self.unreadable.append(sector)
        return data

    def next_data(self, position: int) -> int:
        """Position of the first byte at or after `position` that is not zero; the file's size if none is."""
        region = self._file_system.map(self.segment.path, self.segment.size_bytes, read_only=True)
        while position < self.segment.size_bytes:
            # Asks the file system for holes; no page is touched.
            position = region.next_data(position)
            piece = self.read(position, 1 << 20)
            nonzero = np.flatnonzero(piece != 0)
            if len(nonzero):
                return position + int(nonzero[0])
            position += max(1, len(piece))
        return self.segment.size_bytes

    def __repr__(self) -> str:
        return f"SegmentReader({self.segment.path.name!r}, unreadable={len(self.unreadable)})"
