"""The check of RocketMQ's index files against the log.

Each entry must be a key (or the tags, from brokers 5.5.0 on) of the record that it points to, and each key of
a record in the files' range must have an entry. A file's chains are checked against its entries: the slots
are what inserting them one by one leaves. Read with `read_at`; nothing is changed.

After a crash only what was durable counts: the entries up to the index point. Behind it the medium may hold
anything (for example a header whose entries are zeros), and the next opening truncates to the point.
Threads: `digest` any; the rest one.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mqstore.index.index_file.index_file import IndexFileSize
from mqstore.index.index_file.index_file_format import (
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOT_BYTES,
    decode_header,
    entry_position,
)
from mqstore.index.index_file.index_point_format import IndexPoint
from mqstore.store.files.file_names import created_file_count
from mqstore.store.files.file_system import FileSystem
from mqstore.store.finding import Finding
from mqstore.store.log.log_offsets import END_OF_LOG
from mqstore.verify.expected_keys import java_key_rows
from mqstore.verify.log_scan import Piece

__all__ = ["IndexFileCheck"]

_NAME_DIGITS = 17
_HASH, _PHYSICAL_OFFSET = 0, 2
# A file has 420 MB by default: this many of its entries are read at a time.
_PIECE_ENTRIES = 1 << 18
_DTYPE = np.dtype(
    [("key_hash", ">i4"), ("physical_offset", ">i8"), ("time_difference_s", ">i4"), ("previous", ">i4")]
)


class IndexFileCheck:
    """All index files of a store. point: they are known to be complete up to it; None if unknown."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: Path,
        size: IndexFileSize,
        *,
        point: IndexPoint | None,
        after_crash: bool,
    ) -> None:
        self._dispatched_offset = point.dispatched_offset if point is not None else 0
        self._after_crash = after_crash
        durable_point = point if after_crash else None
        self._wrong: list[Finding] = []
        self._files: list[_File] = []
        entries = [
            entry
            for entry in file_system.list(directory)
            if len(entry.name) == _NAME_DIGITS and entry.name.isdigit() and not entry.is_directory
        ]
        for entry in entries[: created_file_count(entries)]:
            path = directory / entry.name
            if durable_point is not None and int(entry.name) > durable_point.file_name:
                continue
            if entry.size_bytes == size.file_bytes:
                self._files.append(_File(file_system, path, size, durable_point))
            else:
                expected, found = f"{size.file_bytes} bytes", f"{entry.size_bytes}"
                self._wrong.append(Finding("index-file-length", path, entry.size_bytes, expected, found))

    def digest(self, piece: Piece) -> list[Finding]:
        """Entries in the range of a piece that are no keys of it, and keys of it that have no entry."""
        files = [file for file in self._files if file.count]
        if not files:
            return []
        wanted = _codes(java_key_rows(piece, with_tags=False), piece.base_offset)
        allowed = _codes(java_key_rows(piece, with_tags=True), piece.base_offset)
        findings: list[Finding] = []
        stored = []
        for file in files:
            first, entries = file.entries_between(piece.base_offset, piece.end_offset)
            codes = _pack(entries["key_hash"], entries["physical_offset"], piece.base_offset)
            stored.append(codes)
            strange = np.flatnonzero(~np.isin(codes, allowed))
            if len(strange):
                offset = int(entries["physical_offset"][strange[0]])
                position = file.position_of(first + int(strange[0]))
                expected = f"a key of the record at {offset}"
                found = f"hash {int(entries['key_hash'][strange[0]])}"
                findings.append(
                    self._finding("index-entry", file, position, offset, expected, found, len(strange))
                )
        missing = wanted[~np.isin(wanted, np.concatenate(stored))]
        offsets = (missing >> 31) + piece.base_offset
        offsets = offsets[(offsets >= files[0].begin_offset) & (offsets <= files[-1].end_offset)]
        if len(offsets):
            expected = f"an entry of the record at {int(offsets[0])}"
            last = files[-1]
            findings.append(
                self._finding("index-entry-missing", last, 0, int(offsets[0]), expected, "none", len(offsets))
            )
        return findings

    def _finding(
        self,
        kind: str,
        file: "_File",
        position: int,
        offset: int,
        expected: str,
        found: str,
        times: int,
    ) -> Finding:
        is_normal = self._after_crash and offset >= self._dispatched_offset
        return Finding(kind, file.path, position, expected, found, times, not is_normal)

    def finish(self, end_offset: int) -> list[Finding]:
        """Files of a wrong length, chains that are broken, entries behind the end of the log."""
        findings = list(self._wrong)
        for file in self._files:
            findings += file.find_broken_chains(is_damage=not self._after_crash)
            first, entries = file.entries_between(end_offset, END_OF_LOG)
            if len(entries):
                expected = f"no entry behind the log's end {end_offset}"
                found = f"one of the record at {int(entries['physical_offset'][0])}"
                position = file.position_of(first)
                findings.append(
                    self._finding("index-ahead", file, position, end_offset, expected, found, len(entries))
                )
        return findings

    def __repr__(self) -> str:
        return f"IndexFileCheck(files={len(self._files)})"


