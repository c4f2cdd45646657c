"""The delivery service: puts delayed messages to their own topics when they are due.

One pass (`run_once`, every 100 ms by the store's service): the levels take turns, a batch each
(level_delivery.py), until none has anything due.

Never skipped: an entry that cannot be read, verified or put blocks its level, and only that one; see
level_delivery.py. Never early: due_entries.py. Not lost, at most doubled, by a power cut:
delivery_progress.py.

It does not rewrite (delayed_message.py), nor write delayOffset.json by itself: the owner calls `persist`
after a flush of the log, and once more when all is stopped.

Threads: it makes none. `run_once` may be called from any, and runs one at a time; the questions (`status`,
`pending`, ...) never wait for a delivery. What stops it: `stop`, between two batches.
Durability: none of its own; the delivered copies are puts like any other.
Source: docs/spec/schedule_and_retry.md section 4; ScheduleMessageService.
"""

import threading

from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.delay.delay_offsets import DelayOffsets
from mqstore.schedule.delay.delayed_message import level_of_queue, queue_of_level
from mqstore.schedule.delivery.due_block import DueBlocks
from mqstore.schedule.delivery.level_delivery import LevelDelivery, PutBlock, PutRestored, Puts, clamped
from mqstore.schedule.delivery.level_status import LevelStatus
from mqstore.store.clock import Clock
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.message.topic_names import SCHEDULE_TOPIC

__all__ = ["DeliveryService"]


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
        # One delivery at a time; held through reads and puts.
        self._delivering = threading.Lock()
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

        self._delay_offsets.load(clamp)
        if lowered and not read_only:
            self._delay_offsets.persist(lowered)
        self._levels = tuple(self._level(level) for level in self._known_levels())

    def _known_levels(self) -> list[int]:
        """The table's levels, and those of existing queues, which a longer table or damage may have left."""
        queues = [queue_id for topic, queue_id in self._consume_queues.queues() if topic == SCHEDULE_TOPIC]
        return sorted({*range(1, self._delay_levels.max_level + 1), *map(level_of_queue, queues)})

    def _level(self, level: int) -> LevelDelivery:
        delay_ms = self._delay_levels.delay_ms(level) if level <= self._delay_levels.max_level else None
        return LevelDelivery(
            level, delay_ms, self._consume_queues, self._commit_log, self._delay_offsets, self._puts
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
                busy = tuple(level for level in busy if level.take_turn(now_ms))
            return sum(level.delivered for level in self._levels) - before

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

    # -- questions ------------------------------------------------------------------------------------

    def status(self) -> tuple[LevelStatus, ...]:
        """Every level, as it is now."""
        now_ms = self._clock.now_ms()
        return tuple(level.status(now_ms) for level in self._levels)

    def pending(self) -> dict[int, int]:
        """How many entries each level has still to put; levels with none are left out."""
        counts = {level.level: level.pending() for level in self._levels}
        return {level: count for level, count in counts.items() if count}

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
