"""The consume queue: where each message of one (topic, queue) lies in the commit log.

A queue is a row of 20-byte entries; entry *n* is found by multiplication, never by search.
Bytes: consume_queue_format.py. Files under it: store/files/mapped_file_queue.py.

It does not read message bodies (store/log/commit_log.py), compute entries (entry_kernels.py), nor remember
what a group has consumed (mqstore/metadata/consumer_offsets.py). All queues together: consume_queue_store.py.

Threads: one dispatcher appends, one retention pass deletes, both under `_lock`; any number of readers look
up without a lock. A reader sees an entry only after `max_offset` has been raised past it. The compiled loop
that appends to many queues at once (`append_runs` in entry_kernels.py) takes no `_lock`: it writes only where
`end` gives it room, in the last file, which no retention pass deletes, and consume_queue_store.py keeps
others from moving the end meanwhile.
Durability: none of its own before `flush`. After a crash the queue is truncated to where it was last known
durable (`truncate`) and dispatched again; a lost queue is rebuilt from the commit log by queue_recovery.py.
So entries carry no checksum.
"""

import bisect
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue_format import (
    BLANK_SIZE,
    ENTRY,
    ENTRY_BYTES,
    ENTRY_DTYPE,
    blank_entries,
)
from mqstore.index.queue.queue_end_row import MAX_OFFSET, MAX_PHYSICAL_OFFSET, QueueEndRow
from mqstore.store.errors import StoreError
from mqstore.store.files.file_system import BytesLike, FileSystem
from mqstore.store.files.mapped_file import MappedFile, MappedFileSettings
from mqstore.store.files.mapped_file_queue import MappedFileQueue
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.record.record_format import FIXED_BYTES
from mqstore.store.threads.lock import Lock

__all__ = ["ConsumeQueue", "PendingEntries", "QueueOffsetConflict", "greatest_queue_offset"]

# How many of the newest files a crash may have left incomplete; RocketMQ's recovery reads this many, too.
_SUSPECT_FILES = 3
# Blank entries that are written at once: a hole in the numbering may be long.
_BLANKS_AT_ONCE = 1 << 16
# A disk writes a sector whole or not at all.
_SECTOR_BYTES = 512
_GREATEST_OFFSET = 2**63 - 1


_logger = logging.getLogger(__name__)


def greatest_queue_offset(next_offset: int, end_offset: int, physical_offset: int) -> int:
    """The greatest queue offset that the record at `physical_offset` can have.

    next_offset: the number behind the queue's last message before that record; the message ends at
    `end_offset`. 0 and 0 when none is known. Numbers are given one by one, in the order of the log from its
    offset 0 on. So there are at most as many numbers in between as shortest records fit there, whatever
    retention or damage took.
    """
    return next_offset + max(0, physical_offset - end_offset) // FIXED_BYTES


class QueueOffsetConflict(StoreError):
    """The log's next message of a queue has not the queue offset that is expected: rebuild the queues."""

    def __init__(self, path: Path, expected: int, found: int, physical_offset: int) -> None:
        super().__init__(
            f"{path} ends at queue offset {expected}, but the log goes on with {found} at physical offset "
            f"{physical_offset}: the queue has lost entries. The messages are in the log; delete the "
            "consumequeue directory and open the store again, which rebuilds it"
        )
        self.path = path
        self.expected = expected
        self.found = found
        self.physical_offset = physical_offset


