"""The segment: one file of the commit log, read from its beginning to where its records end.

Positional reads of 2 MiB into one buffer, which a kernel cuts into whole records; a record that does not
fit makes the buffer grow. No mmap: it would be no faster here, and a positional read of a file that
vanishes or shrinks is an error instead of a signal.

Where the records end, when there is none at the next position:

1. a BLANK record, or the end of the file: the segment is full;
2. zeros, in the last segment: the writer has come this far (it writes a record's first 8 bytes last);
3. other bytes, in the last segment: a torn tail; but damage when a whole record follows behind them;
4. zeros or other bytes, in a segment that is not the last: damage.

Before damage is reported the place is read again, since a writer may have filled it meanwhile. Damage is
CorruptRecord with file and position, never a silent end, unless the caller chose to read what is whole.
Lengths and physical offsets are verified here, checksums are not.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from mqstore.index.arrow import column_kernels
from mqstore.index.arrow.records import Records
from mqstore.store.errors import CorruptRecord
from mqstore.store.files.file_kind import open_regular
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.record.host import IPV4_HOST_BYTES
from mqstore.store.record.record_format import (
    HEADER_BYTES,
    IPV6_EXTRA_BYTES,
    MESSAGE_MAGIC_CODE,
    RecordIllegal,
    decode_header,
)
from mqstore.tools.spark.read.segment_plan import SegmentMissing, SegmentPartition

__all__ = ["read_segment"]

CHUNK_BYTES = 2 * 1024 * 1024
_LONGEST_HEADER_BYTES = HEADER_BYTES + 2 * IPV6_EXTRA_BYTES
LOOK_AHEAD_BYTES = 8 * 1024 * 1024  # more than RocketMQ's largest record: 4 MiB of body, 64 KiB of the rest


def read_segment(
    segment: SegmentPartition, *, fail_on_data_loss: bool, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Records]:
    """The records of `segment`, piece by piece. A piece is valid until the next one is asked for.

    Raises CorruptRecord and SegmentMissing; with `fail_on_data_loss` false, ends there instead.
    """
    path = Path(segment.path)
    try:
        descriptor = open_regular(path)
    except FileNotFoundError as error:
        raise_foreign(error)
        if fail_on_data_loss:
            end_offset = segment.start_offset + segment.size_bytes
            raise SegmentMissing(path, segment.start_offset, end_offset) from None
        return
    try:
        scan = _Scan(descriptor, segment, chunk_bytes)
        yield from scan.pieces()
        if scan.damaged and fail_on_data_loss:
            scan.refuse()
    finally:
        os.close(descriptor)


class _Scan:
    """A walk through one open segment: `position` is the beginning of the next record."""

    def __init__(self, file_descriptor: int, segment: SegmentPartition, chunk_bytes: int) -> None:
        self._file_descriptor = file_descriptor
        self._segment = segment
        self._allocate(chunk_bytes)
        self._length = 0
        self.position = 0
        self.damaged = False

    def pieces(self) -> Iterator[Records]:
        """The records up to where they end; then `damaged` says whether that is damage."""
        while self.position < self._segment.size_bytes:
            count, ending = self._lay_out()
            if count:
                yield self._step_over(count)
            if ending == column_kernels.ENDING_BLANK:
                return
            if not count and not self._grow_for(ending) and self._ends_here():
                return

    def refuse(self) -> NoReturn:
        """Raise the error for damage at `position`."""
        found = os.pread(self._file_descriptor, 16, self.position)
        error = CorruptRecord(
            Path(self._segment.path),
            self.position,
            expected=f"a record with physical offset {self._segment.start_offset + self.position}",
            found=found.hex(" ") or "the end of the file",
        )
        error.add_note(
            "If its writer crashed, open the store once, which recovers it. To read what is whole with "
            "Spark, set option failOnDataLoss to false."
        )
        raise error

    def _lay_out(self) -> tuple[int, int]:
        """Read the bytes at `position` and lay out the whole records in them: (records, ending)."""
        self._length = self._read(self._buffer, self.position)
        count, ending = column_kernels.walk(
            self._buffer,
            self._length,
            self._segment.start_offset + self.position,
            self._segment.size_bytes - self.position,
            self._layout,
        )
        return count, ending

    def _step_over(self, count: int) -> Records:
        records = Records(self._buffer, self._layout[:, :count])
        self.position += int(
            records.layout[column_kernels.POSITION, count - 1]
            + records.layout[column_kernels.SIZE, count - 1]
        )
        return records

    def _read(self, buffer: npt.NDArray[np.uint8], position: int) -> int:
        """Fill `buffer` from `position`, as far as the segment goes; returns the bytes read."""
        view = buffer.data[: self._segment.size_bytes - position]
        length = 0
        while length < len(view):
            count = os.preadv(self._file_descriptor, [view[length:]], position + length)
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
        if not self._adds_up():
            return False
        self._allocate(int.from_bytes(self._buffer[:4], "big"))
        return True

    def _adds_up(self) -> bool:
        """Whether the lengths in the record add up to the size at `position`; else it gets no buffer."""
        try:
            header = decode_header(os.pread(self._file_descriptor, _LONGEST_HEADER_BYTES, self.position))
        except RecordIllegal:
            return False
        extra_bytes = len(header.born_host) + len(header.store_host) - 2 * IPV4_HOST_BYTES
        topic_at = HEADER_BYTES + extra_bytes + header.body_length
        if not 0 <= header.body_length <= header.total_size:
            return False
        width = 1 if header.magic == MESSAGE_MAGIC_CODE else 2
        properties_at = topic_at + width + self._length_at(topic_at, width)
        return properties_at + 2 + self._length_at(properties_at, 2) == header.total_size

    def _length_at(self, at: int, width: int) -> int:
        """A length of one or two bytes in the record at `position`."""
        return int.from_bytes(os.pread(self._file_descriptor, width, self.position + at), "big")

    def _ends_here(self) -> bool:
        """No record was found at `position`: whether that is final. Sets `damaged`."""
        if self._segment.is_last and not self._record_follows():
            return True
        count, ending = self._lay_out()
        self.damaged = not (count or ending == column_kernels.ENDING_BLANK or self._grow_for(ending))
        return self.damaged

    def _record_follows(self) -> bool:
        """Whether there are bytes that are no record at `position`, and a record behind them."""
        if not self._buffer[: min(8, self._length)].any():
            return False
        behind = self.position + 1
        buffer = np.empty(LOOK_AHEAD_BYTES, np.uint8)
        length = self._read(buffer, behind)
        room = self._segment.size_bytes - behind
        found: int = column_kernels.find_header(buffer, length, self._segment.start_offset + behind, room)
        return found >= 0
