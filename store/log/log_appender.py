"""The log appender: gives each record its place and its store time, and writes it behind the last one.

A full segment is closed with a BLANK, and the next one is added. A list or a block is stored whole or not at
all: room for all records is reserved before the first is written.

It does not encode properties or check messages (message_encoder.py), sync (flusher.py), nor decide whether
appends are refused (append_gate.py). Bytes: record_format.py.

Threads: any; the gate lets one append at a time. Durability: none when `append` returns; see flusher.py.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mqstore.store.bulk.record_block import AppendedBlock, RecordBlock
from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.direct.machine_code import MACHINE_CODE, DirectPut, Watched
from mqstore.store.errors import StoreError
from mqstore.store.files.mapped_file import MappedFile
from mqstore.store.files.mapped_file_queue import MappedFileQueue
from mqstore.store.log.append_gate import AppendGate
from mqstore.store.log.log_offsets import LogOffsets
from mqstore.store.message.message import Message
from mqstore.store.message.message_encoder import EncodedMessage, MessageEncoder
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.record.record_format import BLANK_MIN_BYTES, encode_blank
from mqstore.store.record.record_template import encode_from
from mqstore.store.status import PutMessageStatus

__all__ = ["LogAppender"]

T = TypeVar("T")

_PUT_OK = PutMessageStatus.PUT_OK


class LogAppender:
    """Appends to the log in `files`. Its fields are written within the gate.

    append: one record; returns the result of a put that does not wait for the disk.
    append_all: records one after another, all or none. append_block: as `append_all`, the rows of a block;
    those that go into one segment become visible in one step, and all have one store time.
    They raise StoreFull (nothing written), StorePoisoned, StoreClosed, StoreReadOnly. A disk that fails while
    a segment is added or room is reserved poisons the log, as a failed sync does.
    """

    def __init__(
        self,
        files: MappedFileQueue,
        offsets: LogOffsets,
        gate: AppendGate,
        config: StoreConfig,
        clock: Clock,
        *,
        first_queue_offset: Callable[[str, int], int],
    ) -> None:
        # Store time of the newest record, epoch ms.
        self.last_store_timestamp = 0
        # Called before a segment is added: the error that ends all appends, None if there is none.
        self.may_not_grow: Callable[[], StoreError | None] = _may_grow
        self._files = files
        self._offsets = offsets
        self._gate = gate
        self._config, self._clock = config, clock
        self._now_ms = clock.now_ms
        self._store_host = config.store_host.encode()
        self._first_queue_offset = first_queue_offset
        # Next queue offset of each (topic, queue id) that was put to.
        self._queue_offsets: dict[tuple[str, int], int] = {}
        self.append = gate.guarded(self._append_one, size_of=attrgetter("size_bytes"))
        self.append_all = gate.guarded(self._append_each)
        self.append_block = gate.guarded(self._append_rows)

    def reserve_ahead(self) -> None:
        """Reserve and touch the next window if little room is left, so that no put waits for it.

        The first window of the next segment, too: that segment is then there when it is needed. Raises
        StoreFull, as the next puts will, or OSError; either leaves the log as it was.
        """
        current = self._offsets.current
        if current is not None:
            self._gate.aside(lambda: self._reserve_after(current))

    def _reserve_after(self, current: MappedFile) -> None:
        current.reserve_next_window()
        if current.is_nearly_full:
            self._prepare_segment_after(current)

    def _prepare_segment_after(self, current: MappedFile) -> None:
        if self._gate.refusal is not None:
            return
        following = self._files.file_for(current.end_offset)
        if following is None and self.may_not_grow() is None:
            following = self._files.prepare_file(current.end_offset)
        if following is not None:
            following.reserve_first_window()

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset that the next message of a queue gets."""
        return self._next_queue_offset((topic, queue_id))

    def delete_queues(self, is_meant: Callable[[tuple[str, int]], bool], delete: Callable[[int], T]) -> T:
        """Call `delete` with the log's end, between two appends; then forget those queues' offsets.

        The next message of such a queue gets what `first_queue_offset` returns. An OSError in `delete`
        poisons the log: only the next opening can finish the deletion. Raises StorePoisoned, StoreClosed,
        StoreFull.
        """

        def step(delete: Callable[[int], T]) -> T:
            self.undo_unfinished()
            result = delete(self._offsets.max_offset)
            for queue in [queue for queue in self._queue_offsets if is_meant(queue)]:
                del self._queue_offsets[queue]
            return result

        return self._gate.guarded(step)(delete)

    # -- one by one -----------------------------------------------------------------------------------

    def _append_one(self, message: EncodedMessage) -> PutMessageResult:
        topic, queue_id, size_bytes = message.topic, message.queue_id, message.size_bytes
        offsets = self._offsets
        if offsets.unfinished is not None:
            self.undo_unfinished()
        current = offsets.current
        if current is None or current.wrote_position + size_bytes + BLANK_MIN_BYTES > current.size_bytes:
            current = self._roll()
        queue = (topic, queue_id)
        takes_offset = message.takes_queue_offset
        try:
            queue_offset = self._queue_offsets[queue] if takes_offset else 0
        except KeyError:
            queue_offset = self._first_queue_offset(topic, queue_id)
        store_timestamp = self._now_ms()
        position = current.wrote_position
        physical_offset = current.start_offset + position
        born_timestamp = message.born_timestamp
        record = encode_from(
            message.template,
            message.ending,
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
        # becomes visible, so that an offset is never given twice (I1); half an append is undone, here or,
        # after a second interrupt, by the next one.
        before = {queue: queue_offset} if takes_offset else {}
        offsets.unfinished = (current, position, size_bytes, before)
        try:
            if takes_offset:
                self._queue_offsets[queue] = queue_offset + 1
            current.publish(record)
        except BaseException:
            self.undo_unfinished()
            raise
        offsets.unfinished = None
        self.last_store_timestamp = store_timestamp
        return PutMessageResult(
            _PUT_OK,
            topic,
            queue_id,
            queue_offset,
            physical_offset,
            size_bytes,
            store_timestamp,
            offsets.flushed_offset,
            self._store_host,
        )

    def _append_each(self, messages: Sequence[EncodedMessage]) -> list[PutMessageResult]:
        self.undo_unfinished()
        starts, end = [0], 0
        for message in messages:
            end += message.size_bytes
            starts.append(end)
        self._reserve_for(starts)
        append = self._append_one
        return [append(message) for message in messages]

    def direct_put(
        self,
        encoder: MessageEncoder,
        queues_to_put_to: Callable[[str], int | None],
        takes_own: Callable[[str], bool],
        max_delay_level: int,
        watched: Watched,
        *,
        slowly: Callable[[Message], PutMessageResult],
        finish: Callable[[PutMessageResult], PutMessageResult],
    ) -> DirectPut | None:
        """The compiled way of ordinary messages into this log; None where it was not built."""
        if MACHINE_CODE is None:
            return None
        direct: DirectPut = MACHINE_CODE.direct_put(
            self._config,
            self._clock,
            encoder,
            self,
            queues_to_put_to,
            takes_own,
            max_delay_level,
            watched,
            slowly,
            finish,
        )
        return direct

    # -- in a block -----------------------------------------------------------------------------------

    def _append_rows(self, block: RecordBlock) -> AppendedBlock:
        queue_offsets = np.empty(len(block), np.int64)
        physical_offsets = np.empty(len(block), np.int64)
        self.undo_unfinished()
        self._reserve_for(block.starts)
        store_timestamp, stop = self._now_ms(), 0
        while stop < len(block):
            first, current = stop, self._offsets.current or self._roll()
            stop = _end_of_records_within(block.starts, first, current.size_bytes - current.wrote_position)
            if stop == first:
                self._roll()
                continue
            base_offset = self._write_rows(current, block, first, stop, store_timestamp, queue_offsets)
            np.add(block.starts[first:stop], base_offset, out=physical_offsets[first:stop])
        return AppendedBlock(
            queue_offsets, physical_offsets, self._offsets.max_offset, self.last_store_timestamp
        )

    def _write_rows(
        self,
        current: MappedFile,
        block: RecordBlock,
        first: int,
        stop: int,
        store_timestamp: int,
        queue_offsets: npt.NDArray[np.int64],
    ) -> int:
        """Complete and publish some rows of a block; the physical offset that its byte 0 would have."""
        position = current.wrote_position
        before = {queue: self._next_queue_offset(queue) for queue in block.queues}
        base_offset = current.start_offset + position - int(block.starts[first])
        after = block.complete(
            first, stop, list(before.values()), queue_offsets, base_offset, store_timestamp
        )
        size_bytes = int(block.starts[stop] - block.starts[first])
        self._offsets.unfinished = (current, position, size_bytes, before)
        try:
            self._queue_offsets.update(zip(block.queues, after, strict=True))
            current.publish(block.bytes_of(first, stop))
        except BaseException:
            self.undo_unfinished()
            raise
        self._offsets.unfinished = None
        self.last_store_timestamp = store_timestamp
        return base_offset

    # -- both -----------------------------------------------------------------------------------------

    def _next_queue_offset(self, queue: tuple[str, int]) -> int:
        known = self._queue_offsets.get(queue)
        return self._first_queue_offset(*queue) if known is None else known

    def undo_unfinished(self) -> None:
        """Undo an append that did not end, unless its first record is already visible.

        If an interrupt ends this call, the next one does it again.
        """
        unfinished = self._offsets.unfinished
        if unfinished is None:
            return
        segment, position, size_bytes, queue_offsets = unfinished
        if segment.wrote_position <= position:
            self._queue_offsets.update(queue_offsets)
            # Erase the whole range: a later record of the same length as the first would make the leftover
            # ones look valid.
            segment.undo_publish(size_bytes)
        self._offsets.unfinished = None

    def _roll(self) -> MappedFile:
        """Close the current segment with a BLANK and go on in the next one."""
        current = self._offsets.current
        following = self._segment_after(current)
        if current is not None:
            remaining = current.size_bytes - current.wrote_position
            assert remaining == 0 or remaining >= BLANK_MIN_BYTES, remaining  # I5
            if remaining:
                # Written before the position moves, in one step: an interrupt in between leaves a BLANK
                # that the next append overwrites, never a record behind a BLANK.
                current.write(current.wrote_position, encode_blank(remaining))
                current.wrote_position = current.size_bytes
            current.finish()
        self._offsets.current = following
        return following

    def _segment_after(self, current: MappedFile | None) -> MappedFile:
        """The segment after `current`, or the first one of an empty log; added if it is not there."""
        start_offset = 0 if current is None else current.end_offset
        if current is None and self._files.files:
            return self._files.files[0]
        return self._files.file_for(start_offset) or self._add_segment(start_offset)

    def _add_segment(self, start_offset: int) -> MappedFile:
        if (obstacle := self.may_not_grow()) is not None:
            self._gate.refuse_for_good_locked(lambda: obstacle)
            raise obstacle
        return self._files.append_file(start_offset)

    def _reserve_for(self, starts: Sequence[int] | npt.NDArray[np.int64]) -> None:
        """Create segments and reserve room so that records of these sizes will fit. Raises StoreFull.

        starts: where each record begins, the first at 0, and where the last one ends.
        """
        current = self._offsets.current or self._segment_after(None)
        position, first, end = current.wrote_position, 0, starts[-1]
        while position + end - starts[first] + BLANK_MIN_BYTES > current.size_bytes:
            stop = _end_of_records_within(starts, first, current.size_bytes - position)
            assert position or stop > first, (first, current)
            current.reserve(current.size_bytes)
            current = self._segment_after(current)
            position, first = 0, stop
        current.reserve(position + int(end - starts[first]))

    def __repr__(self) -> str:
        return f"LogAppender({self._offsets!r}, {self._gate!r})"


def _end_of_records_within(starts: Sequence[int] | npt.NDArray[np.int64], first: int, room_bytes: int) -> int:
    """Index of the first record, from `first` on, that does not fit into the rest of a segment (I5)."""
    end = starts[first] + room_bytes - BLANK_MIN_BYTES
    if starts[-1] <= end:
        return len(starts) - 1
    return max(first, bisect_right(starts, end) - 1)


def _may_grow() -> None:
    return None
