"""The delivery of one delay level: puts the due entries at the head of its queue back, in batches.

One turn (`take_turn`): take the due entries, at most a batch; put them with one lock and one group commit;
move the level's offset past them. A compiled loop makes the copies (due_block.py). What it leaves, because
something is out of the ordinary, is restored message by message. What is cancelled is passed over.

Never skipped: an entry that cannot be read, verified or put blocks the level. The error stays in `status`
with the time since when, is logged once, and the entry is tried again in every turn. To continue, repair
the cause, or call `skip`.

It does not say what is due (due_entries.py), what may go to disk (delivery_progress.py) nor how a message is
restored (delayed_message.py).

Threads: `take_turn` and `skip` are called by one thread at a time; the delivery service sees to that. The
questions may be asked from any thread, and never wait for a put.
"""

import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.consume_queue_format import BLANK_SIZE
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.schedule.delay.delay_offsets import DelayOffsets
from mqstore.schedule.delay.delayed_message import is_half_message, queue_of_level, restore
from mqstore.schedule.delivery.cancelled_delays import CancelledDelay, CancelledDelays
from mqstore.schedule.delivery.delivery_progress import DeliveryProgress
from mqstore.schedule.delivery.due_block import DueBlocks
from mqstore.schedule.delivery.due_entries import DueEntries, Entries, leading
from mqstore.schedule.delivery.level_status import LevelStatus
from mqstore.store.bulk.record_block import RecordBlock
from mqstore.store.errors import CorruptRecord, MessageIllegal, MessageNotFound, StoreError
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.record.record_format import RecordIllegal, check_record
from mqstore.store.status import PutMessageStatus
from mqstore.store.threads.lock import Lock

__all__ = ["LevelDelivery", "PutBlock", "PutRestored", "Puts", "clamped"]

MAX_BATCH_MESSAGES: Final = 1024
MAX_BATCH_BYTES: Final = 4_194_304
"""Of waiting records in one batch; a larger record goes alone."""

_STORED: Final = frozenset({PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT})
"""Outcomes that leave the copy in the log. (RocketMQ puts again after a timeout, and doubles it.)"""

_logger = logging.getLogger(__name__)


class PutRestored(Protocol):
    """Stores restored messages, in order and without the delay rewrite; none of them when it raises.

    Topic, queue and properties are not checked again: they were accepted when the producer put them.
    """

    def __call__(self, messages: Sequence[Message], /) -> Sequence[PutMessageResult]: ...


class PutBlock(Protocol):
    """Stores the records of a block, none of them when it raises; returns where they end in the log.

    Returns None, and stores nothing, when a topic of the block must first be created.
    """

    def __call__(self, block: RecordBlock, /) -> int | None: ...


class Puts(NamedTuple):
    """How copies are put. Without `blocks` or `put_block` all are restored message by message."""

    put_messages: PutRestored
    blocks: DueBlocks | None = None
    put_block: PutBlock | None = None


def clamped(queue: ConsumeQueue | None, offset: int) -> int:
    """`offset`, or the end of the queue that is nearer to it; a queue that does not exist starts at 0."""
    return 0 if queue is None else max(queue.min_offset, min(offset, queue.max_offset))


