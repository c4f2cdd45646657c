"""Recovery of the index files: makes them agree with the log, from where they are durable or from nothing.

What may be found when they are opened, and the rule for each:

    1  the last writer closed them      all entries count
    2  it did not: killed, power cut    back to the index point (index_point_file.py), up to which they were
                                        durable; without one, RocketMQ's rule: a file that ends later than
                                        checkpoint.indexMsgTimestamp goes
    3  made from another log            the last entry or the anchor is no record of this log: all go
    4  ahead of the log                 the log lost its tail: cut there
    5  with a hole                      somebody wrote to the log without them, or a broker dropped a file:
                                        cut where the first key is missing
    6  in the middle of a record        it had more keys than fitted its file: its other keys follow
    7  with a file of another length    it goes, and all behind it (index_file_list.py)

Then the dispatcher goes on where the entries end: no key is missed and none is there twice. Holes are
searched behind the index point, up to which the files are known to be complete, or without one between
files. Only keys make a hole: tags, which older brokers do not index, may be missing.

It changes the list of files in memory only: its owner saves the point, then cuts the files on disk
(index_file_key_index.py).
Threads: its owner calls it under a lock.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from mqstore.index.index_file.index_file import Rows
from mqstore.index.index_file.index_file_list import IndexFileList
from mqstore.index.index_file.index_point_format import IndexPoint
from mqstore.store.log.commit_log import CommitLog

__all__ = ["IndexRecovery", "Reached"]

_HASH, _PHYSICAL_OFFSET = 0, 2
# More rows than any record has keys; see key_kernels.java_key_entries.
_ROWS: Final = 1 << 16
_WALK_BYTES: Final = 4 << 20


class Reached(NamedTuple):
    """How far the entries go.

    All keys of records below `offset` are in, and the first `rows_done` keys of the record at it.
    anchor_offset, anchor_store_timestamp: of the last record below `offset`, which identifies the log; -1:
    unknown.
    """

    offset: int
    rows_done: int = 0
    anchor_offset: int = -1
    anchor_store_timestamp: int = -1


class IndexRecovery:
    """Brings the files of `row` into agreement with a log."""

    def __init__(self, row: IndexFileList, commit_log: CommitLog, *, with_tags: bool) -> None:
        """with_tags: whether tags are indexed, too. Files that lack them count as complete all the same."""
        self._with_tags = with_tags
        self._row = row
        self._commit_log = commit_log

    def run(self, point: IndexPoint | None, *, after_crash: bool, index_msg_timestamp: int) -> Reached:
        """The rules at the head of this file."""
        row, log = self._row, self._commit_log
        if not self._drop_what_is_not_durable(
            point, after_crash=after_crash, index_msg_timestamp=index_msg_timestamp
        ):
            point = None
        row.drop_damaged()
        if not self._is_of_this_log(point):
            row.keep(0)
            point = None
        reached = Reached(log.min_offset)
        if point is not None and point.dispatched_offset > log.max_offset:
            reached = Reached(log.max_offset)
        elif point is not None and point.dispatched_offset > log.min_offset:
            reached = Reached(point.dispatched_offset, 0, point.anchor_offset, point.anchor_store_timestamp)
        self.cut(log.max_offset)
        if not self._ends_in_this_log():
            row.keep(0)
            reached = Reached(log.min_offset)
        missing = self._first_missing_key(reached.offset)
        if missing is not None:
            self.cut(missing)
            reached = Reached(missing)
        return self.reached_from(reached)

    def _drop_what_is_not_durable(
        self, point: IndexPoint | None, *, after_crash: bool, index_msg_timestamp: int
    ) -> bool:
        """Apply rules 1 and 2; returns whether the point holds."""
        is_true = point is not None and self._row.agrees_with(point, after_crash=after_crash)
        if after_crash:
            if point is not None and is_true:
                self._row.cut_to_point(point)
            else:
                self._row.drop_newer_than(index_msg_timestamp)
        return is_true

    # -- whether it is their log ----------------------------------------------------------------------

    def _is_of_this_log(self, point: IndexPoint | None) -> bool:
        last = self._row.last
        known = [(last.header.end_physical_offset, last.header.end_timestamp_ms)] if last is not None else []
        if point is not None:
            known.append((point.anchor_offset, point.anchor_store_timestamp))
        return all(self._is_record(*each) for each in known)

    def _is_record(self, physical_offset: int, store_timestamp: int) -> bool:
        """Whether the log has such a record, or cannot tell."""
        log = self._commit_log
        if not log.min_offset <= physical_offset < log.max_offset:
            return True
        message = log.look_message_by_offset(physical_offset)
        return message is not None and message.store_timestamp == store_timestamp

    def _ends_in_this_log(self) -> bool:
        """Whether hash and time of the last entry match its record; True if the log cannot tell."""
        last, log = self._row.last, self._commit_log
        if last is None or last.header.end_physical_offset < log.min_offset:
            return True
        end_offset, floor_ms = last.header.end_physical_offset, last.floor_timestamp_of(last.index_count - 1)
        is_its_time = floor_ms < 0 or 0 <= log.store_timestamp_at(end_offset) - floor_ms < 1_000
        wanted = self._codes_wanted(end_offset, with_tags=True)
        # Empty if no entry has the offset at which the header ends.
        codes = last.hashes_of(end_offset)
        return is_its_time and bool(codes) and codes[-1] in wanted

    def cut(self, physical_offset: int) -> None:
        """Drop, in memory, the entries of records at or above `physical_offset`."""
        last_offset = self._row.last_offset_below(physical_offset)
        end_timestamp_ms = self._commit_log.store_timestamp_at(last_offset) if last_offset >= 0 else -1
        self._row.cut(physical_offset, end_timestamp_ms)

    # -- holes ----------------------------------------------------------------------------------------

    def _first_missing_key(self, complete_to: int) -> int | None:
        """Offset of the first record at or above `complete_to` whose keys are not in the files.

        The search looks before each file's first entry at or above that offset. (Behind the point, the
        entries of one file have no holes: a writer begins where the file ends, or misses what comes first.)
        """
        start = least = complete_to
        for file in self._row.files:
            if file.header.end_physical_offset < least:
                continue
            first = file.offset_of(file.count_below(least))
            # A gap between files may cut through the record at either end of it.
            if least > start and not self._has_all_keys(start):
                return start
            missing = self._first_key_between(start, least, first)
            if missing is not None:
                return missing
            if not self._has_all_keys(first):
                return first
            start = file.header.end_physical_offset
            least = start + 1
        return None

    def _has_all_keys(self, physical_offset: int) -> bool:
        """Whether the files have each key of a record; none is needed if the record is gone."""
        wanted = self._codes_wanted(physical_offset, with_tags=False)
        return set(wanted) <= set(self._codes_stored(physical_offset))

    def _first_key_between(self, start: int, least_offset: int, below_offset: int) -> int | None:
        """Offset of the first record with a key in a range, seen from the record at `start` on."""
        for rows in self._walk(start, below_offset, with_tags=False):
            offsets = rows[:, _PHYSICAL_OFFSET]
            found = offsets[offsets >= least_offset]
            if len(found):
                return int(found[0])
        return None

    # -- where the entries end ------------------------------------------------------------------------

    def reached_from(self, reached: Reached) -> Reached:
        """How far the entries go: at least as far as `reached`."""
        last = self._row.last
        if last is None or last.header.end_physical_offset < reached.offset:
            return reached
        end_offset = last.header.end_physical_offset
        return Reached(end_offset, self._count_rows_done(end_offset))

    def _count_rows_done(self, physical_offset: int) -> int:
        """How many of the first keys of a record have an entry: the last entries are compared with them."""
        wanted = self._codes_wanted(physical_offset, with_tags=self._with_tags)
        stored = self._codes_stored(physical_offset)
        counts = range(min(len(wanted), len(stored)), 0, -1)
        return next((count for count in counts if stored[-count:] == wanted[:count]), 0)

    def _codes_wanted(self, physical_offset: int, *, with_tags: bool) -> list[int]:
        """The hashes of a record's keys, in order."""
        message = self._commit_log.look_message_by_offset(physical_offset)
        if message is None:
            return []
        walked = self._walk(physical_offset, physical_offset + message.store_size, with_tags=with_tags)
        return [code for rows in walked for code in rows[:, _HASH].tolist()]

    def _codes_stored(self, physical_offset: int) -> list[int]:
        """The hashes that the files have for a record, in order."""
        return [code for file in self._row.files for code in file.hashes_of(physical_offset)]

    def _walk(self, start: int, below_offset: int, *, with_tags: bool) -> Iterator[Rows]:
        """Keys of the records from `start` on, valid until the next piece. Damage ends the walk."""
        from mqstore.index.keys import key_kernels

        buffer = np.empty((_ROWS, 3), np.int64)
        offset = start
        while offset < below_offset:
            chunk = self._commit_log.chunk(offset, min(_WALK_BYTES, below_offset - offset))
            if chunk is None:
                return
            used, count, _, _, ending = key_kernels.java_key_entries(chunk.data, offset, buffer, 0, with_tags)
            if used == 0 and ending == key_kernels.ENDING_NO_RECORD:
                # The limit may have cut the record.
                message = self._commit_log.look_message_by_offset(offset)
                if message is None or message.store_size <= len(chunk.data):
                    return
                chunk = self._commit_log.chunk(offset, message.store_size)
                assert chunk is not None
                used, count, _, _, ending = key_kernels.java_key_entries(
                    chunk.data, offset, buffer, 0, with_tags
                )
            yield buffer[:count]
            offset = chunk.segment_end if ending == key_kernels.ENDING_BLANK else offset + used

    def __repr__(self) -> str:
        return f"IndexRecovery({self._row!r})"
