"""The log under a stream: what of it is behind an offset, where it ends now, and what retention took away.

Nothing is opened but what lies behind the offset: Spark asks for the end every few milliseconds
while a query waits. The end is found as for a batch read (segments/log_end.py), from the offset on if that
is in the last segment.
"""

import logging
from pathlib import Path
from typing import NamedTuple

from mqstore.store.errors import StoreError
from mqstore.tools.spark.options import ReadOptions
from mqstore.tools.spark.read.read_plan import known_end, open_if_possible
from mqstore.tools.spark.segments.log_end import find_log_end
from mqstore.tools.spark.segments.log_source import source_of
from mqstore.tools.spark.segments.segment_files import SegmentFile
from mqstore.tools.spark.stream.store_identity import check_store
from mqstore.tools.spark.stream.stream_offset import StreamOffset

__all__ = ["LogBehind", "LogCutBack", "OffsetExpired", "log_behind", "log_end"]

_logger = logging.getLogger(__name__)


class OffsetExpired(StoreError):
    """Retention has deleted messages that a stream has not read yet."""

    def __init__(self, path: Path, offset: int, min_offset: int) -> None:
        super().__init__(
            f"the log of {path} begins at physical offset {min_offset}, and the query has read up to "
            f"{offset}: {min_offset - offset} bytes were deleted unread. Set option failOnDataLoss to false "
            "to go on with what is there, and keep files for longer than a query may stand still "
            "(file_reserved_time)"
        )
        self.path, self.offset, self.min_offset = path, offset, min_offset


class LogCutBack(StoreError):
    """The log ends before the place up to which a stream has read it."""

    def __init__(self, path: Path, offset: int, end_offset: int) -> None:
        super().__init__(
            f"the log of {path} ends at physical offset {end_offset}, and the checkpoint says {offset}: the "
            "log has lost its end, in a power cut without SYNC_FLUSH or by the restore of a backup. Start "
            "the query with a new checkpoint, from startingOffsets on"
        )
        self.path, self.offset, self.end_offset = path, offset, end_offset


class LogBehind(NamedTuple):
    """The log behind an offset: segments that are there, and the first physical offset of it that is."""

    segments: list[SegmentFile]
    begin: int


def log_behind(path: Path, options: ReadOptions, offset: StreamOffset) -> LogBehind:
    """Raises OtherStore, OffsetExpired, StoreNotFound, SegmentMissing, SegmentShort, ArchiveRefused."""
    segments = source_of(str(path), options).listed(options, offset.phy).segments
    check_store(path, offset)
    first = segments[0].start_offset if segments else offset.phy
    if first > offset.phy:
        if options.fail_on_data_loss:
            raise OffsetExpired(path, offset.phy, first)
        _logger.warning("%s: %d bytes from %d on were deleted unread", path, first - offset.phy, offset.phy)
    return LogBehind(segments, max(first, offset.phy))


def log_end(path: Path, options: ReadOptions, behind: LogBehind, known: int | None = None) -> int:
    """Where the log ends now. known: where it ended before, in this process.

    Raises LogCutBack, SegmentMissing.
    """
    if not behind.segments:
        end = 0
    else:
        last = behind.segments[-1]
        known = max(behind.begin, known or 0)
        if known < last.start_offset:
            with open_if_possible(path) as parts:
                known = known_end(parts)
        end = find_log_end(last, known, check_crc=options.check_crc)
    if end < behind.begin:
        raise LogCutBack(path, behind.begin, end)
    return end
