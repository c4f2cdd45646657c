"""RocketMQ's index files as a key index: so that a broker finds messages by key in a directory of ours.

A broker that opens the directory goes on in the same files; the bytes are those that it would have written
behind the same log (docs/format/index_file.md). Answers are exact all the same: every hit is compared with
its record, and no file is passed over because of its time range, as clocks step back.

Rebuilt from the commit log: delete `index/`, and the next open begins at the first record. What may be found
when they are opened, and the rule for each:

    1  the last writer closed them      all entries count
    2  it did not: killed, power cut    back to the index point (index_point_file.py), up to which they were
                                        durable; without one, RocketMQ's rule: a file that ends later than
                                        checkpoint.indexMsgTimestamp goes
    3  made from another log            the last entry or the anchor is no record of this log: all go
    4  ahead of the log                 the log lost its tail: cut there
    5  with a hole                      somebody wrote to the log without them, or a broker dropped a file:
                                        cut where the first key is missing
    6  in the middle of a record        it had more keys than fitted its file: its other keys follow

Then the dispatcher goes on where the entries end: no key is missed and none is there twice. Holes are looked
for behind the index point, up to which the files are known to be complete, and without one between files.

A reader takes what the point does not speak of from the log into its memory, and changes nothing.
It does not lay out a file (index_file.py), name it or delete it (index_file_row.py).
Threads: `_lock` orders those who absorb, flush and cut; a query holds it only to find its chains.
Durability: what was absorbed before `flush` or `close` returned; a full file is before the next begins.
"""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np

from mqstore.index.index_file import IndexFile, IndexFileSize, Rows
from mqstore.index.index_file_format import key_hash
from mqstore.index.index_file_row import IndexFileRow
from mqstore.index.index_point_file import IndexPointFile
from mqstore.index.index_point_format import IndexPoint
from mqstore.index.key_lookup import END_OF_TIME_MS, message_with_key
from mqstore.store.clock import Clock
from mqstore.store.commit_log import CommitLog, LogChunk
from mqstore.store.errors import StoreClosed, StoreFull, StoreReadOnly
from mqstore.store.file_system import FileSystem
from mqstore.store.stored_message import StoredMessage

__all__ = ["IndexFiles"]

_HASH, _PHYSICAL_OFFSET = 0, 2
# More rows than any record has keys; see kernels.key_entries.
_ROWS: Final = 1 << 16
_WALK_BYTES: Final = 4 << 20
# What `flush_if_due` lets gather: it is walked again after a crash.
_FLUSH_ENTRIES: Final = 1 << 20
_FLUSH_BYTES: Final = 1 << 30


