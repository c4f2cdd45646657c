"""The scan of a whole log, segment by segment and past every damage: what verify and repair begin with.

Recovery (recovery.py) stops at the first thing that is no whole record. The scan goes on behind it, at the
next whole record of the segment or of the next one, and notes the stretch between as damaged. Of what
follows the last whole record, it is told what recovery is told:

    zeros                                  the log ends there
    other bytes, at or behind the offset   a torn tail: normal after a crash, the next opening cuts it
      that is known to be durable
    the log ends before that offset        damage up to there: records that were durable are gone

A stretch never crosses a segment. It begins where a record began that was whole once, and ends where the
next one begins, so it has room for at least one record; or it ends with its segment.
What is in the records is for `digest` to say, which is called on the worker's thread with each piece of
whole records; its answers come back in the order of the log. Nothing is changed.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mqstore.store.errors import LogGapTooLong
from mqstore.store.files.file_system import FileSystem
from mqstore.store.record.record_format import (
    BLANK,
    BLANK_MAGIC_CODE,
    BLANK_MIN_BYTES,
    RecordIllegal,
    check_record,
)
from mqstore.verify.raw_segments import SegmentFile, SegmentReader

__all__ = ["DamagedStretch", "LogOutline", "LogScan", "Piece", "ScannedSegment", "scan_segments"]

T = TypeVar("T")

_PIECE_BYTES = 16 << 20
# Where nothing is known to be durable, or to have been.
_UNKNOWN = -1
# Ten thousand gigabytes, with segments as they usually are.
_MOST_MISSING_SEGMENTS = 10_000


class DamagedStretch(NamedTuple):
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
        """How long it is."""
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

    end_offset: behind its last whole record, which the stretches are all before. is_closed: by a BLANK, or
    filled to the last byte. has_tail: bytes other than zero follow.
    """

    segment: SegmentFile
    records: int
    end_offset: int
    is_closed: bool
    has_tail: bool
    last_timestamp: int
    damages: tuple[DamagedStretch, ...]
    # What is found where the records end, if anything but zeros or the file's end.
    tail_expected: str
    tail_found: str
    unreadable: tuple[int, ...]
    digests: tuple[T, ...]