class LevelDelivery:
    """Delivers what is due of one level; see the head of this file."""

    def __init__(
        self,
        level: int,
        delay_ms: int | None,
        consume_queues: ConsumeQueueStore,
        commit_log: CommitLog,
        delay_offsets: DelayOffsets,
        puts: Puts,
        cancelled: CancelledDelays,
    ) -> None:
        """`delay_offsets` and `cancelled` are loaded.

        delay_ms: None for a level that is no longer in the table.
        """
        self.level = level
        self.delivered = 0
        self.error: str | None = None
        self._delay_ms = delay_ms
        self._queue_id = queue_of_level(level)
        self._consume_queues = consume_queues
        self._commit_log = commit_log
        self._delay_offsets = delay_offsets
        self._puts = puts
        self._cancelled = cancelled
        self._due = DueEntries(delay_ms, commit_log.store_timestamp_at)
        self._passed_over = 0
        self._blocked_since_ms: int | None = None
        # Guards the progress together with this level's offset in the table; held for moments.
        self._lock = Lock()
        self._progress = DeliveryProgress(delay_offsets.offset(level))

    # -- delivery -------------------------------------------------------------------------------------

    def take_turn(self, now_ms: int) -> bool:
        """Deliver one batch; whether there may be more. Raises no Exception: an error blocks the level."""
        before = self._next_offset()
        try:
            self._deliver_batch(now_ms)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one level, the others go on
            self._block(error, now_ms)
            return False
        self._unblock()
        return self._next_offset() != before

    def _deliver_batch(self, now_ms: int) -> None:
        queue = self._queue()
        if queue is None:
            return
        offset = self._next_offset_in(queue)
        entries = self._due_entries(queue, offset, now_ms)
        if blanks := leading(entries["size"] == BLANK_SIZE):
            self._pass_over(entries[:blanks])
            return
        if self._cancelled.has_any(self.level):
            self._cancelled.forget_below(self.level, offset)
            is_cancelled = self._which_are_cancelled(entries, offset)
            if passed := leading(is_cancelled):
                self._pass_over(entries[:passed])
                self._cancelled.forget_below(self.level, offset + passed)
                return
            entries = entries[: leading(~is_cancelled)]
        if self._put_ordinary(entries, offset):
            return
        messages, trouble = self._restore_all(entries, offset)
        if messages:
            self._put(messages)
        if trouble is not None:
            raise trouble

    def _which_are_cancelled(
        self, entries: Entries, first_offset: int
    ) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        places = enumerate(entries["physical_offset"].tolist(), first_offset)
        found = (self._cancelled.has(CancelledDelay(self.level, *place)) for place in places)
        return np.fromiter(found, np.bool_, len(entries))

    def _next_offset_in(self, queue: ConsumeQueue) -> int:
        """The next entry to deliver, after the queue has lost entries at either end."""
        offset = self._next_offset()
        nearest = clamped(queue, offset)
        if nearest != offset:
            _logger.warning(
                "delay level %d continues at entry %d, not at %d: its queue holds entries %d to %d",
                self.level, nearest, offset, queue.min_offset, queue.max_offset,
            )  # fmt: skip
            with self._lock:
                self._progress.restart(nearest)
                self._delay_offsets.update(self.level, nearest)
        return nearest

    def _due_entries(self, queue: ConsumeQueue, offset: int, now_ms: int) -> Entries:
        # A blocked level asks for the one entry that blocks it.
        entries = queue.entries_from(offset, MAX_BATCH_MESSAGES if self.error is None else 1)
        entries = entries[: self._due.count(entries, offset, queue.max_offset, now_ms)]
        # A damaged entry may have a size below 0, which must not make room for those behind it.
        sizes = entries["size"].clip(0).cumsum(dtype=np.int64)
        within_bytes = int(np.searchsorted(sizes, MAX_BATCH_BYTES, side="right"))
        return entries[: max(1, within_bytes)]

    def _put_ordinary(self, entries: Entries, first_offset: int) -> bool:
        """Deliver the leading entries that the compiled loop can restore; returns whether it put any."""
        _, blocks, put_block = self._puts
        if blocks is None or put_block is None or not len(entries):
            return False
        block = blocks.restore(entries, self._queue_id, first_offset)
        end_offset = None if block is None else put_block(block)
        if block is None or end_offset is None:
            return False
        self._advance(len(block), end_offset)
        self.delivered += len(block)
        return True

    def _restore_all(self, entries: Entries, first_offset: int) -> tuple[list[Message], Exception | None]:
        """The messages to put, up to the first blank, half message or error; and that error, if any."""
        messages: list[Message] = []
        for index, (physical_offset, size, _) in enumerate(entries.tolist()):
            if size == BLANK_SIZE:
                break
            try:
                place = (SCHEDULE_TOPIC, self._queue_id, first_offset + index)
                message = restore(self._waiting_record(physical_offset, size, place))
            except StoreError as error:
                return messages, error
            if is_half_message(message):
                # No delay may turn it into the first half of a transaction.
                if not messages:
                    self._pass_over(entries[:1])
                break
            messages.append(message)
        return messages, None

    def _waiting_record(
        self, physical_offset: int, size_bytes: int, place: tuple[str, int, int]
    ) -> StoredMessage:
        """The record of an entry at `place` (topic, queue id, queue offset), verified.

        Without the check, delivery would give a damaged record a new, matching CRC. Raises MessageNotFound,
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
            raise CorruptRecord(*log.place_of(physical_offset), error.expected, error.found) from error
        return stored

    def _put(self, messages: Sequence[Message]) -> None:
        try:
            results = self._puts.put_messages(messages)
        except MessageIllegal:
            if len(messages) == 1:
                raise
            # Nothing of the batch was stored. Put one by one, those before the illegal one are.
            for message in messages:
                self._put((message,))
            return
        stored = [result for result in results if result.status in _STORED]
        if stored:
            end = max(result.physical_offset + result.store_size for result in stored)
            self._advance(len(stored), end)
            self.delivered += len(stored)
        if len(stored) < len(messages):
            refused = next(result for result in results if result.status not in _STORED)
            raise StoreError(f"the put to {refused.topic} answered {refused.status.name}")

    def _pass_over(self, entries: Entries) -> None:
        """Move past entries that have nothing to deliver: blanks, or one half message."""
        last = entries[-1]
        # A blank has the offset of the next record of its queue. A flush ends between records, so that
        # record is durable once its first byte is.
        size = 1 if last["size"] == BLANK_SIZE else int(last["size"])
        self._advance(len(entries), int(last["physical_offset"]) + size)
        self._passed_over += len(entries)

    def _advance(self, count: int, end_physical_offset: int) -> None:
        with self._lock:
            next_offset = self._next_offset() + count
            self._progress.advance(next_offset, end_physical_offset)
            self._progress.settle(self._commit_log.flushed_offset)
            self._delay_offsets.update(self.level, next_offset)

    # -- blocking -------------------------------------------------------------------------------------

    def _block(self, error: Exception, now_ms: int) -> None:
        reason = f"{type(error).__name__}: {error}"
        if self.error != reason:
            log_event(
                *(_logger, events.LEVEL_BLOCKED, "delay level %d is blocked: %s", self.level, reason),
                delay_level=self.level,
                reason=reason,
            )
        if self._blocked_since_ms is None:
            self._blocked_since_ms = now_ms
        self.error = reason

    def _unblock(self) -> None:
        self.error = self._blocked_since_ms = None

    def skip(self) -> int:
        """Give up the entry that blocks this level; returns its physical offset.

        Raises ValueError when the entry is gone. The level is blocked, and nobody takes a turn meanwhile.
        """
        queue = self._queue()
        entries = None if queue is None else queue.entries_from(self._next_offset(), 1)
        if entries is None or not len(entries):
            raise ValueError(
                f"the entry that blocked delay level {self.level} is gone: there is nothing to skip"
            )
        self._pass_over(entries)
        self._unblock()
        return int(entries[0]["physical_offset"])

    # -- questions ------------------------------------------------------------------------------------

    def status(self, now_ms: int) -> LevelStatus:
        """The level, as it is now."""
        offset = self._next_offset()
        head = self.entry_from(offset)
        next_due_ms = None if head is None else int(head["tags_code"])
        return LevelStatus(
            level=self.level,
            delay_ms=self._delay_ms,
            next_offset=offset,
            pending=self.pending(),
            next_due_ms=next_due_ms,
            lateness_ms=0 if next_due_ms is None else max(0, now_ms - next_due_ms),
            delivered=self.delivered,
            passed_over=self._passed_over,
            error=self.error,
            blocked_since_ms=self._blocked_since_ms,
        )

    def pending(self) -> int:
        """How many entries are still to be put."""
        queue = self._queue()
        return 0 if queue is None else queue.max_offset - clamped(queue, self._next_offset())

    def durable_offset(self, flushed_offset: int) -> int:
        """The offset that may go to disk, when the log is durable up to `flushed_offset`."""
        with self._lock:
            return self._progress.settle(flushed_offset)

    def entry_from(self, offset: int) -> Any | None:
        """The entry at `offset`, or the queue's first if that is later; None behind the last."""
        queue = self._queue()
        if queue is None:
            return None
        entries = queue.entries_from(max(offset, queue.min_offset), 1)
        return entries[0] if len(entries) else None

    def _next_offset(self) -> int:
        return self._delay_offsets.offset(self.level)

    def _queue(self) -> ConsumeQueue | None:
        return self._consume_queues.find(SCHEDULE_TOPIC, self._queue_id)

    def __repr__(self) -> str:
        return f"<LevelDelivery of level {self.level}, error {self.error!r}, pending {self.pending()}>"
