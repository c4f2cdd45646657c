"""The delivery service: puts delayed messages to their own topics when they are due.

One pass (`run_once`, every 100 ms by the store's service): for each level, put the due entries at the head
of the level's queue in batches (one lock, one group commit each) and move the level's offset past them.
A compiled loop makes the copies (due_block.py); what it leaves, because something is out of the ordinary, is
restored message by message.

Never skipped: an entry that cannot be read, verified or put stops its level, and only that one. The error
stays visible in `status()` with the time since when, is logged once, and the entry is tried again every
round. To continue, repair the cause, or call `skip(level)`.
Never early: due_entries.py. Not lost, at most doubled, by a power cut: delivery_progress.py.

It does not rewrite (delayed_message.py), nor write delayOffset.json by itself: the owner calls `persist`
after a flush of the log, and once more when all is stopped.

Threads: it makes none. `run_once` may be called from any, and runs one at a time; the questions (`status`,
`pending`, ...) never wait for a delivery. What stops it: `stop`, between two batches.
Durability: none of its own; the delivered copies are puts like any other.
Source: docs/spec/schedule_and_retry.md section 4; ScheduleMessageService.
"""

import logging
import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.consume_queue_format import BLANK_SIZE
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.delay.delay_offsets import DelayOffsets
from mqstore.schedule.delay.delayed_message import is_half_message, level_of_queue, queue_of_level, restore
from mqstore.schedule.delivery.delivery_progress import DeliveryProgress
from mqstore.schedule.delivery.due_block import DueBlocks
from mqstore.schedule.delivery.due_entries import DueEntries, Entries, leading
from mqstore.store.bulk.record_block import RecordBlock
from mqstore.store.clock import Clock
from mqstore.store.errors import CorruptRecord, MessageIllegal, MessageNotFound, StoreError
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.record.record_format import RecordIllegal, check_record
from mqstore.store.status import PutMessageStatus

__all__ = ["DeliveryService", "LevelStatus", "PutBlock", "PutRestored"]

MAX_BATCH_MESSAGES: Final = 1024
MAX_BATCH_BYTES: Final = 4_194_304
"""Of waiting records in one batch; one that is larger goes alone."""

_STORED: Final = frozenset({PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT})
"""Outcomes that leave the copy in the log. (RocketMQ puts again after a timeout, and doubles it.)"""

_logger = logging.getLogger(__name__)


class PutRestored(Protocol):
    """Stores restored messages: in order, all or none when it raises, and past the delay rewrite.

    Topic, queue and properties are taken as they are, for they were accepted when the producer put them.
    """

    def __call__(self, messages: Sequence[Message], /) -> Sequence[PutMessageResult]: ...


class PutBlock(Protocol):
    """Stores the records of a block: all or none when it raises; returns where they end in the log.

    None, and nothing is stored, when a topic of it must first be created.
    """

    def __call__(self, block: RecordBlock, /) -> int | None: ...


class LevelStatus(NamedTuple):
    """How one level is doing since the store was opened. `delay_ms` is None when it left the table.

    pending: entries not yet put. next_due_ms: when the first of them is due (epoch ms); lateness_ms: how long
    ago that was. passed_over: entries that were no messages to deliver. A blocked level has its error here,
    and since when.
    """

    level: int
    delay_ms: int | None
    next_offset: int
    pending: int
    next_due_ms: int | None
    lateness_ms: int
    delivered: int
    passed_over: int
    error: str | None
    blocked_since_ms: int | None


class _Level:
    """What the service knows of one level; changed under its lock."""

    def __init__(self, level: int, delay_ms: int | None, due: DueEntries, next_offset: int) -> None:
        self.level = level
        self.delay_ms = delay_ms
        self.due = due
        self.progress = DeliveryProgress(next_offset)
        self.delivered = 0
        self.passed_over = 0
        self.error: str | None = None
        self.blocked_since_ms: int | None = None


