"""The check of the log itself: lengths and names of its files, whole records, body CRCs.

The scan (log_scan.py) finds where whole records are; this module turns its results into findings.
Nothing is changed. Threads: `digest` any; the rest one.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from mqstore.store.files.file_names import created_file_count, place_in_row, row_entries
from mqstore.store.files.file_system import FileSystem
from mqstore.store.finding import Finding
from mqstore.store.log.raw_segments import SegmentFile
from mqstore.store.record.record_format import BODY_CRC_POSITION
from mqstore.verify.log_outline import LogScan
from mqstore.verify.log_scan import DamagedRange, Piece, ScannedSegment

__all__ = ["LogCheck", "LogDigest"]

T = TypeVar("T")


class LogDigest(NamedTuple):
    """What one piece of whole records holds. greatest_timestamp: store time, epoch ms."""

    records: int
    greatest_timestamp: int
    findings: list[Finding]


class LogCheck:
    """Checks the segments of one log."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: Path,
        segments: Sequence[SegmentFile],
        segment_bytes: int,
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._segments = segments
        self._segment_bytes = segment_bytes

    def find_wrong_files(self) -> Iterator[Finding]:
        """Segments of a wrong length or name, and files that are no segments."""
        entries = row_entries(self._file_system, self._directory)
        created_count = created_file_count(entries)
        listed = {segment.path for segment in self._segments}
        for index, entry in enumerate(entries):
            path = self._directory / entry.name
            if entry.size_bytes and path not in listed:
                is_twin = int(entry.name) % self._segment_bytes == 0
                found = (
                    "another copy of one" if is_twin else f"no multiple of {self._segment_bytes} in its name"
                )
                yield Finding("segment-extra", path, 0, "a segment of its own", found)
            elif entry.size_bytes != self._segment_bytes:
                is_new = index >= created_count
                expected, found = f"{self._segment_bytes} bytes", f"{entry.size_bytes}"
                yield Finding("segment-length", path, entry.size_bytes, expected, found, is_damage=not is_new)
        for segment in self._segments:
            if segment.is_misnamed:
                expected, found = f"physical offset {int(segment.path.name)}", f"{segment.start_offset}"
                yield Finding("segment-name", segment.path, 28, expected, found)

    def digest(self, piece: Piece) -> LogDigest:
        """Count and time of the records of a piece, and the first body whose CRC is wrong."""
        from mqstore.verify import verify_kernels

        records, greatest, wrong_at, wrong_crc = verify_kernels.survey(piece.data)
        findings: list[Finding] = []
        if wrong_at >= 0:
            path, position = self._place_of(piece.base_offset + int(wrong_at))
            crc_at = wrong_at + BODY_CRC_POSITION
            stored = int.from_bytes(piece.data[crc_at : crc_at + 4].tobytes(), "big")
            findings.append(Finding("body-crc", path, position, f"body CRC {wrong_crc}", f"{stored}"))
        return LogDigest(int(records), int(greatest), findings)

    def find_unreadable(self, scanned: ScannedSegment[T]) -> Iterator[Finding]:
        """Sectors of a segment that gave an error."""
        for position in scanned.unreadable:
            path = scanned.segment.path
            yield Finding("unreadable", path, position, "a sector that can be read", "an error")

    def finish(self, scan: LogScan) -> Iterator[Finding]:
        """Damaged ranges, and the torn tail."""
        for damage in scan.damages:
            yield self._damaged(damage)
        if scan.torn_offset >= 0:
            path, position = self._place_of(scan.torn_offset)
            yield Finding("torn-tail", path, position, "zeros", "pieces of records", is_damage=False)

    def _damaged(self, damage: DamagedRange) -> Finding:
        path, position = self._place_of(damage.start_offset)
        found = f"{damage.found}; {damage.length_bytes:,} bytes are damaged"
        return Finding("record", path, position, damage.expected, found)

    def _place_of(self, offset: int) -> tuple[Path, int]:
        """File and position of a physical offset; the file may be missing, or have another name."""
        path, position = place_in_row(self._directory, offset, self._segment_bytes)
        start_offset = offset - position
        return next(
            (each.path for each in self._segments if each.start_offset == start_offset), path
        ), position

    def __repr__(self) -> str:
        return f"LogCheck({str(self._directory)!r}, segments={len(self._segments)})"
