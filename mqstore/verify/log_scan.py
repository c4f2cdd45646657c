"""The scan of segments, past every damage: what verify and repair begin with.

Recovery (recovery.py) stops at the first bytes that are no whole record. The scan goes on at the next whole
record of the segment, and notes the range between as damaged. log_outline.py joins the segments, and
decides where their log ends.

A damaged range never crosses a segment. It begins where a whole record once began. It ends where the next
one begins, so it has room for at least one record; or it ends with its segment.
`digest` reads the contents of records: it is called on the scanning thread with each piece of whole
records, and its results come back in the order of the log. Nothing is changed.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mqstore.store.files.file_system import FileSystem
from mqstore.store.log.raw_segments import SegmentFile, SegmentReader
from mqstore.store.record.record_format import (
    BLANK,
    BLANK_MAGIC_CODE,
    BLANK_MIN_BYTES,
    RecordIllegal,
    check_record,
)
from mqstore.store.threads.run_in_thread import CallInThread, run_in_thread

__all__ = ["DamagedRange", "Piece", "ScannedSegment", "scan_segment", "scan_segments"]

T = TypeVar("T")

_PIECE_BYTES = 2 << 20
"""Small enough that a piece stays in a processor's cache while it is checked and digested."""


class DamagedRange(NamedTuple):
    """Bytes that hold no whole record though records belong there. Offsets are physical.

    before_timestamp: store time of the record before it, epoch ms; 0 without one.
    """

    start_offset: int
    end_offset: int
    expected: str
    found: str
    before_timestamp: int = 0

    @property
    def length_bytes(self) -> int:
        """Length of the range."""
        return self.end_offset - self.start_offset


class Piece(NamedTuple):
    """Consecutive whole records; `data` begins with one and ends with one. uint8, read-only."""

    base_offset: int
    data: npt.NDArray[np.uint8]

    @property
    def end_offset(self) -> int:
        """Physical offset behind the last record."""
        return self.base_offset + len(self.data)


class ScannedSegment(NamedTuple, Generic[T]):
    """What one segment holds.

    end_offset: behind its last whole record; all damaged ranges lie before it. is_closed: by a BLANK, or
    filled to the last byte. has_tail: bytes other than zero follow.
    """

    segment: SegmentFile
    records: int
    end_offset: int
    is_closed: bool
    has_tail: bool
    last_timestamp: int
    damages: tuple[DamagedRange, ...]
    # What is found where the records end, if anything but zeros or the file's end.
    tail_expected: str
    tail_found: str
    unreadable: tuple[int, ...]
    digests: tuple[T, ...]


