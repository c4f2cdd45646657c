"""The end of a stream's next batch: how far the limits of a trigger let it go.

The log is walked from where the last batch ended, record by record, so a batch ends where a record ends, and
messages are counted exactly: those that the query wants, and no others. A body that looks like records
misleads nobody. Bytes that fill up the end of a segment (BLANK) come on top of the limit. It costs a read of
what the batch will read: some 0.3 s of the driver's processor a GiB. A limit in bytes alone needs no more
than the segment that it falls in, which begins with a record; where it falls on that beginning, nothing is
read.
"""

from collections.abc import Iterator

import numpy as np

from mqstore.index.arrow.records import Records
from mqstore.store.record.record_format import PHYSICAL_OFFSET_POSITION
from mqstore.tools.spark.options import TriggerOptions
from mqstore.tools.spark.read.selection import Selection
from mqstore.tools.spark.segments.segment_reader import PassedOver, read_range
from mqstore.tools.spark.stream.stream_log import LogBehind

__all__ = ["batch_end", "has_messages"]


def batch_end(behind: LogBehind, end: int, selection: Selection, limits: TriggerOptions) -> int:
    """The end of a batch that begins at `behind.begin`: at most `end`, where a record begins or the log ends.

    It has at most `max_offsets` wanted messages, and at most `max_bytes` of the log; but one record at least.
    """
    if limits.max_bytes is None and limits.max_offsets is None:
        return end
    if limits.max_offsets is None and limits.max_bytes is not None and end - behind.begin <= limits.max_bytes:
        return end
    begin = behind.begin
    if limits.max_offsets is None and limits.max_bytes is not None:
        begin = _last_known(behind, behind.begin + limits.max_bytes)
        if begin == behind.begin + limits.max_bytes:
            return begin
    count = 0
    for piece in _pieces(behind, begin, end):
        stop = _end_within(piece, behind.begin, limits.max_bytes)
        if isinstance(piece, Records) and limits.max_offsets is not None:
            wanted = selection.apply(piece)
            room = limits.max_offsets - count
            if len(wanted) > room:
                beyond = int(_places(wanted)[room])
                stop = beyond if stop is None else min(stop, beyond)
            count += len(wanted)
        if stop is not None:
            return stop
    return end


def has_messages(behind: LogBehind, end: int, selection: Selection, count: int) -> bool:
    """Whether there are so many wanted messages from `behind.begin` to `end`."""
    for piece in _pieces(behind, behind.begin, end):
        if isinstance(piece, Records):
            count -= len(selection.apply(piece))
        if count <= 0:
            return True
    return count <= 0


def _last_known(behind: LogBehind, limit: int) -> int:
    """The last place up to `limit` where a record is known to begin: that of the batch, or of a segment."""
    starts = [one.start_offset for one in behind.segments if one.start_offset <= limit]
    return max([behind.begin, *starts[-1:]])


def _pieces(behind: LogBehind, begin: int, end: int) -> Iterator[Records | PassedOver]:
    for segment in behind.segments:
        first, stop = max(segment.start_offset, begin), min(segment.end_offset, end)
        if first < stop:
            yield from read_range(segment, first, stop, check_crc=False, passes_over=True)


def _end_within(piece: Records | PassedOver, begin: int, max_bytes: int | None) -> int | None:
    """Where the limit in bytes falls in this piece; None: behind it."""
    if max_bytes is None:
        return None
    if isinstance(piece, PassedOver):
        return None if piece.end - begin <= max_bytes else piece.begin if piece.begin > begin else piece.end
    places = _places(piece)
    # A record is in if its own end is.
    beyond = places + piece.int32(piece.starts) > begin + max_bytes
    if not beyond.any():
        return None
    first = int(np.argmax(beyond))
    if places[first] > begin:
        return int(places[first])
    return int(places[0] + piece.int32(piece.starts)[0])


def _places(records: Records) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Physical offsets of the records."""
    return records.int64(records.starts, PHYSICAL_OFFSET_POSITION)
