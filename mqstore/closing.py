"""Closing: the last steps of an open store, in an order that leaves nothing half done.

    stop what waits, delivers and runs in the background -> refuse puts -> sync the log
    -> dispatch, sync queues and keys, save delay offsets -> save the other state files
    -> cut what lies behind the log's end, delete `abort` -> close keys and files, unlock the directory

`abort` goes only when all steps before it have succeeded; else the next opening recovers. A store that is
read only writes nothing. Each step may run twice: after an interrupt (Ctrl-C) the close can be called again.
Threads: one at a time. Durability: everything, unless the log is poisoned, or the disk is full, which a
logged warning or an error says. Source: DefaultMessageStore#shutdown.
"""

import logging
from collections.abc import Callable
from contextlib import suppress

from mqstore.lock_watch import LockWatch
from mqstore.persistence import Persistence
from mqstore.put.arrivals import Arrivals
from mqstore.schedule.delivery.delivery_service import DeliveryService
from mqstore.services import Services
from mqstore.store.errors import StoreClosed, StoreFull, StoreLockLost
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.log.flusher import Flusher
from mqstore.store_parts import StoreParts

__all__ = ["Closing"]

_logger = logging.getLogger(__name__)


class Closing:
    """Closes one store. is_over: whether the directory has been unlocked."""

    def __init__(
        self,
        parts: StoreParts,
        flusher: Flusher,
        persistence: Persistence,
        services: Services,
        delivery: DeliveryService,
        arrivals: Arrivals,
        lock_watch: LockWatch,
    ) -> None:
        self.is_over = False
        self._parts = parts
        self._flusher = flusher
        self._persistence = persistence
        self._services = services
        self._delivery = delivery
        self._arrivals = arrivals
        self._lock_watch = lock_watch
        # Whether all has been written that can be, and only the release is left.
        self._is_written = False

    def run(self) -> None:
        """All steps. Raises StoreFull and other errors of the disk, after the directory has been unlocked."""
        if self.is_over:
            return
        self._arrivals.close()
        self._delivery.stop()
        self._services.stop()
        try:
            if not self._parts.read_only and not self._is_written:
                self._write()
        except Exception:
            self._is_written = True
            self.release()
            raise
        self._is_written = True
        self.release()

    def _write(self) -> None:
        parts, log, persistence = self._parts, self._parts.commit_log, self._persistence
        with suppress(StoreLockLost):
            self._lock_watch.check()
        log.refuse(self._error)
        if log.is_poisoned:
            self._flusher.complete_pending()
            return
        self._flusher.flush()
        self._flusher.complete_pending()
        derived = (
            self._services.dispatch,
            lambda: persistence.flush_derived(thoroughly=True),
            persistence.persist_delay_offsets,
        )
        # All are tried: on a full disk the keys may not fit, and a state file may.
        fitting = [self._fits(step) for step in derived]
        persistence.persist_state()
        if all(fitting):
            log.files.delete_from(log.max_offset + 1)
            parts.abort.delete()

    def _fits(self, step: Callable[[], object]) -> bool:
        """Whether the disk has room for a step that the next opening can make up for."""
        try:
            step()
        except StoreFull as full:
            _logger.warning("closing %s: %s", self._parts.layout.root, full)
            return False
        return True

    def release(self) -> None:
        """Release files and lock, and write nothing more. Enough for a store that is not to be saved."""
        parts = self._parts
        if not parts.read_only:
            # In every case: after the lock is released, nothing may be put.
            parts.commit_log.refuse(self._error)
        parts.commit_log.files.release_descriptors()
        # Another writer may own the files as soon as the lock is gone.
        for state in (parts.topics, parts.subscription_groups, parts.consumer_offsets):
            state.refuse(self._error)
        parts.release(keys_are_lost=self._lock_watch.is_lost)
        self.is_over = True
        root, end_offset = str(parts.layout.root), parts.commit_log.max_offset
        log_event(
            *(_logger, events.STORE_CLOSED, "%s is closed", root), store_path=root, max_offset=end_offset
        )

    def _error(self) -> StoreClosed:
        return StoreClosed(self._parts.layout.root)

    def __repr__(self) -> str:
        return f"Closing({str(self._parts.layout.root)!r}, is_over={self.is_over})"
