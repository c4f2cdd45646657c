"""Persistence of derived data: in which order queues, keys, offsets and checkpoints reach the disk.

Nothing that points into the log is ever durable ahead of the log (I6), so each round goes

    1  note how far the queues were dispatched
    2  sync the log          everything noted in 1 is durable in the log
    3  sync the queues       ... and in the queues
    4  sync the keys         each key index keeps its own cursor; the log comes before, again
    5  checkpoint, queue names, recovery point     say what 2 and 3 made durable; to a broker, 4 too
    6  consumer offsets, delay offsets no further than 2 made durable; topics and groups as they are

A crash between any two steps leaves the later files behind what is durable, never ahead of it.

Its periods are flush_interval_consume_queue (steps 1 to 5) and flush_consumer_offset_interval,
flush_delay_offset_interval (step 6, each after a sync of the log). Between these, offsets that have moved are
written every flush_progress_interval: what a killed process did since its last save is done again. In the
background step 3 is left out where it would take more than a tenth of the time (duty_cycle.py), because
thousands of queues have new entries; step 5 then saves how far the queues were when they were last synced.
Offsets that have moved wait by the same rule. The service that ran a step keeps its
error and tries again; a failed sync of the log poisons the log (store/log/flusher.py). Each round first
checks the lock: once it is lost the files may be another writer's (lock_watch.py).
Threads: `_lock` lets one round run at a time; it waits for no put and no reader.
"""

from collections.abc import Callable
from typing import TypeVar

from mqstore.lock_watch import LockWatch
from mqstore.schedule.delivery.delivery_service import DeliveryService
from mqstore.store.log.flusher import Flusher
from mqstore.store.state.recovery_point_format import RecoveryPoint
from mqstore.store.threads.duty_cycle import DutyCycle
from mqstore.store.threads.lock import Lock
from mqstore.store_parts import StoreParts

__all__ = ["Persistence"]

_T = TypeVar("_T")


class Persistence:
    """Makes derived data durable, and saves how far it is."""

    def __init__(
        self, parts: StoreParts, flusher: Flusher, delivery: DeliveryService, lock_watch: LockWatch
    ) -> None:
        self._parts = parts
        self._flusher = flusher
        self._delivery = delivery
        self._lock_watch = lock_watch
        self._lock = Lock()
        self._queue_duty_cycle = DutyCycle()
        self._progress_duty_cycle = DutyCycle()
        # How far the queues had been dispatched when they were last made durable: physical offset, and store
        # time of the last message. None before the first time. Under _lock.
        self._durable_queues: tuple[int, int] | None = None

    def flush_all(self) -> None:
        """All steps, the keys to the last. Raises StorePoisoned, OSError, StoreFull."""
        self.flush_derived(thoroughly=True)
        self.persist_state()
        self.persist_delay_offsets()

    def flush_in_background(self) -> None:
        """`flush_derived`, with the queues only when their duty cycle allows it. Raises as `flush_all`."""
        self.flush_derived(with_queues=self._queue_duty_cycle.is_due)

    def flush_derived(self, *, thoroughly: bool = False, with_queues: bool = True) -> None:
        """Steps 1 to 5; keys when each index says that they are due, or `thoroughly`. Raises as `flush_all`.

        with_queues: False leaves out the sync of the queues, if they ever were synced before.
        """
        parts = self._parts
        self._lock_watch.check()
        with self._lock:
            dispatched = parts.dispatcher.dispatched_offset, parts.consume_queues.last_store_timestamp
            log_offset = self._flusher.flush()
            if with_queues or self._durable_queues is None:
                self._queue_duty_cycle.run(parts.consume_queues.flush)
                self._durable_queues = dispatched
            dispatched_offset, dispatched_timestamp = self._durable_queues
            for feed in parts.key_feeds:
                if thoroughly:
                    feed.index.flush()
                else:
                    feed.flush_in_background()
            self._save_checkpoint(min(dispatched_offset, log_offset), dispatched_timestamp)
            parts.queue_names.save(parts.consume_queues.durable_manifest)
            parts.recovery_point.save(RecoveryPoint(log_offset, min(dispatched_offset, log_offset)))

    def _save_checkpoint(self, dispatched_offset: int, dispatched_timestamp: int) -> None:
        """Save where a broker begins after a kill: at the end of the queues or index files, the earlier."""
        checkpoint, index_files = self._parts.checkpoint, self._parts.index_files
        log_timestamp = self._flusher.flushed_store_timestamp
        timestamp = min(dispatched_timestamp, log_timestamp) or checkpoint.checkpoint.logics_msg_timestamp
        offset = dispatched_offset
        if index_files is not None:
            index_offset, index_timestamp = index_files.durable_to
            offset, timestamp = min(offset, index_offset), min(timestamp, index_timestamp)
        checkpoint.save(log_timestamp, timestamp, logics_physical_offset=offset)

    def advance_index_checkpoint(self, end_timestamp: int) -> None:
        """Let a broker keep index files that end at this store time; sync the log first."""
        self._flusher.flush()
        self._parts.checkpoint.save(0, 0, end_timestamp)

    def persist_state(self) -> None:
        """topics.json, subscriptionGroup.json; consumerOffset.json up to the durable end of each queue."""
        self._lock_watch.check()
        with self._lock:
            self._persist_state(self._flusher.flush())

    def persist_progress(self) -> None:
        """consumerOffset.json and delayOffset.json, each if it has moved; nothing else is synced for that."""
        offsets, delivery = self._parts.consumer_offsets, self._delivery
        if (offsets.have_moved or delivery.has_moved) and self._progress_duty_cycle.is_due:
            self._lock_watch.check()
            with self._lock:
                self._progress_duty_cycle.run(self._persist_progress)

    def _persist_progress(self) -> None:
        log_offset = self._flusher.flush()
        if self._delivery.has_moved:
            self._delivery.persist(log_offset)
        if self._parts.consumer_offsets.have_moved:
            self._persist_consumer_offsets(log_offset)

    def _persist_state(self, log_offset: int) -> None:
        parts = self._parts
        parts.topics.persist()
        parts.subscription_groups.persist()
        self._persist_consumer_offsets(log_offset)

    def _persist_consumer_offsets(self, log_offset: int) -> None:
        parts = self._parts
        parts.consumer_offsets.persist(
            lambda topic, queue_id: parts.consume_queues.entries_below(topic, queue_id, log_offset)
        )

    def cut(self, read: Callable[[], _T]) -> tuple[int, _T]:
        """Do step 6; returns the durable end of the log, and what `read` returns for the files saved so."""
        self._lock_watch.check()
        with self._lock:
            log_offset = self._flusher.flush()
            self._persist_state(log_offset)
            self._delivery.persist(log_offset)
            return log_offset, read()

    def persist_delay_offsets(self) -> None:
        """delayOffset.json, no level past a delivery that is not durable."""
        self._lock_watch.check()
        with self._lock:
            self._delivery.persist(self._flusher.flush())