class LogScan(NamedTuple):
    """The log as a whole. torn_offset: where a torn tail begins; -1 without one."""

    min_offset: int
    end_offset: int
    damages: tuple[DamagedStretch, ...]
    torn_offset: int


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

    max_record_bytes: no record is longer. on_bytes: called with the bytes that were looked at since.
    """
    pool = ThreadPoolExecutor(workers, "mqstore-scan")
    pending: deque[Future[ScannedSegment[T]]] = deque()
    try:
        for segment in segments:
            reader = SegmentReader(file_system, segment)
            walk = _SegmentWalk(reader, digest, segment_bytes, max_record_bytes, on_bytes)
            pending.append(pool.submit(walk.run))
            if len(pending) > workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        pool.shutdown()


class _SegmentWalk(Generic[T]):
    """One pass over one segment. Of one thread."""

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
        # Of a file that is too long, what lies behind its segment is none of its business.
        self._size_bytes = min(reader.segment.size_bytes, segment_bytes)
        self._position = 0
        self._records = 0
        self._last_timestamp = 0
        self._damages: list[DamagedStretch] = []
        self._digests: list[T] = []

    def run(self) -> ScannedSegment[T]:
        """Walk it to its end."""
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
                DamagedStretch(
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
        """Walk whole records up to what is none; whether that is the end of a full segment or its BLANK."""
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
        """What is expected and found where no whole record is."""
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
            found = record_kernels.find_record(data, 0, len(data), self._start_offset + position)
            if found >= 0:
                return position + int(found)
            if position + len(data) >= self._size_bytes:
                return -1
            # A record may begin in this window and end behind it.
            position = max(position + 1, position + len(data) - self._longest_piece)
            position = max(position, self._reader.next_data(position) - 4)
        return -1


class LogOutline:
    """The log that segments make, added in their order. `durable_offset`: as `recovery.recover` takes it."""

    def __init__(self, segment_bytes: int, durable_offset: int | None) -> None:
        self._segment_bytes = segment_bytes
        self._durable_offset = durable_offset
        self._min_offset = _UNKNOWN
        # Where the segment behind the last one begins, and whether the last one is closed.
        self._expected_offset = 0
        self._is_closed = False
        # What begins behind the last whole record, or with the BLANK that follows it.
        self._end = DamagedStretch(0, 0, "a whole record", "zeros")
        self._has_tail = False
        # Stretches that are damaged if anything follows.
        self._pending: list[DamagedStretch] = []
        self._damages: list[DamagedStretch] = []
        # Where the log ends whatever follows, as it was never durable further.
        self._cut_offset = _UNKNOWN
        # Of the last record before the segment at hand.
        self._timestamp = 0

    def add(self, each: ScannedSegment[T]) -> int:
        """Take the next segment; returns the offset below which its pieces are of the log."""
        start_offset, has_content = each.segment.start_offset, bool(each.records or each.is_closed)
        if self._cut_offset >= 0:
            self._has_tail = self._has_tail or has_content or each.has_tail
            return self._cut_offset
        if self._min_offset < 0:
            self._min_offset = self._expected_offset = start_offset
            self._is_closed = True
        is_next = self._is_closed and self._expected_offset == start_offset
        self._pending += self._missing_before(start_offset)
        self._expected_offset = start_offset + self._segment_bytes
        self._is_closed = each.is_closed
        rest = self._rest_of(each)
        if has_content:
            self._damages += self._pending
            self._pending = []
            for damage in map(self._dated, each.damages):
                if self._is_cut_at(damage.start_offset):
                    return self._end_at(damage, has_tail=True)
                self._damages.append(damage)
        if has_content or is_next:
            self._end_at(rest, has_tail=each.has_tail)
        self._has_tail = self._has_tail or each.has_tail
        if not each.is_closed:
            self._pending.append(rest)
            if self._is_cut_at(self._end.start_offset):
                self._cut_offset = self._end.start_offset
        self._timestamp = each.last_timestamp or self._timestamp
        return each.end_offset

    def _dated(self, damage: DamagedStretch) -> DamagedStretch:
        """Fills in the store time of the preceding record, which may be in an earlier segment."""
        return damage._replace(before_timestamp=damage.before_timestamp or self._timestamp)

    def _missing_before(self, start_offset: int) -> list[DamagedStretch]:
        self._refuse_long_gap(self._expected_offset, start_offset)
        return [
            self._dated(
                DamagedStretch(offset, min(offset + self._segment_bytes, start_offset), "a segment", "none")
            )
            for offset in range(self._expected_offset, start_offset, self._segment_bytes)
        ]

    def _refuse_long_gap(self, start_offset: int, end_offset: int) -> None:
        missing = (end_offset - start_offset) // self._segment_bytes
        if missing > _MOST_MISSING_SEGMENTS:
            raise LogGapTooLong(start_offset, end_offset, missing)

    def _rest_of(self, each: ScannedSegment[T]) -> DamagedStretch:
        end_offset, found = self._expected_offset, (each.tail_expected, each.tail_found)
        return self._dated(
            DamagedStretch(each.end_offset, end_offset, *found, before_timestamp=each.last_timestamp)
        )

    def _is_cut_at(self, offset: int) -> bool:
        return self._durable_offset is not None and offset >= self._durable_offset

    def _end_at(self, rest: DamagedStretch, *, has_tail: bool) -> int:
        self._end, self._has_tail = rest, has_tail
        if has_tail and self._is_cut_at(rest.start_offset):
            self._cut_offset = rest.start_offset
        return rest.start_offset

    def finish(self) -> LogScan:
        """The log as a whole."""
        end_offset, torn_offset = self._end.start_offset, _UNKNOWN
        damages = tuple(self._damages)
        if self._durable_offset is not None and end_offset < self._durable_offset:
            damages += tuple(self._lost_end(self._durable_offset))
        elif self._has_tail:
            torn_offset = end_offset
        return LogScan(max(0, self._min_offset), end_offset, damages, torn_offset)

    def _lost_end(self, durable_offset: int) -> Iterator[DamagedStretch]:
        """What had been durable behind the last whole record, cut where segments end."""
        rest = self._end
        self._refuse_long_gap(rest.start_offset, durable_offset)
        while rest.start_offset < durable_offset:
            start = rest.start_offset
            segment_end = start - start % self._segment_bytes + self._segment_bytes
            yield rest._replace(end_offset=min(durable_offset, segment_end))
            rest = DamagedStretch(segment_end, 0, "whole records", "none", rest.before_timestamp)
