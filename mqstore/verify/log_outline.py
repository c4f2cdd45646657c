"""The outline of a log: its first and its last offset, what is damaged between them, and a torn tail.

Made from scanned segments (log_scan.py), in their order. What follows the last whole record is judged as
recovery judges it:

    zeros                                  the log ends there
    other bytes, at or behind the offset   a torn tail: normal after a crash, the next opening cuts it
      that is known to be durable
    the log ends before that offset        damage up to there: records that were durable are gone
    a BLANK that was durable to the        the log ends with that segment
      last byte of its segment

A segment that is missing between two others is damaged as a whole. Threads: one.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from mqstore.store.errors import LogGapTooLong
from mqstore.verify.log_scan import DamagedRange, ScannedSegment

__all__ = ["LogOutline", "LogScan"]

T = TypeVar("T")

# Where nothing is known to be durable, or to have been.
_UNKNOWN = -1
# 1,000 GiB, with segments of the default length.
_MOST_MISSING_SEGMENTS = 1_000


class LogScan(NamedTuple):
    """The log as a whole. torn_offset: where a torn tail begins; -1 without one."""

    min_offset: int
    end_offset: int
    damages: tuple[DamagedRange, ...]
    torn_offset: int


class LogOutline:
    """Builds the LogScan of a log whose segments are added in their order.

    durable_offset: as `recovery.recover` takes it.
    """

    def __init__(self, segment_bytes: int, durable_offset: int | None) -> None:
        self._segment_bytes = segment_bytes
        self._durable_offset = durable_offset
        self._min_offset = _UNKNOWN
        # Where the segment behind the last one begins, and whether the last one is closed.
        self._expected_offset = 0
        self._is_closed = False
        # What begins behind the last whole record, or with the BLANK that follows it.
        self._end = DamagedRange(0, 0, "a whole record", "zeros")
        self._has_tail = False
        # Ranges that are damaged if anything follows.
        self._pending: list[DamagedRange] = []
        self._damages: list[DamagedRange] = []
        # Where the log ends, whatever bytes follow: nothing behind it was ever durable.
        self._cut_offset = _UNKNOWN
        # Of the last record before the segment that is added.
        self._timestamp = 0

    def add(self, each: ScannedSegment[T]) -> int:
        """Add the next segment; returns the offset below which its pieces belong to the log."""
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

    def _dated(self, damage: DamagedRange) -> DamagedRange:
        """Fills in the store time of the preceding record, which may be in an earlier segment."""
        return damage._replace(before_timestamp=damage.before_timestamp or self._timestamp)

    def _missing_before(self, start_offset: int) -> list[DamagedRange]:
        self._refuse_long_gap(self._expected_offset, start_offset)
        return [
            self._dated(
                DamagedRange(offset, min(offset + self._segment_bytes, start_offset), "a segment", "none")
            )
            for offset in range(self._expected_offset, start_offset, self._segment_bytes)
        ]

    def _refuse_long_gap(self, start_offset: int, end_offset: int) -> None:
        missing = (end_offset - start_offset) // self._segment_bytes
        if missing > _MOST_MISSING_SEGMENTS:
            raise LogGapTooLong(start_offset, end_offset, missing)

    def _rest_of(self, each: ScannedSegment[T]) -> DamagedRange:
        end_offset, found = self._expected_offset, (each.tail_expected, each.tail_found)
        return self._dated(
            DamagedRange(each.end_offset, end_offset, *found, before_timestamp=each.last_timestamp)
        )

    def _is_cut_at(self, offset: int) -> bool:
        return self._durable_offset is not None and offset >= self._durable_offset

    def _end_at(self, rest: DamagedRange, *, has_tail: bool) -> int:
        self._end, self._has_tail = rest, has_tail
        if has_tail and self._is_cut_at(rest.start_offset):
            self._cut_offset = rest.start_offset
        return rest.start_offset

    def finish(self) -> LogScan:
        """The log as a whole."""
        torn_offset, durable_offset = _UNKNOWN, self._durable_offset
        if self._is_closed and durable_offset is not None and self._expected_offset <= durable_offset:
            # As in recovery: the next segment was empty and is gone, or it is lost with what was in it.
            self._end = DamagedRange(self._expected_offset, 0, "whole records", "none", self._timestamp)
        end_offset = self._end.start_offset
        damages = tuple(self._damages)
        if durable_offset is not None and end_offset < durable_offset:
            damages += tuple(self._lost_end(durable_offset))
        elif self._has_tail:
            torn_offset = end_offset
        return LogScan(max(0, self._min_offset), end_offset, damages, torn_offset)

    def _lost_end(self, durable_offset: int) -> Iterator[DamagedRange]:
        """The durable range behind the last whole record, split where segments end."""
        rest = self._end
        self._refuse_long_gap(rest.start_offset, durable_offset)
        while rest.start_offset < durable_offset:
            start = rest.start_offset
            segment_end = start - start % self._segment_bytes + self._segment_bytes
            yield rest._replace(end_offset=min(durable_offset, segment_end))
            rest = DamagedRange(segment_end, 0, "whole records", "none", rest.before_timestamp)
