"""The flusher: makes what was appended durable, and tells those who wait for it.

One thread leads at a time: it holds the sync lock and syncs everything appended so far, while those who come
meanwhile sleep (sync_waiters.py). Then it wakes all whose bytes are durable now, and one more, who leads the
next sync. One fdatasync serves all that came before it, and nobody holds a lock that an append needs.

A sync that fails is final (the kernel may have dropped the pages and would report success next time):
the log is poisoned, every waiter gets StorePoisoned, reads go on, and no second sync is ever tried.

In ASYNC_FLUSH a periodic service calls `run_once`, with RocketMQ's page thresholds (FlushRealTimeService).
It does not append (commit_log.py) nor sync anything but log segments.
Durability: what `flush` returns is durable. Threads: any.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, Generic, NamedTuple, TypeVar

from mqstore.store.commit_log import CommitLog
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreError
from mqstore.store.sync_waiters import SyncWaiters

__all__ = ["Flusher"]

_PAGE_BYTES = 4_096
# A leader that an interrupt (Ctrl-C) ends between its sync and the waking of the others leaves them asleep;
# after this time each looks for itself.
_LONGEST_SLEEP_S = 0.1
Outcome = TypeVar("Outcome")


class _Pending(NamedTuple, Generic[Outcome]):
    """A put that waits for the disk without a thread of its own."""

    end_offset: int
    future: "Future[Outcome]"
    outcome: Outcome


class Flusher:
    """Syncs one commit log."""

    def __init__(self, log: CommitLog, config: StoreConfig) -> None:
        self._log = log
        self._least_pages = config.flush_commit_log_least_pages
        self._thorough_interval_s = config.flush_commit_log_thorough_interval / 1000
        self._is_sync_flush = config.is_sync_flush
        self._timeout_s = config.sync_flush_timeout / 1000
        # Held by the leader. Re-entrant only because its release tells whether the lock is ours (`_lead`).
        self._sync_lock = threading.RLock()
        self._waiters = SyncWaiters()
        # Whether somebody seems to lead; spares the others asking for the lock. Never trusted for long.
        self._is_led = False
        self._last_thorough_s = time.monotonic()
        # The error of the one sync that failed. Written and read by the leader.
        self._sync_error: OSError | None = None
        # Store time of the newest message known to be durable; read by the checkpoint.
        self.flushed_store_timestamp = log.last_store_timestamp
        # Appended by putters, taken by whoever calls `resolve_pending`.
        self._pending: deque[_Pending[Any]] = deque()
        # Called after each `resolve_later`; the owner's service then calls `commit_group`.
        self.on_pending: Callable[[], None] | None = None

    @property
    def flushed_offset(self) -> int:
        """The log is durable up to this byte."""
        return self._log.flushed_offset

    @property
    def behind_bytes(self) -> int:
        """Bytes appended and not yet durable."""
        return self._log.max_offset - self._log.flushed_offset

    def flush(self) -> int:
        """Sync all that was appended before the call; returns the flushed offset.

        Raises StorePoisoned when this or an earlier sync failed.
        """
        try:
            with self._sync_lock:
                return self._flush_locked()
        finally:
            self._wake_waiters()

    def wait_for(self, end_offset: int) -> bool:
        """Wait until the log is durable up to `end_offset`, syncing as leader where none is at work.

        False when that took longer than `sync_flush_timeout`. Raises StorePoisoned.
        """
        if self._log.flushed_offset >= end_offset or (not self._is_led and self._lead(end_offset)):
            return True
        return self._sleep_until(end_offset)

    def _sleep_until(self, end_offset: int) -> bool:
        """Sleep while others lead, and lead when woken for it; False when time is up."""
        deadline_s = time.monotonic() + self._timeout_s
        was_woken = True
        asleep: threading.Lock | None = None
        while self._log.flushed_offset < end_offset:
            # Whoever slept in vain is still among them: an entry nobody sleeps on could be woken to lead.
            asleep = asleep or self._waiters.join(end_offset)
            # Joined first: a leader that ended before that woke nobody, and `_is_led` shows it. Whoever slept
            # in vain does not believe it.
            if not (self._is_led and was_woken) and self._lead(end_offset):
                break
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                return self._log.flushed_offset >= end_offset
            was_woken = asleep.acquire(timeout=min(remaining_s, _LONGEST_SLEEP_S))
            if was_woken:
                asleep = None
        return True

    def _lead(self, end_offset: int) -> bool:
        """Sync as leader unless another does; whether the log is durable up to `end_offset` now."""
        # An interrupt may come between the acquiring and the next line, so whether the lock is held is not
        # kept in a variable: releasing one that is not ours raises RuntimeError.
        try:
            if self._sync_lock.acquire(blocking=False) and self._log.flushed_offset < end_offset:
                self._flush_locked()
            return self._log.flushed_offset >= end_offset
        finally:
            try:
                self._sync_lock.release()
            except RuntimeError:
                pass
            else:
                self._wake_waiters()

    def _wake_waiters(self) -> None:
        # Before those who sleep are looked at: whoever joins after that sees that nobody leads.
        self._is_led = False
        if self._log.is_poisoned:
            self._waiters.wake_all()
        else:
            self._waiters.wake(self._log.flushed_offset)

    def run_once(self) -> None:
        """One round of ASYNC_FLUSH: sync if enough pages are dirty, or it is time to be thorough."""
        now_s = time.monotonic()
        thorough = now_s - self._last_thorough_s >= self._thorough_interval_s
        if thorough:
            self._last_thorough_s = now_s
        dirty_pages = self._log.max_offset // _PAGE_BYTES - self._log.flushed_offset // _PAGE_BYTES
        if self.behind_bytes and (thorough or dirty_pages >= self._least_pages):
            self.flush()

    def _flush_locked(self) -> int:
        self._is_led = True
        log = self._log
        if self._sync_error is not None:
            log.poison(self._sync_error)
        if log.is_poisoned:  # I9
            raise log.refusal or AssertionError("poisoned without a refusal")
        # The time is read first: a message appended in between is synced but not yet counted as such.
        store_timestamp = log.last_store_timestamp
        target = log.max_offset
        assert log.flushed_offset <= target, (log.flushed_offset, target)  # I3
        if target > log.flushed_offset:
            try:
                for mapped_file in log.files.files:
                    if mapped_file.end_offset > log.flushed_offset and mapped_file.start_offset < target:
                        mapped_file.sync()
                        if mapped_file.is_full:
                            mapped_file.rest()
            except OSError as error:
                # Kept before anything is called: Ctrl-C, pressed while the disk hung, strikes at a call.
                self._sync_error = error
                log.poison(error)
                raise (log.refusal or AssertionError("poisoned without a refusal")) from error
            log.flushed_offset = target
        self.flushed_store_timestamp = store_timestamp
        return target

    # -- puts that wait without a thread ---------------------------------------------------------------

    def resolve_later(self, end_offset: int, future: "Future[Outcome]", outcome: Outcome) -> None:
        """Resolve `future` with `outcome` once the log is durable up to `end_offset`."""
        self._pending.append(_Pending(end_offset, future, outcome))
        if self._log.flushed_offset >= end_offset or self._log.is_poisoned:
            # Nobody may come to resolve it: the last sync of a store that is being closed is over.
            self.resolve_pending()
        elif self.on_pending is not None:
            self.on_pending()

    def commit_group(self) -> None:
        """What the owner's service does when woken: sync for the futures, and for puts that do not wait."""
        if not self.resolve_pending() and self._is_sync_flush and self.behind_bytes:
            self.flush()

    def wake(self) -> None:
        """Have what was appended synced soon: a put in SYNC_FLUSH that does not wait is seen only then."""
        if self.on_pending is not None:
            self.on_pending()

    def resolve_pending(self) -> int:
        """Sync once for all waiting futures and resolve them; returns how many."""
        # Taken before the sync: a future that comes in later may not be covered by it.
        taken = self._take_pending()
        if not taken:
            return 0
        failure: StoreError | None = None
        try:
            self.flush()
        except StoreError as error:
            failure = error
        except BaseException:
            self._pending.extendleft(reversed(taken))
            raise
        for pending in taken:
            try:
                if failure is not None:
                    pending.future.set_exception(failure)
                else:
                    pending.future.set_result(pending.outcome)
            except InvalidStateError:
                # It was cancelled; its message is stored all the same. Those who wait for it are told.
                pending.future.set_running_or_notify_cancel()
        return len(taken)

    def _take_pending(self) -> list[_Pending[object]]:
        taken = []
        with contextlib.suppress(IndexError):
            while True:
                taken.append(self._pending.popleft())
        return taken
