"""The delivery service: puts delayed messages to their own topics when they are due.

One pass (`run_once`, every 100 ms by the store's service): the levels take turns, a batch each
(level_delivery.py), until none has anything due.

Never skipped: an entry that cannot be read, verified or put blocks its level, and only that one; see
level_delivery.py. Never early: due_entries.py. Not lost, at most doubled, by a power cut:
delivery_progress.py.

Cancelled messages are passed over; cancelled_delays.py says how the log remembers them.

It does not rewrite (delayed_message.py), nor write delayOffset.json by itself: the owner calls `persist`
after a flush of the log, and once more when all is stopped.

Threads: it makes none. `run_once` may be called from any, and runs one at a time; the questions (`status`,
`pending`, ...) never wait for a delivery. What stops it: `stop`, between two batches.
Durability: none of its own; the delivered copies are puts like any other.
Source: docs/spec/schedule_and_retry.md section 4; ScheduleMessageService.
"""

from collections.abc import Callable, Iterator
from typing import Final

from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.delay.delay_offsets import DelayOffsets
from mqstore.schedule.delay.delayed_message import level_of_queue, queue_of_level
from mqstore.schedule.delivery.cancelled_delays import CancelledDelay, CancelledDelays, cancelling
from mqstore.schedule.delivery.due_block import DueBlocks
from mqstore.schedule.delivery.level_delivery import LevelDelivery, PutBlock, PutRestored, Puts, clamped
from mqstore.schedule.delivery.level_status import LevelStatus
from mqstore.schedule.delivery.waiting_message import WaitingMessage
from mqstore.store.clock import Clock
from mqstore.store.errors import DelayNotWaiting, MessageNotFound
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.threads.lock import Lock

__all__ = ["DeliveryService"]