def scan_segments(
    file_system: FileSystem,
    segments: Sequence[SegmentFile],
    digest: Callable[[Piece], T],
    *,
    segment_bytes: int,
    max_record_bytes: int,
    workers: int,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[ScannedSegment[T]]:
    """Scan segments, `workers` at a time; yields them in their order.

    max_record_bytes: no record is longer. on_bytes: called with the number of bytes scanned since.
    """
    pending: deque[CallInThread[ScannedSegment[T]]] = deque()
    try:
        for segment in segments:
            scan = partial(
                scan_segment,
                file_system,
                segment,
                digest,
                segment_bytes=segment_bytes,
                max_record_bytes=max_record_bytes,
                on_bytes=on_bytes,
            )
            if len(pending) >= workers:
                yield _first_of(pending)
            pending.append(run_in_thread(scan))
        while pending:
            yield _first_of(pending)
    finally:
        for call in pending:
            call.wait()


def scan_segment(
    file_system: FileSystem,
    segment: SegmentFile,
    digest: Callable[[Piece], T],
    *,
    segment_bytes: int,
    max_record_bytes: int,
    on_bytes: Callable[[int], None] | None = None,
) -> ScannedSegment[T]:
    """Scan one segment in this thread."""
    reader = SegmentReader(file_system, segment)
    return _SegmentWalk(reader, digest, segment_bytes, max_record_bytes, on_bytes).run()


def _first_of(pending: deque[CallInThread[ScannedSegment[T]]]) -> ScannedSegment[T]:
    """The result of the first, which is taken out after the wait: an interrupt leaves it to be waited for."""
    scanned = pending[0].result()
    pending.popleft()
    return scanned


class _SegmentWalk(Generic[T]):
    """One pass over one segment. Threads: one."""

    def __init__(
        self,
        reader: SegmentReader,
        digest: Callable[[Piece], T],
        segment_bytes: int,
        max_record_bytes: int,
        on_bytes: Callable[[int], None] | None,
    ) -> None:
        self._reader = reader
        self._digest = digest
        self._max_record_bytes = max_record_bytes
        self._on_bytes = on_bytes
        self._start_offset = reader.segment.start_offset
        self._segment_bytes = segment_bytes
        # If the file is longer than a segment, the excess is ignored.
        self._size_bytes = min(reader.segment.size_bytes, segment_bytes)
        self._position = 0
        self._records = 0
        self._last_timestamp = 0
        self._damages: list[DamagedRange] = []
        self._digests: list[T] = []

    def run(self) -> ScannedSegment[T]:
        """Walk the segment to its end."""
        is_closed, has_tail, why = False, False, ("", "")
        while not is_closed:
            is_closed = self._walk_records()
            if is_closed:
                break
            data_position = self._reader.next_data(self._position)
            if data_position >= self._size_bytes:
                break
            why = self._why()
            following = self._find_record(max(self._position + 1, data_position - 4))
            if following < 0:
                has_tail = True
                break
            self._damages.append(
                DamagedRange(
                    self._offset, self._start_offset + following, *why, before_timestamp=self._last_timestamp
                )
            )
            self._position = following
        self._report(self._size_bytes - self._position)
        return ScannedSegment(
            self._reader.segment,
            self._records,
            self._offset,
            is_closed,
            has_tail,
            self._last_timestamp,
            tuple(self._damages),
            *(why if has_tail else ("a whole record", "zeros")),
            tuple(self._reader.unreadable),
            tuple(self._digests),
        )

    @property
    def _offset(self) -> int:
        return self._start_offset + self._position

    def _report(self, length_bytes: int) -> None:
        if self._on_bytes is not None and length_bytes:
            self._on_bytes(length_bytes)

    def _walk_records(self) -> bool:
        """Walk over whole records. True: the segment ended, full or with its BLANK. False: at other bytes."""
        from mqstore.store.record import record_kernels

        wanted_bytes = _PIECE_BYTES
        while self._position < self._size_bytes:
            data = self._reader.read(self._position, wanted_bytes)
            stop, records, timestamp, why = record_kernels.scan(data, 0, len(data), self._offset)
            if records:
                self._take(data[:stop], int(records), int(timestamp))
            if why == record_kernels.BLANK_FOUND:
                return self._is_closing_blank(data[stop:])
            # The piece may have ended inside a record.
            is_cut = self._position + len(data) - stop < self._size_bytes and (
                len(data) - stop < self._max_record_bytes
            )
            if why == record_kernels.NO_RECORD and not (
                is_cut and (records or wanted_bytes < self._longest_piece)
            ):
                return False
            wanted_bytes = _PIECE_BYTES if records else self._longest_piece
        return True

    @property
    def _longest_piece(self) -> int:
        return max(_PIECE_BYTES, self._max_record_bytes + BLANK_MIN_BYTES)

    def _take(self, data: npt.NDArray[np.uint8], records: int, timestamp: int) -> None:
        self._digests.append(self._digest(Piece(self._offset, data)))
        self._position += len(data)
        self._records += records
        self._last_timestamp = timestamp
        self._report(len(data))

    def _is_closing_blank(self, data: npt.NDArray[np.uint8]) -> bool:
        """Whether a BLANK is as long as the rest of its segment."""
        size, magic = BLANK.unpack_from(data.data)
        return bool(magic == BLANK_MAGIC_CODE and self._position + size == self._segment_bytes)

    def _why(self) -> tuple[str, str]:
        """(expected, found) where there is no whole record."""
        data = self._reader.read(self._position, self._longest_piece).data.toreadonly()
        if len(data) >= BLANK_MIN_BYTES and BLANK.unpack_from(data)[1] == BLANK_MAGIC_CODE:
            return f"a BLANK of {self._segment_bytes - self._position} bytes", f"{BLANK.unpack_from(data)[0]}"
        try:
            check_record(data, self._offset)
        except RecordIllegal as illegal:
            return illegal.expected, illegal.found
        return "a whole record", "one whose CRC differs"

    def _find_record(self, position: int) -> int:
        """Position of the first whole record at or behind `position`; -1 when none follows."""
        from mqstore.store.record import record_kernels

        window_bytes = 2 * self._longest_piece
        while position < self._size_bytes:
            data = self._reader.read(position, window_bytes)
            found = record_kernels.find_record(data, 0, len(data), len(data), self._start_offset + position)
            if found >= 0:
                return position + int(found)
            if position + len(data) >= self._size_bytes:
                return -1
            # A record may begin in this window and end behind it.
            position = max(position + 1, position + len(data) - self._longest_piece)
            position = max(position, self._reader.next_data(position) - 4)
        return -1
