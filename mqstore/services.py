"""The services of an open store: the steps that go on in the background, and how the parts call each other.

    delivery        puts delayed messages that are due into their topics
    retention       deletes expired segments; queues and keys follow the log
    delay-offsets   saves delayOffset.json
    state-files     saves the other state files
    progress        saves consumerOffset.json and delayOffset.json soon after they have moved
    flush-derived   syncs log, queues and keys, and saves how far they are durable
    dispatch        brings the log to the queues and the key indexes
    flush           syncs the log in ASYNC_FLUSH
    lock            looks whether the lock is still there
    group-commit    syncs the log for puts that do not wait in a thread of their own; woken by them
    reserve         reserves room for the writer ahead of it and prepares its next segment, and tells of what
                    has changed in the log (store/log/log_watch.py); woken by it

Each is a thread that repeats one step (store/threads/service.py). Without `start` the steps run when they are
called. `_wire` is the list of all callbacks that are set on a part from outside; the others are given to
constructors in message_store.py.
Threads: steps may be called from any thread, beside the service. Durability: as each step says.
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from mqstore.index.dispatcher import Dispatcher
from mqstore.lock_watch import LockWatch
from mqstore.persistence import Persistence
from mqstore.schedule.delivery.delivery_service import DeliveryService
from mqstore.settings.archived_file import ArchivedFile
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.log.flusher import Flusher
from mqstore.store.log.log_watch import LogWatch
from mqstore.store.log.retention import Retention
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.service import Service
from mqstore.store_counters import StoreCounters
from mqstore.store_parts import StoreParts

__all__ = ["Services"]

_logger = logging.getLogger(__name__)

# Period of the two that are woken.
_WOKEN_INTERVAL_MS = 1_000
_LOCK_INTERVAL_MS = 1_000


class Services:
    """The background work of one store."""

    def __init__(
        self,
        parts: StoreParts,
        flusher: Flusher,
        persistence: Persistence,
        delivery: DeliveryService,
        counters: StoreCounters,
        lock_watch: LockWatch,
        catch_up: Callable[[], bool],
    ) -> None:
        """`catch_up` brings what is visible in the log to the queues, as for a reader."""
        self._parts = parts
        self._flusher = flusher
        self._persistence = persistence
        self._delivery = delivery
        self._counters = counters
        self._lock_watch = lock_watch
        self._catch_up = catch_up
        # One round of retention at a time.
        self._retain_lock = Lock()
        self._retention = Retention(
            parts.commit_log, parts.file_system, parts.config, parts.clock, self._needed_from_offset
        )
        self._group_commit = Service("group-commit", _WOKEN_INTERVAL_MS, flusher.commit_group)
        self._log_watch = LogWatch(parts.commit_log)
        self._reserve = Service("reserve", _WOKEN_INTERVAL_MS, self.reserve, event=parts.commit_log.low_space)
        self.in_order_of_stop = self._make()
        self._wire()

    def _make(self) -> tuple[Service, ...]:
        """All services, in the order in which they are stopped."""
        config, persistence = self._parts.config, self._persistence
        return (
            Service("delivery", config.delivery_interval, self.deliver),
            Service("retention", config.clean_resource_interval, self.retain),
            Service("delay-offsets", config.flush_delay_offset_interval, persistence.persist_delay_offsets),
            Service("state-files", config.flush_consumer_offset_interval, persistence.persist_state),
            Service("progress", config.flush_progress_interval, persistence.persist_progress),
            Service("flush-derived", config.flush_interval_consume_queue, persistence.flush_in_background),
            Service("dispatch", config.dispatch_interval, self.dispatch),
            Service("flush", config.flush_interval_commit_log, self._flusher.run_once),
            Service("lock", _LOCK_INTERVAL_MS, self._lock_watch.check),
            self._group_commit,
            self._reserve,
        )

    def _wire(self) -> None:
        """Set every callback by which a part calls one that it does not know."""
        parts = self._parts
        # Before a segment is added: why the log may not grow.
        parts.commit_log.ask_before_growing(self._lock_watch.look)
        # A put asks for a sync and does not wait for it.
        self._flusher.on_pending = self._group_commit.wake
        if parts.index_files is not None:
            # Before an index file ends later: the time up to which a broker may keep the files.
            parts.index_files.advance_checkpoint = self._persistence.advance_index_checkpoint

    def start(self) -> None:
        """Start all threads, or none."""
        try:
            for service in self.in_order_of_stop:
                service.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all threads, each after the step that it is at. Safe to call twice, and without `start`."""
        for service in self.in_order_of_stop:
            service.stop()
        if not self._parts.read_only:
            self._log_watch.look()

    # -- steps ----------------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Bring what is visible in the log to the queues and the keys: queues first, readers wait for them.

        Raises CorruptRecord, StoreFull, OSError.
        """
        if self._lock_watch.is_lost:
            return
        visible_offset = self._parts.commit_log.visible_offset
        for dispatcher in self._dispatchers():
            dispatcher.catch_up(visible_offset)

    def reserve(self) -> None:
        """Reserve room ahead of the writer, and tell of what has changed in the log. Raises StoreFull."""
        try:
            self._parts.commit_log.reserve_ahead()
        finally:
            self._log_watch.look()

    def deliver(self) -> int:
        """Deliver the delayed messages that are due; returns how many."""
        self._catch_up()
        return self._delivery.run_once()

    def retain(self) -> None:
        """Delete expired segments as age, hour and disk say, and what is derived from them."""
        self._lock_watch.check()
        with self._retain_lock:
            count = self._retention.run_once()
            if count:
                self._let_derived_follow()
                self._tell_of_deleted(count)

    def delete_expired_now(self) -> int:
        """Delete expired segments at whatever hour, and what is derived from them; returns how many."""
        with self._retain_lock:
            count = self._retention.delete_expired_now()
            if count:
                self._let_derived_follow()
                self._tell_of_deleted(count)
            return count

    def expired_files(self) -> list[Path]:
        """The segments that `delete_expired_now` would delete."""
        return [file.path for file in self._retention.expired()]

    def _let_derived_follow(self) -> None:
        parts = self._parts
        min_offset = parts.commit_log.min_offset
        # While the entries are there.
        self._counters.count_puts()
        parts.consume_queues.delete_expired(min_offset)
        for feed in parts.key_feeds:
            feed.index.delete_expired(min_offset)

    def _tell_of_deleted(self, count: int) -> None:
        root, min_offset = str(self._parts.layout.root), self._parts.commit_log.min_offset
        log_event(
            *(_logger, events.SEGMENTS_DELETED, "%s: %d expired segments are deleted", root, count),
            store_path=root,
            segments=count,
            min_offset=min_offset,
        )

    def _needed_from_offset(self) -> int:
        """Where the part of the log begins that is still to be delivered, dispatched, or archived."""
        # In this order: what is dispatched after the first question is seen by the second.
        dispatched_offset = self._parts.dispatcher.dispatched_offset
        needed = min(dispatched_offset, self._delivery.min_undelivered_physical_offset())
        # Read anew each time: another process writes it.
        archived = ArchivedFile(self._parts.file_system, self._parts.layout.archived).load()
        return needed if archived is None else min(needed, archived.end_offset)

    # -- errors ---------------------------------------------------------------------------------------

    def _dispatchers(self) -> Iterator[Dispatcher]:
        yield self._parts.dispatcher
        for feed in self._parts.key_feeds:
            yield feed.dispatcher

    def errors(self) -> dict[str, str]:
        """What the last step failed with, by name of the dispatcher or service."""
        workers: tuple[Service | Dispatcher, ...] = (*self._dispatchers(), *self.in_order_of_stop)
        return {worker.name: str(worker.error) for worker in workers if worker.error}

    def __repr__(self) -> str:
        return f"Services({', '.join(service.name for service in self.in_order_of_stop)})"