_LISTED_AT_ONCE: Final = 256


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
        self._puts = Puts(put_messages, blocks, put_block)
        self._delay_levels = delay_levels
        self._delay_offsets = delay_offsets
        self._clock = clock
        self._cancelled = CancelledDelays(consume_queues, commit_log)
        # One delivery at a time; held through reads and puts.
        self._delivering = Lock()
        self._levels: tuple[LevelDelivery, ...] = ()
        # No threading.Event: an interrupted `set` keeps its lock, and no thread waits for it here.
        self._is_stopping = False

    # -- life -----------------------------------------------------------------------------------------

    def load(self, *, read_only: bool = False) -> None:
        """Read delayOffset.json, which says where each level continues. Once, before anything else.

        The queues must be complete: an offset beyond the end of its queue is lowered to it, at once also
        on disk unless `read_only`, otherwise the messages that fill the gap would be skipped after the
        next crash. Raises StateFileCorrupt.
        """
        lowered: dict[int, int] = {}

        def clamp(level: int, offset: int) -> int:
            queue = self._consume_queues.find(SCHEDULE_TOPIC, queue_of_level(level))
            nearest = clamped(queue, offset)
            if nearest < offset:
                lowered[level] = nearest
            return nearest

        self._cancelled.catch_up()
        self._delay_offsets.load(clamp)
        if lowered and not read_only:
            self._delay_offsets.persist(lowered)
        self._levels = tuple(self._level(level) for level in self._known_levels())
        for known in self._levels:
            self._cancelled.forget_below(known.level, self._delay_offsets.offset(known.level))

    def _known_levels(self) -> list[int]:
        """The table's levels, and those of existing queues, which a longer table or damage may have left."""
        queues = [queue_id for topic, queue_id in self._consume_queues.queues() if topic == SCHEDULE_TOPIC]
        return sorted({*range(1, self._delay_levels.max_level + 1), *map(level_of_queue, queues)})

    def _level(self, level: int) -> LevelDelivery:
        delay_ms = self._delay_levels.delay_ms(level) if level <= self._delay_levels.max_level else None
        return LevelDelivery(
            level,
            delay_ms,
            self._consume_queues,
            self._commit_log,
            self._delay_offsets,
            self._puts,
            self._cancelled,
        )

    def stop(self) -> None:
        """End a running pass after its current batch; later passes deliver nothing.

        The owner then flushes the log and calls `persist`.
        """
        self._is_stopping = True

    def persist(self, flushed_offset: int) -> bool:
        """Write delayOffset.json as far as the log is durable up to `flushed_offset`; False: no change.

        Raises OSError or StoreFull; the old file is then intact.
        """
        return self._delay_offsets.persist(
            {level.level: level.durable_offset(flushed_offset) for level in self._levels}
        )

    @property
    def has_moved(self) -> bool:
        """Whether a level has come further than delayOffset.json says."""
        return self._delay_offsets.have_moved

    # -- delivery -------------------------------------------------------------------------------------

    def run_once(self) -> int:
        """Deliver all that is due now; returns how many messages were put. Errors stay in `status()`.

        Levels take turns, a batch each, so that a backlog in one does not hold up the others.
        """
        with self._delivering:
            before = sum(level.delivered for level in self._levels)
            self._take_turns(self._clock.now_ms())
            return sum(level.delivered for level in self._levels) - before

    def _take_turns(self, now_ms: int) -> None:
        busy = self._levels
        while busy and not self._is_stopping:
            busy = tuple(level for level in busy if level.take_turn(now_ms))

    def skip(self, level: int) -> int:
        """Give up the entry that blocks `level`; returns its physical offset.

        For an operator's decision: the message stays in SCHEDULE_TOPIC_XXXX and is not delivered.
        Raises ValueError when the level is not blocked, or the entry that blocked it is gone.
        """
        with self._delivering:
            blocked = next((known for known in self._levels if known.level == level and known.error), None)
            if blocked is None:
                raise ValueError(f"delay level {level} is not blocked: there is nothing to skip")
            return blocked.skip()

    def cancel(self, physical_offset: int, sync: Callable[[], object]) -> WaitingMessage:
        """Cancel the waiting message whose record begins there; it is durable when this returns.

        `sync` makes the log durable. Raises MessageNotFound, DelayNotWaiting, and as a put and a sync do;
        after an error of these the message may be delivered or not.
        """
        stored = self._commit_log.look_message_by_offset(physical_offset)
        if stored is None or not stored.is_whole:
            raise MessageNotFound(physical_offset, self._commit_log.min_offset, self._commit_log.max_offset)
        if stored.topic != SCHEDULE_TOPIC:
            raise DelayNotWaiting(physical_offset, f"it is a message of topic {stored.topic!r}")
        place = CancelledDelay(level_of_queue(stored.queue_id), stored.queue_offset, physical_offset)
        with self._delivering:
            found = next(self.waiting(place.level, place.queue_offset), None)
            if found is None or found.message.physical_offset != physical_offset:
                raise DelayNotWaiting(physical_offset, "it was delivered, or passed over")
            if found.is_cancelled:
                raise DelayNotWaiting(physical_offset, "it is cancelled already")
            self._puts.put_messages((cancelling(place),))
            sync()
            self._cancelled.add(place)
        return found._replace(is_cancelled=True)

    # -- questions ------------------------------------------------------------------------------------

    def status(self) -> tuple[LevelStatus, ...]:
        """Every level, as it is now."""
        now_ms = self._clock.now_ms()
        return tuple(level.status(now_ms) for level in self._levels)

    def pending(self) -> dict[int, int]:
        """How many entries each level has still to put; levels with none are left out."""
        counts = {level.level: level.pending() for level in self._levels}
        return {level: count for level, count in counts.items() if count}

    def waiting(self, level: int | None = None, begin_offset: int = 0) -> Iterator[WaitingMessage]:
        """The messages still to be delivered, level by level, each level's in the order of delivery.

        level: of this one only. begin_offset: from this entry of the level's queue on. Entries whose record
        cannot be read are left out.
        """
        self._cancelled.catch_up()
        for known in self._levels:
            if level in (None, known.level):
                yield from self._waiting_of(known, begin_offset)

    def _waiting_of(self, level: LevelDelivery, offset: int) -> Iterator[WaitingMessage]:
        queue = self._consume_queues.find(SCHEDULE_TOPIC, queue_of_level(level.level))
        if queue is None:
            return
        offset = max(offset, clamped(queue, self._delay_offsets.offset(level.level)))
        while len(entries := queue.entries_from(offset, _LISTED_AT_ONCE)):
            for queue_offset, entry in enumerate(entries.tolist(), offset):
                physical_offset, _, due_ms = entry
                stored = self._commit_log.look_message_by_offset(physical_offset)
                if stored is None or not stored.is_whole:
                    continue
                if (stored.topic, stored.queue_offset) == (SCHEDULE_TOPIC, queue_offset):
                    place = CancelledDelay(level.level, queue_offset, physical_offset)
                    is_cancelled = self._cancelled.has(place)
                    yield WaitingMessage(level.level, queue_offset, due_ms, stored, is_cancelled)
            offset += len(entries)

    def min_undelivered_physical_offset(self) -> int:
        """The first byte of the log that delivery may still need, after a power cut too.

        Retention keeps it and all behind it. The end of the log when delivery needs nothing. Messages that
        the dispatcher has not yet brought into the queues are not considered.
        """
        end = self._commit_log.max_offset
        flushed_offset = self._commit_log.flushed_offset
        heads = [level.entry_from(level.durable_offset(flushed_offset)) for level in self._levels]
        return min((int(head["physical_offset"]) for head in heads if head is not None), default=end)

    def __repr__(self) -> str:
        blocked = [level.level for level in self._levels if level.error is not None]
        return f"<DeliveryService of {len(self._levels)} levels, blocked {blocked}, pending {self.pending()}>"
