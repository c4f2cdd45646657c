"""RocketMQ's index files as a key index: so that a broker finds messages by key in a directory of ours.

A broker that opens the directory continues in the same files; the bytes are those that it would have written
behind the same log (docs/format/index_file.md). Answers are exact all the same: every hit is compared with
its record, and no file is skipped because of its time range, since clocks step back.

Rebuilt from the commit log: delete `index/`, and the next open begins at the first record. What an opening
keeps of existing files: index_file_recovery.py. A reader takes what the files do not hold from the log into
its memory, and changes nothing.

It does not lay out a file (index_file.py), name it or delete it (index_file_list.py).
Threads: `_lock` orders absorbing, flushing and cutting; a query holds it only to find its chains.
Durability: what was absorbed before `flush` or `close` returned; a full file, before the next one begins.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import numpy as np

from mqstore.index.index_file.index_file import IndexFile, IndexFileSize, Rows
from mqstore.index.index_file.index_file_format import key_hash
from mqstore.index.index_file.index_file_list import IndexFileList
from mqstore.index.index_file.index_file_recovery import IndexRecovery, Reached
from mqstore.index.index_file.index_point_file import IndexPointFile
from mqstore.index.index_file.index_point_format import IndexPoint
from mqstore.index.keys.key_index import message_with_key
from mqstore.store.clock import END_OF_TIME_MS, Clock
from mqstore.store.errors import StoreClosed, StoreFull, StorePoisoned, StoreReadOnly
from mqstore.store.files.file_system import FileSystem
from mqstore.store.foreign_error import is_foreign, raise_foreign
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.log_reader import LogChunk
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.threads.lock import Lock

__all__ = ["IndexFileKeyIndex"]

_HASH, _PHYSICAL_OFFSET = 0, 2
# More rows than any record has keys; see key_kernels.java_key_entries.
_ROWS: Final = 1 << 16
# From this much on, `flush_if_due` flushes: a crash costs a walk over it. (A broker: 10 segments at most.)
_FLUSH_ENTRIES: Final = 1 << 20
_FLUSH_BYTES: Final = 1 << 30
_FLUSH_SEGMENTS: Final = 4


class IndexFileKeyIndex:
    """The keys of one store, in RocketMQ's index files; see key_index.py for what the methods promise."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: Path,
        point_path: Path,
        commit_log: CommitLog,
        size: IndexFileSize,
        clock: Clock,
        *,
        after_crash: bool,
        index_msg_timestamp: int = 0,
        read_only: bool = False,
        with_tags: bool = True,
    ) -> None:
        """Open the index files of a log whose end is known (recovery is done).

        after_crash: the last writer, a broker or a store, has not closed the store. index_msg_timestamp:
        as the checkpoint has it. with_tags: index tags too, as brokers from 5.5.0 on do.
        Raises SegmentSizeMismatch, StoreFull.
        """
        self._commit_log = commit_log
        self._clock = clock
        self._read_only = read_only
        self._with_tags = with_tags
        self._lock = Lock()
        # Store time up to which a broker may trust the files: its checkpoint.indexMsgTimestamp. After a kill
        # it keeps a file that ends no later (IndexService#load), and inserts again what it dispatches again.
        self.flushed_timestamp = index_msg_timestamp
        # Called before a header on disk gets a later end: makes that time durable, and the log up to now.
        self.advance_checkpoint: Callable[[int], None] = _advance_nothing
        # All of these under _lock.
        self._row = IndexFileList(file_system, directory, size, read_only=read_only)
        self._recovery = IndexRecovery(self._row, commit_log, with_tags=with_tags)
        self._point_file = IndexPointFile(file_system, point_path)
        self._is_closed = False
        # The sync that failed.
        self._failure: OSError | None = None
        self._rows: Rows = np.empty((_ROWS, 3), np.int64)
        # Reading only: the keys of records that the files do not hold, piece by piece.
        self._tail: list[Rows] = []
        # Entries since the last flush.
        self._unflushed_entries = 0
        self._row.load()
        self._reached = self._recovery.run(
            self._point_file.load(), after_crash=after_crash, index_msg_timestamp=index_msg_timestamp
        )
        if not read_only and (self._row.files or self._row.is_changed):
            self._apply_cut()

    def _apply_cut(self) -> None:
        """Cut the files on disk as in memory: the point first, so that it never claims too much."""
        self._point_file.save(self._point())
        with self._remember_failure():
            self._row.make_disk_follow()

    @contextmanager
    def _remember_failure(self) -> Iterator[None]:
        """Guard a sync of the files: after one that failed, raise that error and try no more.

        A failed sync may have lost what later ones cannot bring back. Nothing is called durable until the
        index is opened again, which goes back to the last point; queries find what the files hold meanwhile.
        """
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except OSError as error:
            # Kept before any call: Ctrl-C is raised at a call.
            self._failure = error
            if is_foreign(error):
                self._failure = None
            raise

    @contextmanager
    def _typed_errors(self) -> Iterator[None]:
        """Raise StorePoisoned instead of OSError, for callers that may be readers."""
        try:
            yield
        except OSError as error:
            raise_foreign(error)
            raise StorePoisoned(self._row.directory, error) from error

    # -- taking in ------------------------------------------------------------------------------------

    @property
    def dispatched_offset(self) -> int:
        """Physical offset up to which keys have been taken in."""
        return max(self._reached.offset, self._commit_log.min_offset)

    @property
    def entry_count(self) -> int:
        """Entries held, those of deleted records that still take room included."""
        with self._lock:
            return sum(file.index_count - 1 for file in self._row.files) + sum(map(len, self._tail))

    def absorb(self, chunk: LogChunk) -> int:
        with self._lock, self._typed_errors():
            self._check_open()
            return self._absorb(chunk)

    def _absorb(self, chunk: LogChunk) -> int:
        from mqstore.index.keys import key_kernels

        consumed, ending = 0, key_kernels.ENDING_NO_ROOM
        while ending == key_kernels.ENDING_NO_ROOM:
            offset = chunk.base_offset + consumed
            used, count, last_at, last_timestamp, ending = key_kernels.java_key_entries(
                chunk.data[consumed:], offset, self._rows, 0, self._with_tags
            )
            try:
                self._take(self._rows[:count])
                if used and offset + used > self._reached.offset:
                    self._reached = Reached(offset + used, 0, offset + last_at, last_timestamp)
            except BaseException:
                # A full disk at the roll, or Ctrl-C: some rows may have been inserted.
                self._reached = self._recovery.reached_from(self._reached)
                raise
            consumed += used
        if ending == key_kernels.ENDING_BLANK:
            consumed = chunk.segment_end - chunk.base_offset
            if chunk.segment_end > self._reached.offset:
                self._reached = self._reached._replace(offset=chunk.segment_end, rows_done=0)
        return consumed

    def _take(self, rows: Rows) -> None:
        """Insert the rows that are new. Raises StoreFull; then some of them may have been inserted."""
        offset, rows_done, *_ = self._reached
        if len(rows) and rows[0, _PHYSICAL_OFFSET] < offset:
            rows = rows[rows[:, _PHYSICAL_OFFSET] >= offset]
        if len(rows) and rows[0, _PHYSICAL_OFFSET] == offset:
            rows = rows[rows_done:]
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
        return self._row.append_file(self._clock.now_ms())

    def flush(self) -> None:
        with self._lock, self._typed_errors():
            self._check_open()
            if not self._read_only:
                self._flush()

    def flush_if_due(self) -> None:
        """As `flush`, if a crash would leave too much to be taken in again.

        A flush writes 20 MB of slots, so it is not done every second. Raises as `flush`.
        """
        saved = self._point_file.point
        saved_offset = saved.dispatched_offset if saved is not None else 0
        limit_bytes = min(_FLUSH_BYTES, _FLUSH_SEGMENTS * self._commit_log.files.file_size_bytes)
        if self._unflushed_entries >= _FLUSH_ENTRIES or self._reached.offset - saved_offset >= limit_bytes:
            self.flush()

    def _flush(self) -> None:
        point, saved = self._point(), self._point_file.point
        last = self._row.last
        if last is not None and (saved is None or saved[3:] != point[3:]):
            with self._remember_failure():
                last.write_slots()
                self.advance_checkpoint(last.header.end_timestamp_ms)
                self.flushed_timestamp = last.header.end_timestamp_ms
                last.write_header()
        self._point_file.save(point)
        self._unflushed_entries = 0

    @property
    def durable_to(self) -> tuple[int, int]:
        """Physical offset and store time up to which the files are durable; (1, 1): nothing is known to be.

        Defined for a log without keys, too. No record behind that offset has an earlier store time.
        """
        point = self._point_file.point
        if point is None:
            return 1, 1
        # Without an anchor: no later than the files end.
        timestamp = max(point.anchor_store_timestamp, 0) or point.header.end_timestamp_ms
        return max(1, point.dispatched_offset), max(1, timestamp)

    def _point(self) -> IndexPoint:
        reached, last = self._reached, self._row.last
        point = IndexPoint(reached.offset, reached.anchor_offset, reached.anchor_store_timestamp)
        if last is None or last.is_empty:
            return point
        return point._replace(file_name=last.name_number, header=last.header)

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
        """Offsets of the records that may have this hash, descending; one may be repeated."""
        with self._lock:
            self._check_open()
            tail = self._tail[::-1]
            chains = [(file, file.first_entry(code)) for file in reversed(self._row.files)]
        for rows in tail:
            yield from rows[rows[:, _HASH] == code, _PHYSICAL_OFFSET][::-1].tolist()
        for file, first_entry in chains:
            yield from file.offsets(code, first_entry, begin_ms, end_ms)

    # -- forgetting and closing -----------------------------------------------------------------------

    def truncate(self, physical_offset: int) -> None:
        with self._lock, self._typed_errors():
            self._check_open()
            offset, rows_done, *_ = self._reached
            if (offset, rows_done) <= (physical_offset, 0):
                return
            self._recovery.cut(physical_offset)
            self._tail = [rows[rows[:, _PHYSICAL_OFFSET] < physical_offset] for rows in self._tail]
            self._reached = Reached(physical_offset)
            if not self._read_only:
                self._apply_cut()

    def delete_expired(self, min_physical_offset: int) -> None:
        """Delete the leading files whose records all lie below `min_physical_offset`; never the last."""
        with self._lock, self._typed_errors():
            self._check_writable()
            self._delete_below(min_physical_offset)

    def _delete_below(self, min_physical_offset: int) -> None:
        files = self._row.files
        while len(files) > 1 and files[0].header.end_physical_offset < min_physical_offset:
            self._row.delete_first()

    def copy_to(self, directory: Path) -> None:
        """A backup copies the files as they are."""

    def close(self) -> None:
        with self._lock, self._typed_errors():
            if self._is_closed:
                return
            try:
                if not self._read_only and self._failure is None:
                    # On a full disk, or if the log is not durable, the files stay behind, and catch up after
                    # the next open.
                    with suppress(StoreFull, StorePoisoned):
                        self._flush()
            finally:
                self._release()

    def drop(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._release()

    def destroy(self) -> None:
        with self._lock:
            if self._read_only:
                raise StoreReadOnly(self._row.directory)
            self._point_file.delete()
            self._row.destroy()
            self._release()

    def _release(self) -> None:
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
        return f"IndexFileKeyIndex({str(self._row.directory)!r}, dispatched_offset={self._reached.offset})"


def _advance_nothing(_timestamp: int) -> None:
    """Do nothing: no checkpoint is advanced."""