class _File:
    """One index file on disk. `count`: entries; they are numbered from 1."""

    def __init__(
        self, file_system: FileSystem, path: Path, size: IndexFileSize, point: IndexPoint | None
    ) -> None:
        """`point`: what was durable before a crash; in its file, entries behind it are ignored."""
        self.path = path
        self._file_system = file_system
        self._size = size
        header = decode_header(file_system.read_at(path, 0, HEADER_BYTES))
        # Whether slots and links may point to entries that are ignored.
        self._is_cut = point is not None and int(path.name) == point.file_name
        if point is not None and self._is_cut:
            header = point.header
        self.count = max(0, min(header.index_count, size.entry_count) - 1)
        self.begin_offset, self.end_offset = header.begin_physical_offset, header.end_physical_offset

    def position_of(self, number: int) -> int:
        """Byte of an entry in the file."""
        return entry_position(number, self._size.slot_count)

    def _read(self, first: int, count: int) -> npt.NDArray[np.void]:
        data = self._file_system.read_at(self.path, self.position_of(first), count * ENTRY_BYTES)
        return np.frombuffer(data, _DTYPE)

    def entries_between(self, least_offset: int, below_offset: int) -> tuple[int, npt.NDArray[np.void]]:
        """(number of the first, entries) of the records in a range of the log."""
        first, stop = self._first_at(least_offset), self._first_at(below_offset)
        return first, self._read(first, max(0, stop - first))

    def _first_at(self, physical_offset: int) -> int:
        """Number of the first entry of a record at or above an offset, by bisection."""
        low, high = 1, self.count + 1
        while low < high:
            middle = (low + high) // 2
            if int(self._read(middle, 1)["physical_offset"][0]) < physical_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def find_broken_chains(self, *, is_damage: bool) -> Iterator[Finding]:
        """Slots and links that differ from what inserting the entries one by one leaves."""
        if self._is_cut:
            return
        heads = np.zeros(self._size.slot_count, np.int32)
        wrong_links, first_wrong = 0, None
        for first in range(1, self.count + 1, _PIECE_ENTRIES):
            entries = self._read(first, min(_PIECE_ENTRIES, self.count + 1 - first))
            previous = _insert(heads, entries["key_hash"], first)
            wrong = np.flatnonzero(previous != entries["previous"])
            if len(wrong) and first_wrong is None:
                at = int(wrong[0])
                first_wrong = (first + at, int(previous[at]), int(entries["previous"][at]))
            wrong_links += len(wrong)
        if first_wrong is not None:
            number, link, found = first_wrong
            expected, position = f"previous entry {link}", self.position_of(number)
            yield Finding("index-link", self.path, position, expected, f"{found}", wrong_links, is_damage)
        yield from self._find_wrong_slots(heads, is_damage=is_damage)

    def _find_wrong_slots(self, heads: npt.NDArray[np.int32], *, is_damage: bool) -> Iterator[Finding]:
        data = self._file_system.read_at(self.path, HEADER_BYTES, self._size.slot_count * SLOT_BYTES)
        on_disk = np.frombuffer(data, ">i4")
        wrong = np.flatnonzero(heads != np.where(on_disk > self.count, 0, on_disk))
        if len(wrong):
            slot = int(wrong[0])
            position = HEADER_BYTES + slot * SLOT_BYTES
            expected, found = f"entry {heads[slot]}", f"{on_disk[slot]}"
            yield Finding("index-slot", self.path, position, expected, found, len(wrong), is_damage)


def _insert(heads: npt.NDArray[np.int32], hashes: npt.NDArray[np.int32], first: int) -> npt.NDArray[np.int32]:
    """Insert entries, numbered from `first` on, into chains that begin at `heads`; returns their links."""
    slots = hashes.astype(np.int64) % len(heads)
    numbers = np.arange(first, first + len(slots), dtype=np.int32)
    previous = heads[slots]
    order = np.argsort(slots, kind="stable")
    follows = np.flatnonzero(slots[order][1:] == slots[order][:-1])
    previous[order[follows + 1]] = numbers[order[follows]]
    # If several entries share a slot, the last one stays.
    heads[slots] = numbers
    return previous


def _codes(rows: npt.NDArray[np.int64], base_offset: int) -> npt.NDArray[np.int64]:
    return _pack(rows[:, _HASH], rows[:, _PHYSICAL_OFFSET], base_offset)


def _pack(
    hashes: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], base_offset: int
) -> npt.NDArray[np.int64]:
    """Offset and hash as one number."""
    return (offsets.astype(np.int64) - base_offset) << 31 | hashes.astype(np.int64)