class ConsumeQueue:
    """The entries of one queue. Queue offsets count entries from 0, also of those long deleted."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: Path,
        topic: str,
        queue_id: int,
        settings: MappedFileSettings,
    ) -> None:
        """After a crash (`settings.after_crash`) entries may be missing at the end; `truncate` follows."""
        self.topic = topic
        self.queue_id = queue_id
        self.directory = directory
        self._file_system = file_system
        # Queue offset of the first entry whose message is still in the log. Written under _lock.
        self.min_offset = 0
        # Where it ends, and how far it is flushed. Written under _lock, and by the table of queue_ends.py;
        # after the bytes.
        self.end = QueueEndRow()
        self._files = MappedFileQueue(file_system, directory, settings)
        self._lock = Lock()

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """The files, oldest first."""
        return self._files.files

    @property
    def max_offset(self) -> int:
        """Queue offset that the next message will get."""
        return self.end.numbers[MAX_OFFSET]

    @property
    def max_physical_offset(self) -> int:
        """End in the commit log of the last message that has an entry; -1 without."""
        return self.end.numbers[MAX_PHYSICAL_OFFSET]

    # -- opening --------------------------------------------------------------------------------------

    def load(self, commit_log_min_offset: int = 0) -> None:
        """Find the files and the end of the entries, by bisection.

        That is exact when all entries before the end are on the disk. After a crash call `truncate`.
        May be called again to see what another process appended. Raises SegmentSizeMismatch,
        CorruptRecord (a gap between files).
        """
        with self._lock:
            self._files.load()
            self._end_at(self._find_end())
            self.min_offset = min(self._files.min_offset // ENTRY_BYTES, self.max_offset)
        self.correct_min_offset(commit_log_min_offset)

    def is_same_on_disk(self) -> bool:
        """Whether its first file is still the one of that name; for readers beside a writer that deletes.

        The first entries are compared: a queue that was deleted and created again begins with another record.
        """
        files = self._files.files
        if not files:
            return True
        try:
            first = self._file_system.read_at(files[0].path, 0, ENTRY_BYTES)
        except FileNotFoundError as error:
            raise_foreign(error)
            # Expired, unless all are gone.
            return any(self._file_system.exists(file.path) for file in files[1:])
        return first == bytes(files[0].view[:ENTRY_BYTES])

    def _find_end(self) -> int:
        """Queue offset behind the last entry, as bisection sees it."""
        for mapped_file in reversed(self._files.files):
            capacity = range(mapped_file.size_bytes // ENTRY_BYTES)
            count = bisect.bisect_left(capacity, True, key=lambda index: not _is_written(mapped_file, index))
            if count or mapped_file is self._files.files[0]:
                return mapped_file.start_offset // ENTRY_BYTES + count
        return 0

    def _end_at(self, queue_offset: int) -> None:
        """Take `queue_offset` as the end of the queue, and all entries before it as durable."""
        self.end.close_room()
        end = queue_offset * ENTRY_BYTES
        for mapped_file in self._files.files:
            # For `reserve`: up to here there is room. From here on it keeps the position by itself.
            mapped_file.wrote_position = max(0, min(end - mapped_file.start_offset, mapped_file.size_bytes))
        last = self._entry_before(queue_offset)
        log_end = last[0] + last[1] if last is not None and last[1] != BLANK_SIZE else -1
        # A damaged entry may hold any number.
        self.end.reset_to(queue_offset, min(log_end, _GREATEST_OFFSET))

    def _entry_before(self, queue_offset: int) -> tuple[int, int, int] | None:
        offset = (queue_offset - 1) * ENTRY_BYTES
        mapped_file = self._files.file_for(offset) if queue_offset else None
        if mapped_file is None:
            return None
        return ENTRY.unpack_from(mapped_file.view, offset - mapped_file.start_offset)

    def truncate(self, physical_offset: int, is_entry: Callable[[int, int, int], bool] | None = None) -> None:
        """Drop the entries of messages at or behind `physical_offset`, and what a crash left after a hole.

        `is_entry` says whether the log has (queue offset, physical offset, size). It is asked about a last
        entry that crosses two sectors: a power cut may have kept its size alone, and the zeros before that
        would look like an offset.

        Dropped entries are erased and the erasure is synced, so no stale entry can come back. The first file
        is kept if it does not begin at 0, because its name carries the numbering.
        """
        with self._lock:
            self._truncate(physical_offset, is_entry)

    def _truncate(self, physical_offset: int, is_entry: Callable[[int, int, int], bool] | None) -> None:
        self.end.close_room()
        files = self._files
        while len(files.files) > 1 and not _begins_below(files.files[-1], physical_offset):
            files.delete_from(files.files[-1].start_offset)
        end = files.min_offset // ENTRY_BYTES
        for mapped_file in files.files[-_SUSPECT_FILES:]:
            count = _count_below(mapped_file, physical_offset)
            end = mapped_file.start_offset // ENTRY_BYTES + count
            if count and is_entry is not None and _is_across_sectors(count - 1):
                last_offset, last_size, _ = ENTRY.unpack_from(mapped_file.view, (count - 1) * ENTRY_BYTES)
                if last_size != BLANK_SIZE and not is_entry(end - 1, last_offset, last_size):
                    count, end = count - 1, end - 1
            if count < mapped_file.size_bytes // ENTRY_BYTES:
                files.delete_from(mapped_file.end_offset)
                mapped_file.erase_from(count * ENTRY_BYTES)
                break
        if end == 0:
            self._clear()
        self._end_at(end)
        self.min_offset = min(self.min_offset, end)

    # -- appending ------------------------------------------------------------------------------------

    def append_entries(self, queue_offset: int, entries: BytesLike, *, follow_log: bool = False) -> int:
        """Append the packed entries of consecutive messages; returns how many were new.

        Entries of messages that the queue has already (by their physical offset) are skipped, so the log may
        be dispatched twice. The others must begin at `max_offset`; an entry below it is skipped, as in
        RocketMQ.

        With `follow_log`, which is for a rebuild from the first segment on, the queue follows the log: it may
        begin above 0 (pre-blank entries), skip offsets (blank entries) or begin again at 0 (its topic was
        deleted and created again). Without it each of these means that the queue has lost entries. Only a
        number for which the log has no room (`greatest_queue_offset`) is skipped: `verify` reports it.

        Raises QueueOffsetConflict, StoreFull; entries appended before that stay.
        """
        data = memoryview(entries)
        with self._lock:
            known = self._count_known(data)
            queue_offset += known
            data = data[known * ENTRY_BYTES :]
            if data and queue_offset != self.max_offset:
                queue_offset, data = self._reconcile(queue_offset, data, follow_log)
            if data:
                self._append(data)
            return len(data) // ENTRY_BYTES

    def _count_known(self, data: memoryview) -> int:
        """How many entries at the beginning of `data` are of messages that the queue has."""
        if not data or ENTRY.unpack_from(data)[0] >= self.max_physical_offset:
            return 0
        return bisect.bisect_right(
            range(len(data) // ENTRY_BYTES),
            self.max_physical_offset,
            key=lambda index: sum(ENTRY.unpack_from(data, index * ENTRY_BYTES)[:2]),
        )

    def _reconcile(self, queue_offset: int, data: memoryview, follow_log: bool) -> tuple[int, memoryview]:
        """Make `queue_offset` the end of the queue, or cut `data` so that it begins there."""
        end, physical_offset = self.max_offset, ENTRY.unpack_from(data)[0]
        if 0 < queue_offset < end:
            below = min(end - queue_offset, len(data) // ENTRY_BYTES)
            return queue_offset + below, data[below * ENTRY_BYTES :]
        if not follow_log:
            raise QueueOffsetConflict(self._files.directory, end, queue_offset, physical_offset)
        greatest = greatest_queue_offset(end, max(self.max_physical_offset, 0), physical_offset)
        if not 0 <= queue_offset <= greatest:
            _logger.warning(
                "%r: the record at physical offset %d has queue offset %d, and %d is the most: passed over",
                str(self.directory),
                physical_offset,
                queue_offset,
                greatest,
            )
            return queue_offset, data[:0]
        if queue_offset == 0:
            self._clear()
        elif self.max_physical_offset < 0:
            self._begin_at(queue_offset)
        else:
            for at in range(end, queue_offset, _BLANKS_AT_ONCE):
                self._append(blank_entries(min(queue_offset - at, _BLANKS_AT_ONCE), physical_offset))
        return queue_offset, data

    def _clear(self) -> None:
        self.end.close_room()
        self._files.delete_from(0)
        self.min_offset = 0
        self._end_at(0)

    def _begin_at(self, queue_offset: int) -> None:
        """Begin an empty queue above 0 as RocketMQ does: pre-blank entries from the file's start on."""
        self._clear()
        file_size_bytes = self._files.file_size_bytes
        position = queue_offset * ENTRY_BYTES % file_size_bytes
        first = self._files.append_file(queue_offset * ENTRY_BYTES - position)
        self.end.reset_to(first.start_offset // ENTRY_BYTES, -1)
        self._append(blank_entries(position // ENTRY_BYTES))
        self.min_offset = queue_offset

    def _append(self, data: BytesLike) -> None:
        """Write entries at the end, file by file, and publish them."""
        data = memoryview(data)
        while data:
            end = self.max_offset * ENTRY_BYTES
            mapped_file = self._files.file_for(end) or self._files.append_file(end)
            position = end - mapped_file.start_offset
            part = data[: mapped_file.size_bytes - position]
            mapped_file.write(position, part)
            last_offset, last_size, _ = ENTRY.unpack_from(part, len(part) - ENTRY_BYTES)
            is_message = last_size != BLANK_SIZE
            max_offset = self.max_offset + len(part) // ENTRY_BYTES
            log_end = last_offset + last_size if is_message else self.max_physical_offset
            self.end.raise_to(max_offset, log_end)
            self.end.open_room(mapped_file)
            data = data[len(part) :]

    def flush(self) -> None:
        """Make the entries appended before this call durable. An OSError is final: never retry it."""
        pending = self.pending()
        for mapped_file in pending.files:
            mapped_file.sync()
        self.sync_names(set())
        self.mark_flushed(pending)

    def pending(self) -> "PendingEntries":
        """What a flush now has to make durable; for a caller that flushes many queues together."""
        start, end = self.end.flushed_offset, self.max_offset
        start_bytes, end_bytes = start * ENTRY_BYTES, end * ENTRY_BYTES
        files = [
            mapped_file
            for mapped_file in self._files.files
            if start != end and mapped_file.start_offset < end_bytes and mapped_file.end_offset > start_bytes
        ]
        return PendingEntries(files, end)

    def sync_names(self, already: set[Path]) -> None:
        """Make the names of new files durable.

        already: directories that were synced since these files were added. Those synced now are added.
        """
        self._files.sync_names(already)

    def mark_flushed(self, pending: "PendingEntries") -> None:
        """Count these entries as durable: their files were synced, and the names of those."""
        self.end.flushed_offset = pending.end_offset

    # -- reading --------------------------------------------------------------------------------------

    def entries_from(self, queue_offset: int, count: int) -> npt.NDArray[np.void]:
        """Up to `count` entries from `queue_offset` on, as an array of ENTRY_DTYPE over the mapped file.

        It ends at the end of a file: ask again for more. Empty outside min_offset to max_offset.
        """
        view = self.view_from(queue_offset, count)
        return np.frombuffer(view, ENTRY_DTYPE)

    def view_from(self, queue_offset: int, count: int) -> memoryview:
        """The bytes of `entries_from`: cheaper where a few entries are unpacked one by one."""
        count = min(count, self.max_offset - queue_offset)
        if count <= 0 or queue_offset < self.min_offset:
            return _NOTHING
        mapped_file = self._files.file_for(queue_offset * ENTRY_BYTES)
        if mapped_file is None:
            return _NOTHING
        position = queue_offset * ENTRY_BYTES - mapped_file.start_offset
        try:
            return mapped_file.view[position : position + count * ENTRY_BYTES]
        except FileNotFoundError as error:
            raise_foreign(error)
            # Deleted by retention (of another process, perhaps) before it was first mapped here.
            return _NOTHING

    def entry_at(self, queue_offset: int) -> tuple[int, int, int] | None:
        """(physical offset, size, tags code) of one entry; None outside min_offset to max_offset."""
        view = self.view_from(queue_offset, 1)
        return ENTRY.unpack(view) if view else None

    def end_below(self, physical_offset: int) -> int:
        """Queue offset behind the last entry whose message is before `physical_offset`."""
        # Read first: an append in between then changes the second number alone.
        numbers = self.end.numbers
        max_offset = numbers[MAX_OFFSET]
        if numbers[MAX_PHYSICAL_OFFSET] <= physical_offset:
            return max_offset
        entries = range(self.min_offset, max_offset)
        return self.min_offset + bisect.bisect_left(
            entries, True, key=lambda at: not self._is_below(at, physical_offset)
        )

    def _is_below(self, queue_offset: int, physical_offset: int) -> bool:
        entry = self.entry_at(queue_offset)
        return entry is not None and entry[0] < physical_offset

    def roll_next_file(self, queue_offset: int) -> int:
        """Queue offset of the first entry of the file after that of `queue_offset`."""
        entries_per_file = self._files.file_size_bytes // ENTRY_BYTES
        return queue_offset + entries_per_file - queue_offset % entries_per_file

    # -- retention ------------------------------------------------------------------------------------

    def correct_min_offset(self, commit_log_min_offset: int) -> None:
        """Raise `min_offset` to the first entry whose message is not before `commit_log_min_offset`.

        Blank entries are never the minimum. (RocketMQ may return one of them after a restart, and then skips
        messages behind it.)
        """
        with self._lock:
            start = max(self.min_offset, self._files.min_offset // ENTRY_BYTES)
            self.min_offset = start
            kept = bisect.bisect_left(
                range(start, self.max_offset), True, key=lambda at: self._is_kept(at, commit_log_min_offset)
            )
            self.min_offset = start + kept
            for _ in self._blanks_from(self.min_offset):
                self.min_offset += 1

    def _is_kept(self, queue_offset: int, commit_log_min_offset: int) -> bool:
        entry = self.entry_at(queue_offset)
        return entry is not None and entry[0] >= commit_log_min_offset and entry[:2] != (0, BLANK_SIZE)

    def _blanks_from(self, queue_offset: int) -> Iterator[int]:
        while (entry := self.entry_at(queue_offset)) is not None and entry[1] == BLANK_SIZE:
            yield queue_offset
            queue_offset += 1

    def delete_expired(self, commit_log_min_offset: int) -> int:
        """Delete files whose messages are all gone from the log, never the last; returns how many."""
        self.correct_min_offset(commit_log_min_offset)
        with self._lock:
            return self._delete_files_before(self.min_offset * ENTRY_BYTES)

    def _delete_files_before(self, position: int) -> int:
        deleted = 0
        while len(self._files.files) > 1 and self._files.files[0].end_offset <= position:
            self._files.delete_first()
            deleted += 1
        return deleted

    def restart_if_empty(self) -> None:
        """Let the numbering of a queue without entries begin at 0 again.

        Only for a log that still begins at 0: nothing of the queue was ever deleted then. If its first file
        begins later, a power cut kept the name of that file and lost that of the file before it.
        """
        with self._lock:
            if self.max_offset and self.max_physical_offset < 0:
                self._clear()

    def destroy(self) -> None:
        """Delete all files; the numbering begins again at 0."""
        with self._lock:
            self._clear()
            self._files.destroy()

    def __repr__(self) -> str:
        return (
            f"ConsumeQueue(topic={self.topic!r}, queue_id={self.queue_id}, "
            f"min_offset={self.min_offset}, max_offset={self.max_offset})"
        )


class PendingEntries(NamedTuple):
    """The files whose syncs make all entries before `end_offset` durable."""

    files: list[MappedFile]
    end_offset: int


_NOTHING = memoryview(b"")


def _is_written(mapped_file: MappedFile, index: int) -> bool:
    physical_offset, size, _ = ENTRY.unpack_from(mapped_file.view, index * ENTRY_BYTES)
    return bool(size > 0 and physical_offset >= 0)


def _is_across_sectors(index: int) -> bool:
    start = index * ENTRY_BYTES
    return start // _SECTOR_BYTES != (start + ENTRY_BYTES - 1) // _SECTOR_BYTES


def _begins_below(mapped_file: MappedFile, physical_offset: int) -> bool:
    """Whether the first entry is written and of a message before `physical_offset`."""
    return _is_written(mapped_file, 0) and bool(ENTRY.unpack_from(mapped_file.view)[0] < physical_offset)


def _count_below(mapped_file: MappedFile, physical_offset: int) -> int:
    """How many entries from the file's start on are written and of messages before `physical_offset`."""
    entries = np.frombuffer(mapped_file.view, ENTRY_DTYPE)
    offsets = entries["physical_offset"]
    is_kept = (entries["size"] > 0) & (offsets >= 0) & (offsets < physical_offset)
    return len(is_kept) if is_kept.all() else int(is_kept.argmin())
