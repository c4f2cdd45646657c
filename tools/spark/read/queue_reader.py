"""The queue reader: the records that entries of consume queues point to, each checked, piece by piece.

The entries of all queues of a task are merged into the order of the log. Those of one segment are taken
together, up to 4 MiB of records: those that lie near each other are read by one positional read, the others
by one each, into one buffer; a kernel then checks each record against its entry, and its CRCs. An entry whose
record is not whole is damage, as in segment_reader.py, and so is one that points to a record of another queue
or queue offset.
Source: ConsumeQueue; layout of an entry: index/queue/consume_queue_format.py.
"""

import bisect
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.index.arrow import column_kernels
from mqstore.index.arrow.records import Records
from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.consume_queue_format import ENTRY_BYTES, ENTRY_DTYPE
from mqstore.store.errors import CorruptRecord, StoreError
from mqstore.store.record.record_format import (
    QUEUE_ID_POSITION,
    QUEUE_OFFSET_POSITION,
    RecordIllegal,
    check_record,
)
from mqstore.store_parts import StoreParts
from mqstore.tools.spark.read.selection import QueueRange
from mqstore.tools.spark.segments.open_segment import open_file
from mqstore.tools.spark.segments.segment_files import SegmentFile, SegmentMissing
from mqstore.tools.spark.segments.segment_reader import CHUNK_BYTES, HINT, PassedOver

