"""The commit log: the one sequence of records that everything else is derived from.

It assigns queue offsets and physical offsets, appends under one lock, closes a full segment with a BLANK
record, and reads records back. Bytes: record_format.py. Files: mapped_file_queue.py.

It does not encode properties or check messages (message_encoder.py), sync (flusher.py), find its end after
a crash (recovery.py), delete old segments (retention.py), or know that consume queues exist: whoever
derives from the log reads `chunk`s behind the writer.

Threads: any number append, one at a time, under `_lock`; readers take no lock and see only what lies
below `visible_offset`: what is written, or with SYNC_FLUSH what is durable.
Durability: none when `append` returns; see flusher.py.
"""

import struct
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mqstore.store.bulk.record_block import AppendedBlock, RecordBlock
from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreError, StorePoisoned
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.mapped_file import MappedFile, MappedFileSettings
from mqstore.store.files.mapped_file_queue import MappedFileQueue
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.message.message_encoder import EncodedMessage
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.record_format import (
    BLANK_MIN_BYTES,
    HEADER_BYTES,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    encode_blank,
    encode_from,
    store_timestamp_position,
)
from mqstore.store.record.sys_flag import BORN_HOST_V6, COMPRESSED, STORE_HOST_V6
from mqstore.store.status import PutMessageStatus

__all__ = ["CommitLog", "LogChunk"]

T = TypeVar("T")

_PUT_OK = PutMessageStatus.PUT_OK
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
# Size, magic, physical offset, sys flag, and the body's length where both hosts are IPv4.
_LOOKED_AT = struct.Struct(">ii20xqi44xi")
assert _LOOKED_AT.size == HEADER_BYTES
# With one of them, a body lies elsewhere, or is not to be lent.
_RARE_BITS = BORN_HOST_V6 | STORE_HOST_V6 | COMPRESSED


# How often a putter lets others run before it blocks on the append lock.
_YIELDS = 100
# A record this long is copied without the interpreter's lock: whoever is at it can only be waited for.
_LONG_COPY_BYTES = 16 << 10


class LogChunk(NamedTuple):
    """Consecutive bytes of one segment, beginning at a record; lent.

    base_offset: physical offset of data[0]. data: uint8. segment_end: physical offset behind the segment.
    """

    base_offset: int
    data: npt.NDArray[np.uint8]
    segment_end: int