class IndexFiles:
    """The keys of one store, in RocketMQ's index files; see key_lookup.py for what the methods promise."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: Path,
        point_path: Path,
        commit_log: CommitLog,
        size: IndexFileSize,
        clock: Clock,
        *,
        clean: bool,
        index_msg_timestamp: int = 0,
        read_only: bool = False,
    ) -> None:
        """Open the index files of a log whose end is known (recovery is done).

        clean: the last writer, a broker or a store, closed the directory. index_msg_timestamp: as the
        checkpoint has it. Raises SegmentSizeMismatch, StoreFull.
        """
        self._commit_log = commit_log
        self._clock = clock
        self._read_only = read_only
        self._lock = threading.Lock()
        # Store time up to which a broker may take the files for durable: its checkpoint.indexMsgTimestamp.
        self.flushed_timestamp = index_msg_timestamp
        # All of these under _lock.
        self._row = IndexFileRow(file_system, directory, size, writable=not read_only)
        self._point_file = IndexPointFile(file_system, point_path)
        self._is_closed = False
        self._rows: Rows = np.empty((_ROWS, 3), np.int64)
        # Reading only: the keys of records that the files do not hold, piece by piece.
        self._tail: list[Rows] = []
        # Everything below _reached is done, and so many rows of the record at it.
        self._reached = 0
        self._rows_done = 0
        # The last record below _reached, and when it was stored; -1 when not known.
        self._anchor = (-1, -1)
        # Entries since the last flush.
        self._unflushed_entries = 0
        self._row.load()
        self._agree_with_log(clean=clean)

    # -- opening --------------------------------------------------------------------------------------

    def _agree_with_log(self, *, clean: bool) -> None:
        """The rules at the head of this file."""
        row, log = self._row, self._commit_log
        point = self._trusted_point(clean=clean)
        row.drop_damaged()
        if not self._is_of_this_log(point):
            row.keep(0)
            point = None
        complete_to = point.dispatched_offset if point is not None else 0
        if point is not None and complete_to <= log.max_offset:
            self._anchor = point.anchor_offset, point.anchor_store_timestamp
        complete_to = max(log.min_offset, min(complete_to, log.max_offset))
        self._cut(log.max_offset)
        if not self._ends_in_this_log():
            row.keep(0)
            complete_to, self._anchor = log.min_offset, (-1, -1)
        missing = self._first_missing_key(complete_to)
        if missing is not None:
            self._cut(missing)
            complete_to, self._anchor = missing, (-1, -1)
        self._go_on_from(complete_to)
        if not self._read_only and (row.is_changed or row.files):
            self._point_file.save(self._point())
            row.make_disk_follow()

    def _trusted_point(self, *, clean: bool) -> IndexPoint | None:
        """The point, if the files are what it says; what it does not speak of is dropped after a crash."""
        row, point = self._row, self._point_file.load()
        agrees = point is not None and row.agrees_with(point, clean=clean)
        if not clean:
            if point is not None and agrees:
                row.cut_to_point(point)
            else:
                row.drop_newer_than(self.flushed_timestamp)
        return point if agrees else None

    def _is_of_this_log(self, point: IndexPoint | None) -> bool:
        last = self._row.last
        known = [(last.header.end_physical_offset, last.header.end_timestamp_ms)] if last is not None else []
        if point is not None:
            known.append((point.anchor_offset, point.anchor_store_timestamp))
        return all(self._is_record(*each) for each in known)

    def _ends_in_this_log(self) -> bool:
        """Whether the last entry is a key of its record, of its second, or the log cannot tell."""
        last, log = self._row.last, self._commit_log
        if last is None or last.header.end_physical_offset < log.min_offset:
            return True
        end_offset, floor_ms = last.header.end_physical_offset, last.floor_timestamp_of(last.index_count - 1)
        is_its_time = floor_ms < 0 or 0 <= log.store_timestamp_at(end_offset) - floor_ms < 1_000
        return is_its_time and self._count_rows_done(end_offset) > 0

    def _is_record(self, physical_offset: int, store_timestamp: int) -> bool:
        """Whether the log has such a record, or cannot tell."""
        log = self._commit_log
        if not log.min_offset <= physical_offset < log.max_offset:
            return True
        message = log.look_message_by_offset(physical_offset)
        return message is not None and message.store_timestamp == store_timestamp

    def _first_missing_key(self, complete_to: int) -> int | None:
        """Offset of the first record at or above `complete_to` whose keys are not in the files.

        Looked for in front of each file's first entry that is at or above. (Entries of one file are without
        holes behind the point: whoever appends to a file begins where it ends, or misses what comes first.)
        """
        start = least = complete_to
        for file in self._row.files:
            if file.header.end_physical_offset < least:
                continue
            first = file.offset_of(file.count_below(least))
            missing = self._first_key_between(start, least, first)
            # Records that a file boundary, or two, may have cut.
            if least > start and not self._has_all_keys(start):
                missing = start
            if missing is None and not self._has_all_keys(first):
                missing = first
            if missing is not None:
                return missing
            start = file.header.end_physical_offset
            least = start + 1
        return None

    def _has_all_keys(self, physical_offset: int) -> bool:
        """Whether the files have each key of a record; of one that is gone they need none."""
        return set(self._codes_wanted(physical_offset)) <= set(self._codes_stored(physical_offset))

    def _codes_wanted(self, physical_offset: int) -> list[int]:
        """The hashes of a record's keys, in order."""
        message = self._commit_log.look_message_by_offset(physical_offset)
        if message is None:
            return []
        walked = self._walk(physical_offset, physical_offset + message.store_size)
        return [code for rows in walked for code in rows[:, _HASH].tolist()]

    def _codes_stored(self, physical_offset: int) -> list[int]:
        """The hashes that the files have for a record, in order."""
        return [code for file in self._row.files for code in file.hashes_of(physical_offset)]

    def _first_key_between(self, start: int, least_offset: int, below_offset: int) -> int | None:
        """Offset of the first record with a key in a range, seen from the record at `start` on."""
        for rows in self._walk(start, below_offset):
            offsets = rows[:, _PHYSICAL_OFFSET]
            found = offsets[offsets >= least_offset]
            if len(found):
                return int(found[0])
        return None

    def _walk(self, start: int, below_offset: int) -> Iterator[Rows]:
        """Keys of the records from `start` on, lent until the next piece. Damage ends it."""
        from mqstore.index import kernels

        offset = start
        while offset < below_offset:
            chunk = self._commit_log.chunk(offset, min(_WALK_BYTES, below_offset - offset))
            if chunk is None:
                return
            used, count, _, _, ending = kernels.java_key_entries(chunk.data, offset, self._rows, 0)
            if used == 0 and ending == kernels.ENDING_NO_RECORD:
                # Cut by the limit, perhaps.
                message = self._commit_log.look_message_by_offset(offset)
                if message is None or message.store_size <= len(chunk.data):
                    return
                chunk = self._commit_log.chunk(offset, message.store_size)
                assert chunk is not None
                used, count, _, _, ending = kernels.java_key_entries(chunk.data, offset, self._rows, 0)
            yield self._rows[:count]
            offset = chunk.segment_end if ending == kernels.ENDING_BLANK else offset + used

    def _go_on_from(self, complete_to: int) -> None:
        """Set where the entries end: behind everything below `complete_to`, or in the middle of a record."""
        last = self._row.last
        end_offset = last.header.end_physical_offset if last is not None else -1
        self._reached, self._rows_done = max(complete_to, end_offset), 0
        if end_offset >= complete_to:
            self._anchor = (-1, -1)
            self._rows_done = self._count_rows_done(end_offset)

    def _count_rows_done(self, physical_offset: int) -> int:
        """How many of a record's keys, from the first on, the entries end with."""
        wanted, stored = self._codes_wanted(physical_offset), self._codes_stored(physical_offset)
        counts = range(min(len(wanted), len(stored)), 0, -1)
        return next((count for count in counts if stored[-count:] == wanted[:count]), 0)

    # -- cutting --------------------------------------------------------------------------------------

    def _cut(self, physical_offset: int) -> None:
        """Drop in memory what is at or above `physical_offset`."""
        last_offset = self._row.last_offset_below(physical_offset)
        end_timestamp_ms = self._commit_log.store_timestamp_at(last_offset) if last_offset >= 0 else -1
        self._row.cut(physical_offset, end_timestamp_ms)

    def truncate(self, physical_offset: int) -> None:
        with self._lock:
            self._check_open()
            if self._reached < physical_offset or (self._reached, self._rows_done) == (physical_offset, 0):
                return
            self._cut(physical_offset)
            self._tail = [rows[rows[:, _PHYSICAL_OFFSET] < physical_offset] for rows in self._tail]
            self._reached, self._rows_done, self._anchor = physical_offset, 0, (-1, -1)
            if not self._read_only:
                # In this order: a point never speaks of entries that are gone.
                self._point_file.save(self._point())
                self._row.make_disk_follow()

    # -- taking in ------------------------------------------------------------------------------------

    @property
    def dispatched_offset(self) -> int:
        """Physical offset up to which keys have been taken in."""
        return max(self._reached, self._commit_log.min_offset)

    @property
    def entry_count(self) -> int:
        """Entries held, those of deleted records that still take room included."""
        with self._lock:
            return sum(file.index_count - 1 for file in self._row.files) + sum(map(len, self._tail))

    def absorb(self, chunk: LogChunk) -> int:
        from mqstore.index import kernels

        with self._lock:
            self._check_open()
            consumed = 0
            while True:
                offset = chunk.base_offset + consumed
                used, count, last_at, last_timestamp, ending = kernels.java_key_entries(
                    chunk.data[consumed:], offset, self._rows, 0
                )
                try:
                    self._take(self._rows[:count])
                except BaseException:
                    # A full disk at the roll, or Ctrl-C: some of it may have been inserted.
                    self._go_on_from(self._reached)
                    raise
                consumed += used
                if last_at >= 0 and offset + last_at >= self._reached:
                    self._anchor = offset + last_at, last_timestamp
                if used and offset + used > self._reached:
                    self._reached, self._rows_done = offset + used, 0
                if ending != kernels.ENDING_NO_ROOM:
                    break
            if ending == kernels.ENDING_BLANK:
                consumed = chunk.segment_end - chunk.base_offset
                self._reached = max(self._reached, chunk.segment_end)
            return consumed

    def _take(self, rows: Rows) -> None:
        """Insert what is not there yet. Raises StoreFull; then some of it may have been inserted."""
        if len(rows) and rows[0, _PHYSICAL_OFFSET] < self._reached:
            rows = rows[rows[:, _PHYSICAL_OFFSET] >= self._reached]
        if len(rows) and rows[0, _PHYSICAL_OFFSET] == self._reached:
            rows = rows[self._rows_done :]
        if self._read_only:
            if len(rows):
                self._tail.append(rows.copy())
            return
        while len(rows):
            count = self._file_with_room().put(rows)
            self._unflushed_entries += count
            rows = rows[count:]

    def _file_with_room(self) -> IndexFile:
        last = self._row.last
        if last is not None and not last.is_full:
            return last
        if last is not None:
            self._flush()
            last.release_slots()
            self.flushed_timestamp = last.header.end_timestamp_ms
        return self._row.append_file(self._clock.now_ms())

    def flush(self) -> None:
        with self._lock:
            self._check_open()
            if not self._read_only:
                self._flush()

    def flush_if_due(self) -> None:
        """As `flush`, if that much has gathered that taking it in again after a crash would be long.

        A round of it writes 20 MB of slots, so it is not done every second. Raises as `flush`.
        """
        saved = self._point_file.point
        saved_offset = saved.dispatched_offset if saved is not None else 0
        if self._unflushed_entries >= _FLUSH_ENTRIES or self._reached - saved_offset >= _FLUSH_BYTES:
            self.flush()

    def _flush(self) -> None:
        point, saved = self._point(), self._point_file.point
        last = self._row.last
        if last is not None and (saved is None or saved[3:] != point[3:]):
            last.write_back()
            last.sync()
        self._point_file.save(point)
        self._unflushed_entries = 0

    def _point(self) -> IndexPoint:
        last = self._row.last
        if last is None or last.is_empty:
            return IndexPoint(self._reached, *self._anchor)
        return IndexPoint(self._reached, *self._anchor, last.name_number, last.header)

    # -- asking ---------------------------------------------------------------------------------------

    def query(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = END_OF_TIME_MS, max_num: int = 32
    ) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        last_offset = -1
        for offset in self._newest_offsets(key_hash(topic, key), begin_ms, end_ms):
            if len(found) >= max_num or offset < self._commit_log.min_offset:
                break
            if offset != last_offset:
                message = message_with_key(self._commit_log, offset, topic, key, begin_ms, end_ms)
                if message is not None:
                    found.append(message)
            last_offset = offset
        return found[::-1]

    def _newest_offsets(self, code: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Offsets of the records that may have this hash, descending; one may come more than once."""
        with self._lock:
            self._check_open()
            tail = self._tail[::-1]
            chains = [(file, file.first_entry(code)) for file in reversed(self._row.files)]
        for rows in tail:
            yield from rows[rows[:, _HASH] == code, _PHYSICAL_OFFSET][::-1].tolist()
        for file, first_entry in chains:
            yield from file.offsets(code, first_entry, begin_ms, end_ms)

    # -- forgetting and closing -----------------------------------------------------------------------

    def delete_expired(self, min_physical_offset: int) -> None:
        """Delete the leading files whose records all lie below `min_physical_offset`; never the last."""
        with self._lock:
            self._check_writable()
            files = self._row.files
            while len(files) > 1 and files[0].header.end_physical_offset < min_physical_offset:
                self._row.delete_first()

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            try:
                if not self._read_only:
                    # On a full disk they stay behind the log, and catch up after the next open.
                    with suppress(StoreFull):
                        self._flush()
            finally:
                self._let_go()

    def destroy(self) -> None:
        with self._lock:
            if self._read_only:
                raise StoreReadOnly(self._row.directory)
            self._point_file.delete()
            self._row.destroy()
            self._let_go()

    def _let_go(self) -> None:
        self._is_closed = True
        self._row.files.clear()
        self._tail.clear()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed(self._row.directory)

    def _check_writable(self) -> None:
        self._check_open()
        if self._read_only:
            raise StoreReadOnly(self._row.directory)

    def __repr__(self) -> str:
        return f"IndexFiles({str(self._row.directory)!r}, dispatched_offset={self._reached})"