__all__ = ["EntriesMissing", "QueueReader"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

# Bytes between two records that are read rather than jumped over.
_NEAR_BYTES = 8 * 1024
_MOST_ENTRIES = 4096


class EntriesMissing(StoreError):
    """Entries of a consume queue are not there any more. begin, end: queue offsets."""

    def __init__(self, path: Path, begin: int, end: int) -> None:
        super().__init__(
            f"entries {begin} to {end} of {path} cannot be read: their file is missing, or was deleted since "
            "the read was planned. Load again, set option queueScan to false to read the log without its "
            "queues, or failOnDataLoss to false to read what is there"
        )
        self.path = path
        self.begin = begin
        self.end = end


class _QueueEntries(NamedTuple):
    """Entries of some queues: int64 each, but for sizes and queue_ids, which are int32."""

    physical_offsets: Int64s
    sizes: Int32s
    queue_ids: Int32s
    queue_offsets: Int64s

    @classmethod
    def none(cls) -> "_QueueEntries":
        """No entries."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64))

    def select(self, which: "slice | npt.NDArray[np.bool_] | npt.NDArray[np.intp]") -> "_QueueEntries":
        """The entries that `which` selects."""
        return _QueueEntries(
            self.physical_offsets[which],
            self.sizes[which],
            self.queue_ids[which],
            self.queue_offsets[which],
        )

    def are_of(self, records: Records) -> npt.NDArray[np.bool_]:
        """Which of the records, one for each of the first entries, are of the queue and have the number."""
        count, starts = len(records), records.starts
        queue_ids = records.int32(starts, QUEUE_ID_POSITION)
        queue_offsets = records.int64(starts, QUEUE_OFFSET_POSITION)
        are_same: npt.NDArray[np.bool_] = (queue_ids == self.queue_ids[:count]) & (
            queue_offsets == self.queue_offsets[:count]
        )
        return are_same


class _Cursor:
    """How far one queue was read. offset: of the next entry to load. loaded: entries not handed on yet."""

    def __init__(self, asked: QueueRange) -> None:
        self.asked = asked
        self.offset = asked.begin
        # Physical offset of the last good entry.
        self.behind = -1
        self.loaded = _QueueEntries.none()

    @property
    def is_at_end(self) -> bool:
        """Whether all entries were loaded."""
        return self.offset >= self.asked.end

    @property
    def is_loaded(self) -> bool:
        """Whether there are entries here, or none any more."""
        return self.is_at_end or bool(len(self.loaded.sizes))

    @property
    def is_done(self) -> bool:
        """Whether all entries were loaded and taken."""
        return self.is_at_end and not len(self.loaded.sizes)

    @property
    def last_offset(self) -> int:
        """Physical offset of the last loaded entry."""
        return int(self.loaded.physical_offsets[-1])

    def take_to(self, physical_offset: int | None) -> _QueueEntries:
        """Remove and return the entries up to a physical offset; None: all."""
        count = len(self.loaded.sizes)
        if physical_offset is not None:
            count = int(np.searchsorted(self.loaded.physical_offsets, physical_offset, side="right"))
        taken, self.loaded = self.loaded.select(slice(count)), self.loaded.select(slice(count, None))
        return taken


def _merged(each: Sequence[_QueueEntries]) -> _QueueEntries:
    """The entries in the order of the log."""
    if len(each) == 1:
        return each[0]
    together = _QueueEntries(
        np.concatenate([entries.physical_offsets for entries in each]),
        np.concatenate([entries.sizes for entries in each]),
        np.concatenate([entries.queue_ids for entries in each]),
        np.concatenate([entries.queue_offsets for entries in each]),
    )
    return together.select(np.argsort(together.physical_offsets, kind="stable"))


def _longest_rise(values: Sequence[int]) -> list[int]:
    """Places of the longest series in which each value is greater than the one before.

    >>> _longest_rise([1, 9, 2, 3])
    [0, 2, 3]
    """
    # The least value with which a series of each length ends, and where it is.
    ends: list[int] = []
    places: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect.bisect_left(ends, value)
        before.append(places[length - 1] if length else -1)
        ends[length : length + 1], places[length : length + 1] = [value], [place]
    rise = []
    place = places[-1] if places else -1
    while place >= 0:
        rise.append(place)
        place = before[place]
    return rise[::-1]


class QueueReader:
    """Reads through the queues of one store. Closes the segments that it has opened with `close`."""

    def __init__(self, parts: StoreParts, *, check_crc: bool, passes_over: bool, skips_missing: bool) -> None:
        self._parts = parts
        self._check_crc = check_crc
        self._passes_over = passes_over
        self._skips_missing = skips_missing
        self._buffer = np.empty(CHUNK_BYTES, np.uint8)
        # The segment that was read last, and its descriptor.
        self._open = ExitStack()
        self._segment: SegmentFile | None = None
        self._descriptor = -1

    def close(self) -> None:
        """Close the last segment."""
        self._open.close()

    def read(self, asked: Sequence[QueueRange]) -> Iterator[Records | PassedOver]:
        """The records of these entries, in the order of the log; a piece is valid until the next one.

        Raises CorruptRecord, SegmentMissing.
        """
        cursors = [_Cursor(one) for one in asked]
        while cursors:
            for cursor in cursors:
                while not cursor.is_loaded:
                    yield from self._load(cursor)
            # What lies before the last loaded entry of every queue that goes on is complete.
            frontier = min((cursor.last_offset for cursor in cursors if not cursor.is_at_end), default=None)
            entries = _merged([cursor.take_to(frontier) for cursor in cursors])
            cursors = [
                cursor for cursor in cursors if not (cursor.is_at_end and not len(cursor.loaded.sizes))
            ]
            while len(entries.sizes):
                count = self._count_together(entries)
                yield from self._pieces(entries.select(slice(count)))
                entries = entries.select(slice(count, None))

    def _load(self, cursor: "_Cursor") -> Iterator[PassedOver]:
        """Take in the next entries of a queue, or find that it ends."""
        asked, offset = cursor.asked, cursor.offset
        queue = self._parts.consume_queues.find(asked.topic, asked.queue_id)
        if queue is None:
            yield from self._lost(asked, offset, asked.end)
            cursor.offset = asked.end
            return
        view = queue.view_from(offset, min(asked.end - offset, _MOST_ENTRIES))
        if view:
            raw = np.frombuffer(view, ENTRY_DTYPE)
            entries = _QueueEntries(
                raw["physical_offset"].astype(np.int64),
                raw["size"].astype(np.int32),
                np.full(len(raw), asked.queue_id, np.int32),
                np.arange(offset, offset + len(raw)),
            )
            is_good = self._are_good(entries, cursor.behind)
            for place in np.flatnonzero(~is_good).tolist():
                physical_offset, size = int(entries.physical_offsets[place]), int(entries.sizes[place])
                yield self._bad_entry(queue, offset + place, physical_offset, size)
            cursor.loaded = entries.select(is_good)
            if is_good.any():
                cursor.behind = cursor.last_offset
            cursor.offset += len(raw)
            return
        # Retention has deleted it since the plan was made, or a file of the queue is missing.
        behind = queue.min_offset if queue.min_offset > offset else queue.roll_next_file(offset)
        behind = min(behind, asked.end)
        yield from self._lost(asked, offset, behind)
        cursor.offset = behind

    def _are_good(self, entries: _QueueEntries, behind: int) -> npt.NDArray[np.bool_]:
        """Which entries point into the log, each behind the one before.

        If some are out of order, the fewest are bad: one that points too far makes none of the others so.
        """
        physical_offsets, log_end = entries.physical_offsets, self._parts.commit_log.max_offset
        is_good: npt.NDArray[np.bool_] = entries.sizes > 0
        is_good &= (physical_offsets > behind) & (physical_offsets >= 0) & (physical_offsets < log_end)
        places = np.flatnonzero(is_good)
        inside = physical_offsets[places]
        if (inside[1:] <= inside[:-1]).any():
            is_good[:] = False
            is_good[places[_longest_rise(inside.tolist())]] = True
        return is_good

    def _bad_entry(self, queue: ConsumeQueue, offset: int, physical_offset: int, size: int) -> PassedOver:
        """Tell of an entry that points to no message. Raises CorruptRecord if damage is not passed over."""
        log = self._parts.commit_log
        expected = (
            f"an entry of queue offset {offset} that points between {log.min_offset} and {log.max_offset}"
        )
        expected += " and behind the one before"
        found = f"offset {physical_offset} and size {size}"
        if self._passes_over:
            return PassedOver(str(queue.directory), -1, -1, f"expected {expected}, found {found}")
        error = CorruptRecord(queue.directory, offset * ENTRY_BYTES, expected, found)
        error.add_note(HINT)
        error.add_note("Set option queueScan to false to read the log without its queues.")
        raise error

    def _lost(self, asked: QueueRange, begin: int, end: int) -> Iterator[PassedOver]:
        path = self._parts.layout.consume_queues / asked.topic / str(asked.queue_id)
        if not self._skips_missing:
            raise EntriesMissing(path, begin, end)
        yield PassedOver(str(path), -1, -1, f"entries {begin} to {end} of the queue are gone")

    def _count_together(self, entries: _QueueEntries) -> int:
        """How many of the first entries lie in one segment and fit into the buffer."""
        try:
            segment = self._segment_of(int(entries.physical_offsets[0]))
        except SegmentMissing:
            segment = None
        if segment is None:
            return 1
        ends_before = int(np.searchsorted(entries.physical_offsets, segment.end_offset))
        sizes = entries.sizes.astype(np.int64)
        gaps = np.diff(entries.physical_offsets, prepend=entries.physical_offsets[0]) - np.roll(sizes, 1)
        gaps[0] = 0
        rooms = np.minimum(sizes, CHUNK_BYTES) + np.where((gaps > 0) & (gaps <= _NEAR_BYTES), gaps, 0)
        fits = int(np.searchsorted(np.cumsum(rooms), CHUNK_BYTES, side="right"))
        return max(1, min(ends_before, fits))

    def _segment_of(self, physical_offset: int) -> SegmentFile | None:
        known = self._segment
        if known is None or not known.start_offset <= physical_offset < known.end_offset:
            found = self._parts.commit_log.files.file_for(physical_offset)
            if found is None:
                return None
            self._open.close()
            self._segment = None
            segment = SegmentFile(str(found.path), found.start_offset, found.size_bytes)
            source = open_file(segment)
            self._open.callback(source.close)
            self._descriptor = source.descriptor
            self._segment = known = segment
        return known

    def _pieces(self, entries: _QueueEntries) -> Iterator[Records | PassedOver]:
        """The records of entries of one segment."""
        try:
            segment = self._segment_of(int(entries.physical_offsets[0]))
        except SegmentMissing:
            segment = None
        if segment is None:
            yield from self._without_segment(entries)
            return
        places = self._gather(segment, entries)
        first = 0
        while first < len(entries.sizes):
            rest = entries.select(slice(first, None))
            layout = np.empty((column_kernels.LAYOUT_FIELDS, len(rest.sizes)), np.int32)
            count = column_kernels.lay_out_gathered(
                self._buffer, places[first:], rest.physical_offsets, rest.sizes, self._check_crc, layout
            )
            records = Records(self._buffer, layout[:, :count])
            is_asked = rest.are_of(records)
            if not is_asked.all():
                count = int(np.argmin(is_asked))
                records = Records(self._buffer, layout[:, :count])
            if count:
                yield records
            first += count
            if first < len(entries.sizes):
                damage = self._damage(segment, entries, first, int(places[first]))
                if not self._passes_over:
                    raise damage
                begin = int(entries.physical_offsets[first])
                end = begin + max(int(entries.sizes[first]), 0)
                yield PassedOver(
                    segment.path, begin, end, f"expected {damage.expected}, found {damage.found}"
                )
                first += 1

    def _without_segment(self, entries: _QueueEntries) -> Iterator[PassedOver]:
        begin = int(entries.physical_offsets[0])
        end = int(entries.physical_offsets[-1]) + max(int(entries.sizes[-1]), 0)
        if not self._skips_missing:
            raise SegmentMissing(self._parts.layout.commit_log, begin, end)
        yield PassedOver(str(self._parts.layout.commit_log), begin, end, "the segment is gone")

    def _gather(self, segment: SegmentFile, entries: _QueueEntries) -> Int64s:
        """Read the records into the buffer; where each begins there, or -1 for one that cannot be there."""
        starts = entries.physical_offsets - segment.start_offset
        sizes = np.maximum(entries.sizes, 0).astype(np.int64)
        is_inside = (starts >= 0) & (sizes <= segment.size_bytes - starts)
        for index in np.flatnonzero(is_inside & (sizes > CHUNK_BYTES)).tolist():
            # A damaged entry may claim a gigabyte.
            is_inside[index] = self._size_at(int(starts[index])) == sizes[index]
        starts, sizes = np.where(is_inside, starts, 0), np.where(is_inside, sizes, 0)
        stops = starts + sizes
        # A run is read at once: from one record to the last of those that follow nearby.
        is_far = (starts[1:] < stops[:-1]) | (starts[1:] - stops[:-1] > _NEAR_BYTES)
        run_of = np.concatenate(([0], np.cumsum(is_far)))
        firsts = np.concatenate(([0], np.flatnonzero(is_far) + 1))
        lasts = np.concatenate((firsts[1:] - 1, [len(starts) - 1]))
        run_starts, run_sizes = starts[firsts], stops[lasts] - starts[firsts]
        run_ends = np.cumsum(run_sizes)
        run_places = run_ends - run_sizes
        if run_ends[-1] > self._buffer.size:
            self._buffer = np.empty(int(run_ends[-1]), np.uint8)
        self._read(run_starts, run_sizes, run_places)
        return np.where(is_inside, run_places[run_of] + starts - run_starts[run_of], -1)

    def _size_at(self, position: int) -> int:
        """The size that the record at `position` of the segment states."""
        return int.from_bytes(os.pread(self._descriptor, 4, position), "big")

    def _read(self, starts: Int64s, sizes: Int64s, places: Int64s) -> None:
        view, descriptor, preadv = self._buffer.data, self._descriptor, os.preadv
        for start, size, place in zip(starts.tolist(), sizes.tolist(), places.tolist(), strict=True):
            length = preadv(descriptor, [view[place : place + size]], start)
            while length < size:
                count = preadv(descriptor, [view[place + length : place + size]], start + length)
                if count == 0:
                    # The file was cut short: what was read before must not be taken for its bytes.
                    self._buffer[place + length : place + size] = 0
                    break
                length += count

    def _damage(self, segment: SegmentFile, entries: _QueueEntries, index: int, place: int) -> CorruptRecord:
        physical_offset, size = int(entries.physical_offsets[index]), int(entries.sizes[index])
        queue_id, queue_offset = int(entries.queue_ids[index]), int(entries.queue_offsets[index])
        expected = f"the record of {size} bytes of entry {queue_offset} of queue {queue_id}"
        found = "bytes outside of the segment"
        if place >= 0:
            record = self._buffer[place : place + size].data
            found = bytes(record[:16]).hex(" ")
            try:
                header = check_record(record, physical_offset)
            except RecordIllegal as error:
                expected, found = f"{expected}, with {error.expected}", error.found
            else:
                found = f"one of {header.total_size} bytes"
                found += f" of entry {header.queue_offset} of queue {header.queue_id}"
        damage = CorruptRecord(Path(segment.path), physical_offset - segment.start_offset, expected, found)
        damage.add_note(HINT)
        return damage