class CommitLog:
    """The row of log segments of one store."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: Path,
        config: StoreConfig,
        clock: Clock,
        *,
        read_only: bool = False,
    ) -> None:
        self.files = MappedFileQueue(
            file_system,
            directory,
            MappedFileSettings(
                file_size_bytes=config.mapped_file_size_commit_log,
                size_key="mapped_file_size_commit_log",
                reserve_window_bytes=config.reserve_window_commit_log,
                read_only=read_only,
            ),
        )
        self.path = directory
        # Raised by flusher.py alone, after a sync; never ahead of max_offset.
        self.flushed_offset = 0
        # Store time of the newest record; written under _lock.
        self.last_store_timestamp = 0
        # Asked before a segment is added: why nothing may be written any more, None while it may.
        self.may_not_grow: Callable[[], StoreError | None] = _may_grow
        # Asked once for each queue that is put to; set by whoever knows the queues.
        self.first_queue_offset: Callable[[str, int], int] = _begin_at_zero
        # Called by the writer when less than half a reserved window is left.
        self.on_low_space: Callable[[], None] | None = None
        self._now_ms = clock.now_ms
        self._store_host = config.store_host.encode()
        self._segment_bytes = config.mapped_file_size_commit_log
        self._is_sync_flush = config.is_sync_flush
        self._lock = threading.Lock()
        # The segment that is appended to; None before the first append to an empty log. Under _lock.
        self._current: MappedFile | None = None
        # Next queue offset of each (topic, queue id). Under _lock.
        self._queue_offsets: dict[tuple[str, int], int] = {}
        # Why appends are refused at the moment, as an error to raise; None when they are not.
        self._refusal: Callable[[], StoreError] | None = None

    # -- where the log begins and ends ----------------------------------------------------------------

    @property
    def min_offset(self) -> int:
        """Physical offset of the first byte that is kept."""
        return self.files.min_offset

    @property
    def max_offset(self) -> int:
        """Physical offset behind the last record written."""
        current = self._current
        return current.start_offset + current.wrote_position if current is not None else self.min_offset

    @property
    def visible_offset(self) -> int:
        """Physical offset that readers may read up to: durable with SYNC_FLUSH, else written."""
        return self.flushed_offset if self._is_sync_flush else self.max_offset

    def load(self) -> None:
        """Find the segments; their end is known after `set_end`.

        Raises SegmentSizeMismatch, CorruptRecord.
        """
        self.files.load()

    def set_end(self, end_offset: int, last_store_timestamp: int) -> None:
        """Take `end_offset` as the end of the log, durable up to there. Recovery calls it once."""
        for mapped_file in self.files.files:
            position = end_offset - mapped_file.start_offset
            mapped_file.wrote_position = max(0, min(position, mapped_file.size_bytes))
            mapped_file.on_low_space = self.on_low_space
        self._current = self.files.file_for(end_offset) or (
            self.files.files[-1] if self.files.files else None
        )
        self.flushed_offset = end_offset
        self.last_store_timestamp = last_store_timestamp

    # -- appending ------------------------------------------------------------------------------------

    def append(self, message: EncodedMessage) -> PutMessageResult:
        """Append one record; what a put answers that does not wait for the disk.

        Raises StoreFull (nothing written), StorePoisoned, StoreClosed.
        A disk that fails while a segment is added or room is reserved poisons the log, as a failed sync does.
        """
        if self._lock.locked() and message.size_bytes < _LONG_COPY_BYTES:
            self._let_holder_finish()
        with self._lock:
            if self._refusal is not None:
                raise self._refusal()
            current = self._current
            try:
                if (
                    current is None
                    or current.wrote_position + message.size_bytes + BLANK_MIN_BYTES > current.size_bytes
                ):
                    current = self._roll()
                return self._write(current, message)
            except OSError as error:
                raise_foreign(error)
                raise self._poisoned_by(error) from error

    def append_all(self, messages: Sequence[EncodedMessage]) -> list[PutMessageResult]:
        """Append records one after another under one lock, all of them or none.

        Room for all is reserved before the first is written. Raises as `append`.
        """
        if self._lock.locked():
            self._let_holder_finish()
        with self._lock:
            if self._refusal is not None:
                raise self._refusal()
            try:
                self._reserve_for(messages)
                return [self._write(self._segment_for(message), message) for message in messages]
            except OSError as error:
                raise_foreign(error)
                raise self._poisoned_by(error) from error

    def append_block(self, block: RecordBlock) -> AppendedBlock:
        """Append the records of a block one after another under one lock, all of them or none.

        Room for all is reserved before the first is written. What goes into one segment becomes visible in
        one step. All have one store time. Raises as `append`.
        """
        queue_offsets = np.empty(len(block), np.int64)
        physical_offsets = np.empty(len(block), np.int64)
        if self._lock.locked():
            self._let_holder_finish()
        with self._lock:
            if self._refusal is not None:
                raise self._refusal()
            try:
                self._reserve_for_block(block)
                store_timestamp, stop = self._now_ms(), 0
                while stop < len(block):
                    first, current = stop, self._current or self._roll()
                    stop = block.end_of_rows_within(first, current.size_bytes - current.wrote_position)
                    if stop == first:
                        self._roll()
                        continue
                    base_offset = self._write_rows(
                        current, block, first, stop, store_timestamp, queue_offsets
                    )
                    np.add(block.starts[first:stop], base_offset, out=physical_offsets[first:stop])
            except OSError as error:
                raise_foreign(error)
                raise self._poisoned_by(error) from error
            return AppendedBlock(queue_offsets, physical_offsets, self.max_offset, self.last_store_timestamp)

    def _write_rows(
        self,
        current: MappedFile,
        block: RecordBlock,
        first: int,
        stop: int,
        store_timestamp: int,
        queue_offsets: npt.NDArray[np.int64],
    ) -> int:
        """Complete and publish the records of some rows of a block, as `_write` does with one.

        Returns the physical offset that byte 0 of the block would have.
        """
        position = current.wrote_position
        before = {queue: self._next_queue_offset(queue) for queue in block.queues}
        base_offset = current.start_offset + position - int(block.starts[first])
        after = block.complete(
            first, stop, list(before.values()), queue_offsets, base_offset, store_timestamp
        )
        try:
            self._queue_offsets.update(zip(block.queues, after, strict=True))
            current.publish(block.bytes_of(first, stop))
        except BaseException:
            self._take_back(current, position, int(block.starts[stop] - block.starts[first]), before)
            raise
        self.last_store_timestamp = store_timestamp
        return base_offset

    def _next_queue_offset(self, queue: tuple[str, int]) -> int:
        known = self._queue_offsets.get(queue)
        return self.first_queue_offset(*queue) if known is None else known

    def delete_queues(self, is_meant: Callable[[tuple[str, int]], bool], delete: Callable[[int], T]) -> T:
        """Call `delete` with the log's end, between two appends; then number those queues anew.

        The next message of such a queue gets what `first_queue_offset` says. `delete` must be over whole: an
        OSError in it poisons the log, since the next opening finishes what is left. Raises StorePoisoned,
        StoreClosed, StoreFull.
        """
        with self._lock:
            if self._refusal is not None:
                raise self._refusal()
            try:
                result = delete(self.max_offset)
            except OSError as error:
                raise_foreign(error)
                raise self._poisoned_by(error) from error
            for queue in [queue for queue in self._queue_offsets if is_meant(queue)]:
                del self._queue_offsets[queue]
            return result

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset that the next message of a queue gets."""
        return self._next_queue_offset((topic, queue_id))

    def _let_holder_finish(self) -> None:
        """Stand aside until `_lock` is free, or long enough.

        A thread that blocks on a lock is handed it while it still has to wait for the interpreter's own lock,
        and those behind it queue up: from then on each append costs two thread switches.
        """
        for _ in range(_YIELDS):
            time.sleep(0)
            if not self._lock.locked():
                return

    def _segment_for(self, message: EncodedMessage) -> MappedFile:
        """The segment that the record goes into."""
        current = self._current
        size_bytes = message.size_bytes
        if current is None or current.wrote_position + size_bytes + BLANK_MIN_BYTES > current.size_bytes:
            return self._roll()
        return current

    def _write(self, current: MappedFile, message: EncodedMessage) -> PutMessageResult:
        topic, queue_id, size_bytes = message.topic, message.queue_id, message.size_bytes
        queue = (topic, queue_id)
        takes_offset = message.takes_queue_offset
        try:
            queue_offset = self._queue_offsets[queue] if takes_offset else 0
        except KeyError:
            queue_offset = self.first_queue_offset(topic, queue_id)
        store_timestamp = self._now_ms()
        position = current.wrote_position
        physical_offset = current.start_offset + position
        born_timestamp = message.born_timestamp
        record = encode_from(
            message.template,
            size_bytes,
            queue_id,
            message.body,
            message.body_crc,
            queue_offset,
            physical_offset,
            store_timestamp if born_timestamp is None else born_timestamp,
            store_timestamp,
        )
        # An interrupt (Ctrl-C) may strike between any two lines: the counter moves before the record
        # becomes visible, so that an offset is never given twice (I1); `_take_back` undoes half an append.
        try:
            if takes_offset:
                self._queue_offsets[queue] = queue_offset + 1
            current.publish(record)
        except BaseException:
            self._take_back(current, position, size_bytes, {queue: queue_offset} if takes_offset else {})
            raise
        self.last_store_timestamp = store_timestamp
        return PutMessageResult(
            _PUT_OK,
            topic,
            queue_id,
            queue_offset,
            physical_offset,
            size_bytes,
            store_timestamp,
            self.flushed_offset,
            self._store_host,
        )

    def _take_back(
        self, current: MappedFile, position: int, size_bytes: int, queue_offsets: dict[tuple[str, int], int]
    ) -> None:
        """Undoes a failed append, unless its first record is already visible."""
        if current.wrote_position > position:
            return
        self._queue_offsets.update(queue_offsets)
        # Erase the whole range: a later record of the same length as the first would make the leftover
        # ones look valid.
        current.undo_publish(size_bytes)

    def _roll(self) -> MappedFile:
        """Close the current segment with a BLANK and go on in the next one."""
        current = self._current
        if current is None:
            following = self.files.files[0] if self.files.files else self._add_segment(0)
        else:
            following = self.files.file_for(current.end_offset) or self._add_segment(current.end_offset)
            remaining = current.size_bytes - current.wrote_position
            assert remaining == 0 or remaining >= BLANK_MIN_BYTES, remaining  # I5
            if remaining:
                # Written before the position moves, in one step: an interrupt in between leaves a BLANK
                # that the next append overwrites, never a record behind a BLANK.
                current.write(current.wrote_position, encode_blank(remaining))
                current.wrote_position = current.size_bytes
        self._current = following
        return following

    def _add_segment(self, start_offset: int) -> MappedFile:
        if (obstacle := self.may_not_grow()) is not None:
            self._refusal = _Final(lambda: obstacle)
            raise obstacle
        added = self.files.append_file(start_offset)
        added.on_low_space = self.on_low_space
        return added

    def _reserve_for(self, messages: Sequence[EncodedMessage]) -> None:
        """Create segments and reserve room so that all of `messages` will fit. Raises StoreFull."""
        current = self._current or (self.files.files[0] if self.files.files else self._add_segment(0))
        position = current.wrote_position
        for message in messages:
            if position + message.size_bytes + BLANK_MIN_BYTES > current.size_bytes:
                current.reserve(current.size_bytes)
                current = self.files.file_for(current.end_offset) or self._add_segment(current.end_offset)
                position = 0
            position += message.size_bytes
        current.reserve(position)

    def _reserve_for_block(self, block: RecordBlock) -> None:
        """As `_reserve_for`."""
        current = self._current or (self.files.files[0] if self.files.files else self._add_segment(0))
        position, first = current.wrote_position, 0
        stop = block.end_of_rows_within(first, current.size_bytes - position)
        while stop < len(block):
            current.reserve(current.size_bytes)
            current = self.files.file_for(current.end_offset) or self._add_segment(current.end_offset)
            position, first = 0, stop
            stop = block.end_of_rows_within(first, current.size_bytes)
            assert stop > first, (first, current)
        current.reserve(position + len(block.bytes_of(first, stop)))

    def reserve_ahead(self) -> None:
        """Reserve and touch the window after the next, off the writer's path. A full disk shows in puts."""
        current = self._current
        if current is not None:
            current.reserve_next_window()

    def refuse(self, reason: Callable[[], StoreError] | None) -> None:
        """Refuse appends with the error that `reason` makes, or accept them again with None.

        A poisoned log stays poisoned: later calls change nothing.
        """
        with self._lock:
            if not self.is_poisoned:
                self._refusal = reason

    def poison(self, cause: BaseException) -> None:
        """Accept no more appends: a sync failed. Reads go on."""
        with self._lock:
            self._poisoned_by(cause)

    def refuse_for_good(self, reason: Callable[[], StoreError]) -> None:
        """As `poison`, with the error that `reason` makes."""
        with self._lock:
            if not self.is_poisoned:
                self._refusal = _Final(reason)

    def _poisoned_by(self, cause: BaseException) -> StoreError:
        """As `poison`, under _lock; returns the error to raise."""
        refusal = self._refusal
        if not isinstance(refusal, _Final):
            self._refusal = refusal = _Final(lambda: StorePoisoned(self.path.parent, cause))
        return refusal()

    @property
    def is_poisoned(self) -> bool:
        """Whether appends are refused for good: a sync has failed, or the lock was lost."""
        return isinstance(self._refusal, _Final)

    @property
    def refusal(self) -> StoreError | None:
        """The error that the next append would raise, if any."""
        refusal = self._refusal
        return refusal() if refusal is not None else None

    # -- reading --------------------------------------------------------------------------------------

    def chunk(self, offset: int, limit_bytes: int) -> LogChunk | None:
        """Up to `limit_bytes` visible bytes from the record at `offset`; None when there are none.

        The last record may be cut by the limit. Raises nothing for an offset below `min_offset`: None.
        """
        mapped_file = self.files.file_for(offset)
        if mapped_file is None:
            return None
        position = offset - mapped_file.start_offset
        stop = min(
            self.visible_offset - mapped_file.start_offset, position + limit_bytes, mapped_file.size_bytes
        )
        if stop <= position:
            return None
        try:
            return LogChunk(offset, mapped_file.array[position:stop], mapped_file.end_offset)
        except FileNotFoundError as error:
            raise_foreign(error)
            return None

    def record_at(self, physical_offset: int, size_bytes: int) -> memoryview | None:
        """The bytes of a record whose place and size an index tells; None when they are not all visible."""
        mapped_file = self.files.file_for(physical_offset)
        end = physical_offset + size_bytes
        if mapped_file is None or end > min(self.visible_offset, mapped_file.end_offset):
            return None
        position = physical_offset - mapped_file.start_offset
        try:
            return mapped_file.view[position : position + size_bytes]
        except FileNotFoundError as error:
            raise_foreign(error)
            # Deleted by retention (of another process, perhaps) before it was first mapped here.
            return None

    def look_message_by_offset(self, physical_offset: int) -> StoredMessage | None:
        """The message whose record begins at `physical_offset`; None when none does.

        Safe for any number: magic, stored physical offset and size are checked.
        """
        mapped_file = self.files.file_for(physical_offset)
        if mapped_file is None:
            return None
        start_offset = mapped_file.start_offset
        start, visible = physical_offset - start_offset, self.visible_offset - start_offset
        stop = min(visible, mapped_file.size_bytes)
        if start + HEADER_BYTES > stop:
            return None
        try:
            view = mapped_file.view
        except FileNotFoundError as error:
            raise_foreign(error)
            return None
        total_size, magic, stored_offset, sys_flag, body_length = _LOOKED_AT.unpack_from(view, start)
        if stored_offset != physical_offset or magic not in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2):
            return None
        if not HEADER_BYTES <= total_size <= stop - start:
            return None
        stop = start + total_size
        if magic == MESSAGE_MAGIC_CODE and not sys_flag & _RARE_BITS:
            body_stop = start + HEADER_BYTES + body_length
            if body_length >= 0 and _is_text_behind(view, body_stop, stop):
                return StoredMessage(view, start, stop, start + HEADER_BYTES, body_stop)
        message = StoredMessage(view, start, stop)
        return message if message.is_whole else None

    def store_timestamp_at(self, physical_offset: int) -> int:
        """Store time of the record at `physical_offset`; -1 when it cannot be read."""
        prefix = self.record_at(physical_offset, HEADER_BYTES)
        if prefix is None or physical_offset < self.min_offset:
            return -1
        at = store_timestamp_position(_INT.unpack_from(prefix, 36)[0])
        timestamp: int = _LONG.unpack_from(prefix, at)[0]
        return timestamp

    def __repr__(self) -> str:
        return f"CommitLog({str(self.path)!r}, min_offset={self.min_offset}, max_offset={self.max_offset})"


class _Final:
    """A refusal that cannot be lifted."""

    def __init__(self, reason: Callable[[], StoreError]) -> None:
        self._reason = reason

    def __call__(self) -> StoreError:
        return self._reason()


def _is_text_behind(view: memoryview, body_stop: int, stop: int) -> bool:
    """Whether topic and properties of a V1 record lie between its body and its end, and nothing else.

    In nearly all records they do, and that is all there is to `is_whole`; what else there may be, it tells.
    """
    if body_stop > stop - 3:
        return False
    at = body_stop + 1 + view[body_stop]
    return (
        at + 2 <= stop
        and at + 2 + (view[at] << 8 | view[at + 1]) == stop
        and view[at] | view[body_stop] < 128
    )


def _may_grow() -> None:
    return None


def _begin_at_zero(topic: str, queue_id: int) -> int:
    return 0
