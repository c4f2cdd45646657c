"""The segment reader: the records of a range of one segment, each checked, piece by piece.

Positional reads of 4 MiB (of a file or of an archive, segment_bytes.py) into one buffer, which a
kernel cuts into whole records; a record that does not fit makes the buffer grow. No mmap: it would be no
faster here, and a positional read of a file that vanishes or shrinks is an error instead of a signal.

A range begins and ends where the plan has found records (log_end.py, range_plan.py), so nothing in it is
unfinished: what is no record there is damage, and so is a record whose CRC is wrong (`check_crc`). Damage is
CorruptRecord with file, byte and what was expected; or, if the caller wants the rest, it is passed over up to
the next whole record, and told as `PassedOver`. A record that reaches beyond the end of its range shows that
the range ends inside of it: a body that was made to look like records misled the plan (ForgedBoundary).
Without `check_crc` lengths and physical offsets alone are verified.
Source of the rules: CommitLog#checkMessageAndReturnSize; layout: store/record/record_format.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.index.arrow import column_kernels
from mqstore.index.arrow.records import Records
from mqstore.store.errors import CorruptRecord, StoreError
from mqstore.store.record.host import IPV4_HOST_BYTES
from mqstore.store.record.record_format import (
    HEADER_BYTES,
    MAGIC_CODE_POSITION,
    MESSAGE_MAGIC_CODE,
    RecordIllegal,
    check_record,
    decode_header,
)
from mqstore.tools.spark.segments.open_segment import open_segment
from mqstore.tools.spark.segments.segment_bytes import SegmentBytes
from mqstore.tools.spark.segments.segment_files import (
    LARGEST_RECORD_BYTES,
    LONGEST_HEADER_BYTES,
    SegmentFile,
)

__all__ = ["CHUNK_BYTES", "HINT", "ForgedBoundary", "PassedOver", "SegmentScan", "opened", "read_range"]

CHUNK_BYTES = 4 * 1024 * 1024
_FIRST_SEARCH_BYTES = 64 * 1024
HINT = (
    "If its writer crashed, open the store once, which recovers it. To read what is whole with Spark, set "
    "option mode to PERMISSIVE, which tells of the rest, or failOnDataLoss to false."
)
"""What to do about damage."""


class ForgedBoundary(StoreError):
    """A body, or old bytes behind the last record of a segment, look like records and misled the plan."""

    def __init__(self, path: Path, position: int, size: int, boundary: int) -> None:
        super().__init__(
            f"{path}: the record of {size} bytes at byte {position} reaches beyond byte {boundary}, where "
            "another task begins to read: what is in it looks like records. Read each segment by one task: "
            "set option maxPartitionBytes to the size of a segment"
        )
        self.path = path
        self.position = position
        self.boundary = boundary


class PassedOver(NamedTuple):
    """Bytes of a segment that are no whole records. begin, end: physical offsets; -1 if no place is known."""

    path: str
    begin: int
    end: int
    reason: str

    def __str__(self) -> str:
        if self.begin < 0:
            return f"{self.path}: {self.reason}"
        size_bytes = self.end - self.begin
        return f"{self.path}: {size_bytes} bytes from physical offset {self.begin} on: {self.reason}"


@contextmanager
def opened(segment: SegmentFile, ahead: tuple[int, int] | None = None) -> Iterator[SegmentBytes]:
    """Its bytes. ahead: the positions that will be read. Raises SegmentMissing, ArchiveDamaged, OSError.

    A file that retention has deleted is read from the archive, if there is one.
    """
    source = open_segment(segment, ahead)
    try:
        yield source
    finally:
        source.close()


def read_range(
    segment: SegmentFile,
    begin: int,
    end: int,
    *,
    check_crc: bool = True,
    passes_over: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Records | PassedOver]:
    """The records between two physical offsets; a piece is valid until the next one is asked for.

    passes_over: tell of damage, and go on behind it. Raises CorruptRecord otherwise, SegmentMissing,
    ForgedBoundary.
    """
    ahead = (begin - segment.start_offset, min(end, segment.end_offset) - segment.start_offset)
    with opened(segment, ahead) as source:
        yield from SegmentScan(
            source, segment, begin, end, check_crc=check_crc, chunk_bytes=chunk_bytes
        ).pieces(passes_over=passes_over)


class SegmentScan:
    """A walk through one open segment. position: of the next record in the file; stop: of the range's end."""

    def __init__(
        self,
        source: SegmentBytes,
        segment: SegmentFile,
        begin: int,
        end: int,
        *,
        check_crc: bool = True,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._source = source
        self._segment = segment
        self._check_crc = check_crc
        self.position = begin - segment.start_offset
        self._stop = min(end, segment.end_offset) - segment.start_offset
        self._allocate(max(min(chunk_bytes, self._stop - self.position), 1))
        self._length = 0
        # Of the buffer's first byte in the file; and whether what the buffer has behind damage is still to be
        # looked at: to read it again for each damaged record would take hours for a log with many.
        self._buffer_at = 0
        self._is_behind_damage = False

    def pieces(self, *, passes_over: bool) -> Iterator[Records | PassedOver]:
        """The records up to the end of the range, or to a BLANK."""
        while self.position < self._stop:
            count, ending = self._lay_out()
            if count:
                yield self._step_over(count)
            elif ending == column_kernels.ENDING_BLANK and self._is_last_blank():
                return
            elif not self._grow_for(ending):
                damage = self._damage()
                if not passes_over:
                    raise damage
                yield self._pass_over(damage)

    def walk(self) -> bool:
        """Step over whole records as far as they go; whether a BLANK follows."""
        while self.position < self._stop:
            count, ending = self._lay_out()
            if count:
                self._step_over(count)
            elif ending == column_kernels.ENDING_BLANK and self._is_last_blank():
                return True
            elif not self._grow_for(ending):
                return False
        return False

    def find_record(self, stop: int | None = None) -> int | None:
        """Position of the first whole record from `position` on and before `stop`, if there is one."""
        at, stop = self.position, self._stop if stop is None else min(stop, self._stop)
        search_bytes = _FIRST_SEARCH_BYTES
        while at < stop:
            # Most of a segment that is written to is a hole. The first bytes of a record may be zeros in one.
            at = max(at, self._source.next_data(at) - MAGIC_CODE_POSITION)
            if at >= stop:
                break
            # Of the last record only the header must be there.
            wanted = min(search_bytes, stop - at + LONGEST_HEADER_BYTES, self._stop - at)
            buffer = np.empty(wanted, np.uint8)
            length = self._read(buffer, at)
            found = column_kernels.find_header(
                buffer, length, self._segment.start_offset + at, self._segment.size_bytes - at
            )
            if found < 0:
                if length < wanted:
                    # The file is shorter than it should be.
                    break
                # A header may lie across the border.
                at += max(length - column_kernels.MIN_RECORD_BYTES, 1)
                search_bytes = LARGEST_RECORD_BYTES
            elif at + found < stop and self._is_whole(at + found):
                return int(at + found)
            else:
                at += found + 1
        return None

    def _lay_out(self) -> tuple[int, int]:
        """Lay out the whole records from `position` on, as far as the buffer goes: (records, ending)."""
        if self._is_behind_damage and self.position < self._buffer_at + self._length:
            count, ending = self._lay_out_buffer()
            if count or ending != column_kernels.ENDING_MORE:
                return count, ending
        self._is_behind_damage = False
        self._buffer_at = self.position
        self._length = self._read(self._buffer, self.position)
        return self._lay_out_buffer()

    def _lay_out_buffer(self) -> tuple[int, int]:
        """As `_lay_out`, in what has been read."""
        within = self.position - self._buffer_at
        count, ending = column_kernels.walk(
            self._buffer[within:],
            self._length - within,
            self._segment.start_offset + self.position,
            self._stop - self.position,
            self._check_crc,
            self._layout,
        )
        return count, ending

    def _step_over(self, count: int) -> Records:
        records = Records(self._buffer[self.position - self._buffer_at :], self._layout[:, :count])
        self.position += int(
            records.layout[column_kernels.POSITION, count - 1]
            + records.layout[column_kernels.SIZE, count - 1]
        )
        return records

    def _read(self, buffer: npt.NDArray[np.uint8], position: int) -> int:
        """Fill `buffer` from `position`, as far as the range goes; returns the bytes read."""
        view = buffer.data[: max(self._stop - position, 0)]
        length = 0
        while length < len(view):
            count = self._source.read_into(view[length:], position + length)
            if count == 0:
                break
            length += count
        return length

    def _allocate(self, size_bytes: int) -> None:
        self._buffer = np.empty(size_bytes, np.uint8)
        self._layout = np.empty(
            (column_kernels.LAYOUT_FIELDS, size_bytes // column_kernels.MIN_RECORD_BYTES + 1), np.int32
        )

    def _grow_for(self, ending: int) -> bool:
        """Whether a record begins at `position` that is longer than the buffer; makes room for it."""
        if ending != column_kernels.ENDING_MORE or self._length < self._buffer.size:
            return False
        size = self._size_at(self.position)
        if size <= self._buffer.size:
            return False
        self._allocate(size)
        return True

    def _size_at(self, position: int) -> int:
        """The size of the record at `position`, which may reach beyond the range; 0 if lengths do not add up.

        Nothing is read but the lengths: a damaged one may claim a gigabyte.
        """
        try:
            header = decode_header(self._source.read(LONGEST_HEADER_BYTES, position))
        except RecordIllegal:
            return 0
        if header.physical_offset != self._segment.start_offset + position:
            return 0
        extra_bytes = len(header.born_host) + len(header.store_host) - 2 * IPV4_HOST_BYTES
        topic_at = HEADER_BYTES + extra_bytes + header.body_length
        if not 0 <= header.body_length <= header.total_size <= self._segment.size_bytes - position:
            return 0
        width = 1 if header.magic == MESSAGE_MAGIC_CODE else 2
        properties_at = topic_at + width + self._length_at(position + topic_at, width)
        size = properties_at + 2 + self._length_at(position + properties_at, 2)
        return size if size == header.total_size else 0

    def _length_at(self, position: int, width: int) -> int:
        """A length of one or two bytes."""
        return int.from_bytes(self._source.read(width, position), "big")

    def _is_whole(self, position: int) -> bool:
        """Whether the record at `position`, which may reach beyond the range, is whole."""
        return bool(self._size_at(position)) and self._illegal(position) is None

    def _illegal(self, position: int) -> RecordIllegal | None:
        """What is wrong with the record at `position`, whose lengths add up."""
        if self._check_crc:
            data = memoryview(self._source.read(self._size_at(position), position))
            try:
                check_record(data, self._segment.start_offset + position)
            except RecordIllegal as error:
                return error
        return None

    def _is_last_blank(self) -> bool:
        """Whether the BLANK at `position` fills the segment.

        Raises ForgedBoundary if the range ends in it.
        """
        size = int.from_bytes(self._source.read(4, self.position), "big")
        is_last = self.position + size == self._segment.size_bytes
        if is_last and self._stop < self._segment.size_bytes:
            raise ForgedBoundary(Path(self._segment.path), self.position, size, self._stop)
        return is_last

    # -- damage -----------------------------------------------------------------------------------------

    def _damage(self) -> CorruptRecord:
        """The error for the bytes at `position`. Raises ForgedBoundary if a whole record begins there."""
        path, physical_offset = Path(self._segment.path), self._segment.start_offset + self.position
        size = self._size_at(self.position)
        illegal = self._illegal(self.position) if size else None
        if size and illegal is None and self.position + size > self._stop:
            raise ForgedBoundary(path, self.position, size, self._stop)
        found = self._source.read(16, self.position)
        expected, seen = (
            f"a record with physical offset {physical_offset}",
            found.hex(" ") or "the end of the file",
        )
        if illegal is not None:
            expected, seen = f"{expected} and {illegal.expected}", illegal.found
        error = CorruptRecord(path, self.position, expected, seen)
        error.add_note(HINT)
        return error

    def _pass_over(self, damage: CorruptRecord) -> PassedOver:
        """Step over the damage at `position`, to the next whole record or the end of the range."""
        begin = self.position
        behind = self._behind_damaged(begin)
        if behind is None:
            self.position += 1
            behind = self.find_record()
        self.position = self._stop if behind is None else behind
        self._is_behind_damage = True
        start_offset = self._segment.start_offset
        reason = f"expected {damage.expected}, found {damage.found}"
        return PassedOver(self._segment.path, start_offset + begin, start_offset + self.position, reason)

    def _behind_damaged(self, position: int) -> int | None:
        """The end of the record at `position` if its lengths add up and a whole record follows it."""
        behind = position + self._size_at(position)
        if not position < behind <= self._stop:
            return None
        return behind if behind == self._stop or self._is_whole(behind) else None