class DeliveryService:
    """Delivers what is due; see the head of this file."""

    def __init__(
        self,
        consume_queues: ConsumeQueueStore,
        commit_log: CommitLog,
        put_messages: PutRestored,
        delay_levels: DelayLevels,
        delay_offsets: DelayOffsets,
        clock: Clock,
        *,
        blocks: DueBlocks | None = None,
        put_block: PutBlock | None = None,
    ) -> None:
        """Nothing is read before `load`. Without `blocks` all is restored message by message."""
        self._consume_queues = consume_queues
        self._commit_log = commit_log
        self._put_messages = put_messages
        self._blocks = blocks
        self._put_block = put_block
        self._delay_levels = delay_levels
        self._delay_offsets = delay_offsets
        self._clock = clock
        # One delivery at a time; held through reads and puts.
        self._delivering = threading.Lock()
        # Guards the progress of the levels together with the table of offsets; held for moments.
        self._lock = threading.Lock()
        self._levels: tuple[_Level, ...] = ()
        # No threading.Event: an interrupted `set` keeps its lock, and nobody sleeps on it here.
        self._is_stopping = False

    # -- life -----------------------------------------------------------------------------------------

    def load(self, *, read_only: bool = False) -> None:
        """Read delayOffset.json and take up each level where it says. Once, before anything else.

        The queues must be complete: an offset beyond the end of its queue is lowered to it, at once also
        on disk unless `read_only`, otherwise the messages that fill the gap would be skipped after the
        next crash. Raises StateFileCorrupt.
        """
        lowered: dict[int, int] = {}

        def clamp(level: int, offset: int) -> int:
            clamped = _clamp(self._queue(level), offset)
            if clamped < offset:
                lowered[level] = clamped
            return clamped

        self._delay_offsets.load(clamp)
        if lowered and not read_only:
            self._delay_offsets.persist(lowered)
        self._levels = tuple(self._level(level) for level in self._known_levels())

    def _known_levels(self) -> list[int]:
        """Those of the table, and of queues: an earlier, longer table has left some behind, or damage."""
        queues = [queue_id for topic, queue_id in self._consume_queues.queues() if topic == SCHEDULE_TOPIC]
        return sorted({*range(1, self._delay_levels.max_level + 1), *map(level_of_queue, queues)})

    def _level(self, level: int) -> _Level:
        delay_ms = self._delay_levels.delay_ms(level) if level <= self._delay_levels.max_level else None
        due = DueEntries(delay_ms, self._commit_log.store_timestamp_at)
        return _Level(level, delay_ms, due, self._delay_offsets.offset(level))

    def stop(self) -> None:
        """Let a running pass end after the batch at hand; later passes deliver nothing.

        The owner then flushes the log and calls `persist`.
        """
        self._is_stopping = True

    def persist(self, flushed_offset: int) -> bool:
        """Write delayOffset.json as far as the log is durable up to `flushed_offset`; False: no change.

        Raises OSError or StoreFull; the old file is then intact.
        """
        with self._lock:
            durable = {level.level: level.progress.settle(flushed_offset) for level in self._levels}
        return self._delay_offsets.persist(durable)

    # -- delivery -------------------------------------------------------------------------------------

    def run_once(self) -> int:
        """Deliver all that is due now; returns how many messages were put. Errors stay in `status()`.

        Levels take turns, a batch each, so that a backlog in one does not hold up the others.
        """
        with self._delivering:
            now_ms = self._clock.now_ms()
            before = sum(level.delivered for level in self._levels)
            busy = self._levels
            while busy and not self._is_stopping:
                busy = tuple(level for level in busy if self._take_turn(level, now_ms))
            return sum(level.delivered for level in self._levels) - before

    def _take_turn(self, level: _Level, now_ms: int) -> bool:
        """Deliver one batch of `level`; whether there may be more. Nothing escapes: other levels go on."""
        before = self._delay_offsets.offset(level.level)
        try:
            self._deliver_batch(level, now_ms)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one level, the others go on
            self._block(level, error, now_ms)
            return False
        level.error = level.blocked_since_ms = None
        return self._delay_offsets.offset(level.level) != before

    def _deliver_batch(self, level: _Level, now_ms: int) -> None:
        queue = self._queue(level.level)
        if queue is None:
            return
        offset = self._next_offset_in(level, queue)
        entries = self._due_entries(level, queue, offset, now_ms)
        if blanks := leading(entries["size"] == BLANK_SIZE):
            self._pass_over(level, entries[:blanks])
            return
        if self._put_ordinary(level, entries, offset):
            return
        messages, trouble = self._restore_all(level, entries, offset)
        if messages:
            self._put(level, messages)
        if trouble is not None:
            raise trouble

    def _due_entries(self, level: _Level, queue: ConsumeQueue, offset: int, now_ms: int) -> Entries:
        # A blocked level asks for the one entry that blocks it.
        entries = queue.entries_from(offset, MAX_BATCH_MESSAGES if level.error is None else 1)
        entries = entries[: level.due.count(entries, offset, queue.max_offset, now_ms)]
        # A damaged entry may have a size below 0, which must not make room for those behind it.
        sizes = entries["size"].clip(0).cumsum(dtype=np.int64)
        within_bytes = int(np.searchsorted(sizes, MAX_BATCH_BYTES, side="right"))
        return entries[: max(1, within_bytes)]

    def _next_offset_in(self, level: _Level, queue: ConsumeQueue) -> int:
        """The next entry to deliver, after the queue has lost entries at either end."""
        offset = self._delay_offsets.offset(level.level)
        clamped = _clamp(queue, offset)
        if clamped != offset:
            _logger.warning(
                "delay level %d continues at entry %d, not at %d: its queue holds entries %d to %d",
                level.level, clamped, offset, queue.min_offset, queue.max_offset,
            )  # fmt: skip
            with self._lock:
                level.progress.restart(clamped)
                self._delay_offsets.update(level.level, clamped)
        return clamped

    def _put_ordinary(self, level: _Level, entries: Entries, first_offset: int) -> bool:
        """Deliver the first entries, as far as nothing is special about them; whether there were any."""
        if self._blocks is None or self._put_block is None or not len(entries):
            return False
        block = self._blocks.restore(entries, queue_of_level(level.level), first_offset)
        end_offset = None if block is None else self._put_block(block)
        if block is None or end_offset is None:
            return False
        self._advance(level, len(block), end_offset)
        level.delivered += len(block)
        return True

    def _restore_all(
        self, level: _Level, entries: Entries, first_offset: int
    ) -> tuple[list[Message], Exception | None]:
        """The messages to put, up to the first entry that is none or gives trouble, with that trouble."""
        messages: list[Message] = []
        for index, (physical_offset, size, _) in enumerate(entries.tolist()):
            if size == BLANK_SIZE:
                break
            try:
                place = (SCHEDULE_TOPIC, queue_of_level(level.level), first_offset + index)
                message = restore(self._waiting_record(physical_offset, size, place))
            except StoreError as error:
                return messages, error
            if is_half_message(message):
                # No delay may turn it into the first half of a transaction.
                if not messages:
                    self._pass_over(level, entries[:1])
                break
            messages.append(message)
        return messages, None

    def _waiting_record(
        self, physical_offset: int, size_bytes: int, place: tuple[str, int, int]
    ) -> StoredMessage:
        """The record of an entry at `place` (topic, queue id, queue offset), verified.

        A damaged record is not given a new, matching CRC by delivering it. Raises MessageNotFound,
        CorruptRecord.
        """
        log = self._commit_log
        record = log.record_at(physical_offset, size_bytes)
        if record is None:
            raise MessageNotFound(physical_offset, log.min_offset, log.max_offset)
        stored = StoredMessage.of(record)
        try:
            header = check_record(record, physical_offset)
            found = (stored.topic, header.queue_id, header.queue_offset, header.total_size)
            if found != (*place, size_bytes):
                raise RecordIllegal(f"the record of queue entry {(*place, size_bytes)}", f"{found}")
        except RecordIllegal as error:
            segment = log.files.file_for(physical_offset)
            path, start_offset = (log.path, 0) if segment is None else (segment.path, segment.start_offset)
            position = physical_offset - start_offset
            raise CorruptRecord(path, position, error.expected, error.found) from error
        return stored

    def _put(self, level: _Level, messages: Sequence[Message]) -> None:
        try:
            results = self._put_messages(messages)
        except MessageIllegal:
            if len(messages) == 1:
                raise
            # Nothing of the batch was stored. One by one, those before the illegal one are.
            for message in messages:
                self._put(level, (message,))
            return
        stored = [result for result in results if result.status in _STORED]
        if stored:
            end = max(result.physical_offset + result.store_size for result in stored)
            self._advance(level, len(stored), end)
            level.delivered += len(stored)
        if len(stored) < len(messages):
            refused = next(result for result in results if result.status not in _STORED)
            raise StoreError(f"the put to {refused.topic} answered {refused.status.name}")

    def _pass_over(self, level: _Level, entries: Entries) -> None:
        """Move past entries that have nothing to deliver: blanks, or one half message."""
        last = entries[-1]
        # A blank has the offset of the next record of its queue; the flush ends between records, so that
        # one is durable as soon as its first byte is.
        size = 1 if last["size"] == BLANK_SIZE else int(last["size"])
        self._advance(level, len(entries), int(last["physical_offset"]) + size)
        level.passed_over += len(entries)

    def _advance(self, level: _Level, count: int, end_physical_offset: int) -> None:
        with self._lock:
            next_offset = self._delay_offsets.offset(level.level) + count
            level.progress.advance(next_offset, end_physical_offset)
            level.progress.settle(self._commit_log.flushed_offset)
            self._delay_offsets.update(level.level, next_offset)

    def _block(self, level: _Level, error: Exception, now_ms: int) -> None:
        reason = f"{type(error).__name__}: {error}"
        if level.error != reason:
            _logger.error("delay level %d is blocked: %s", level.level, reason)
        if level.blocked_since_ms is None:
            level.blocked_since_ms = now_ms
        level.error = reason

    def skip(self, level: int) -> int:
        """Give up the entry that blocks `level`; returns its physical offset.

        For an operator who has decided so: the message stays in SCHEDULE_TOPIC_XXXX and is not delivered.
        Raises ValueError when the level is not blocked.
        """
        with self._delivering:
            blocked = next((known for known in self._levels if known.level == level and known.error), None)
            queue = self._queue(level)
            if blocked is None or queue is None:
                raise ValueError(f"delay level {level} is not blocked: there is nothing to skip")
            entries = queue.entries_from(self._delay_offsets.offset(level), 1)
            if not len(entries):
                raise ValueError(
                    f"the entry that blocked delay level {level} is gone: there is nothing to skip"
                )
            self._pass_over(blocked, entries)
            blocked.error = blocked.blocked_since_ms = None
            return int(entries[0]["physical_offset"])

    # -- questions ------------------------------------------------------------------------------------

    def status(self) -> tuple[LevelStatus, ...]:
        """Every level, as it is now."""
        now_ms = self._clock.now_ms()
        return tuple(self._status(level, now_ms) for level in self._levels)

    def _status(self, level: _Level, now_ms: int) -> LevelStatus:
        offset = self._delay_offsets.offset(level.level)
        head = self._entry_at(level.level, offset)
        next_due_ms = None if head is None else int(head["tags_code"])
        return LevelStatus(
            level=level.level,
            delay_ms=level.delay_ms,
            next_offset=offset,
            pending=self._pending(level.level),
            next_due_ms=next_due_ms,
            lateness_ms=0 if next_due_ms is None else max(0, now_ms - next_due_ms),
            delivered=level.delivered,
            passed_over=level.passed_over,
            error=level.error,
            blocked_since_ms=level.blocked_since_ms,
        )

    def pending(self) -> dict[int, int]:
        """How many entries each level has still to put; levels with none are left out."""
        counts = {level.level: self._pending(level.level) for level in self._levels}
        return {level: count for level, count in counts.items() if count}

    def _pending(self, level: int) -> int:
        queue = self._queue(level)
        if queue is None:
            return 0
        return queue.max_offset - _clamp(queue, self._delay_offsets.offset(level))

    def min_undelivered_physical_offset(self) -> int:
        """The first byte of the log that delivery may still need, after a power cut too.

        Retention keeps it and all behind it; the end of the log when there is none. What the dispatcher
        has not brought into the queues yet is not known here.
        """
        end = self._commit_log.max_offset
        with self._lock:
            flushed_offset = self._commit_log.flushed_offset
            offsets = [(level.level, level.progress.settle(flushed_offset)) for level in self._levels]
        heads = [head for level, offset in offsets if (head := self._entry_at(level, offset)) is not None]
        return min((int(head["physical_offset"]) for head in heads), default=end)

    def _entry_at(self, level: int, offset: int) -> Any | None:
        """The entry at `offset`, or the queue's first if that is later; None behind the last."""
        queue = self._queue(level)
        if queue is None:
            return None
        entries = queue.entries_from(max(offset, queue.min_offset), 1)
        return entries[0] if len(entries) else None

    def _queue(self, level: int) -> ConsumeQueue | None:
        return self._consume_queues.find(SCHEDULE_TOPIC, queue_of_level(level))

    def __repr__(self) -> str:
        blocked = [level.level for level in self._levels if level.error is not None]
        return f"<DeliveryService of {len(self._levels)} levels, blocked {blocked}, pending {self.pending()}>"


def _clamp(queue: ConsumeQueue | None, offset: int) -> int:
    """`offset`, or the end of the queue that is nearer to it; a queue that is not there starts at 0."""
    return 0 if queue is None else max(queue.min_offset, min(offset, queue.max_offset))
