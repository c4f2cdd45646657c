"""The flusher: makes what was appended durable, and tells those who wait for it.

One thread leads at a time: it holds the sync lock and syncs everything appended so far, while those who come
meanwhile sleep (sync_waiters.py). Then all are woken whose bytes are durable now, and after them one of the
others, who leads the next sync. One fdatasync serves all that came before it, and nobody holds a lock that an
append needs.

No put waits longer than sync_flush_timeout, not even the leader: another thread syncs for it (timed_sync.py).
When time is up the sync goes on, and the owner's service waits for its end. Without a limit the leader calls
fdatasync itself.

A sync that fails is final (the kernel may have dropped the pages and would report success next time):
the log is poisoned, every waiter gets StorePoisoned, reads go on, and no second sync is ever tried.

In ASYNC_FLUSH a periodic service calls `run_once`, with RocketMQ's page thresholds (FlushRealTimeService).
It does not append (commit_log.py) nor sync anything but log segments.
Durability: what `flush` returns is durable. Threads: any.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreError
from mqstore.store.foreign_error import is_foreign
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.sync_waiters import SyncWaiter, SyncWaiters

__all__ = ["Flusher", "Settle"]

_PAGE_BYTES = 4_096
# A leader that an interrupt (Ctrl-C) ends between its sync and the waking of the others leaves them asleep;
# after this time each looks for itself.
_LONGEST_SLEEP_S = 0.1
Settle = Callable[[StoreError | None], None]
"""Called when something is durable, with None, or with the error of a sync that failed."""


class Flusher:
    """Syncs one commit log."""

    def __init__(self, log: CommitLog, config: StoreConfig) -> None:
        # Whose flushed_offset is raised here alone.
        self.log = log
        self._least_pages = config.flush_commit_log_least_pages
        self._thorough_interval_s = config.flush_commit_log_thorough_interval / 1000
        self._is_sync_flush = config.is_sync_flush
        timeout_ms = config.sync_flush_timeout
        self._timeout_s = math.inf if timeout_ms is None else timeout_ms / 1000
        # Held by the leader. Re-entrant only because its release tells whether the lock is ours (`_lead`).
        self._sync_lock = threading.RLock()
        self._waiters = SyncWaiters()
        self._last_thorough_s = time.monotonic()
        # The error of the one sync that failed. Written and read by the leader.
        self._sync_error: OSError | None = None
        # Store time of the newest message known to be durable; read by the checkpoint.
        self.flushed_store_timestamp = log.last_store_timestamp
        # Appended by anyone, taken by whoever calls `complete_pending`, under _taking.
        self._kept: deque[Settle] = deque()
        self._taking = threading.Lock()
        # Whether the service has been woken and has not yet begun to sync.
        self._is_sync_asked = False
        # Called when somebody asks for a sync; the owner's service then calls `commit_group`.
        self.on_pending: Callable[[], None] | None = None

    @property
    def flushed_offset(self) -> int:
        """The log is durable up to this byte."""
        return self.log.flushed_offset

    @property
    def behind_bytes(self) -> int:
        """Bytes appended and not yet durable."""
        return self.log.max_offset - self.log.flushed_offset

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

        False if that took longer than `sync_flush_timeout`. Raises StorePoisoned.
        """
        if self.log.flushed_offset >= end_offset:
            return True
        deadline_s = time.monotonic() + self._timeout_s
        if not self._waiters.is_led and self._lead(end_offset, deadline_s):
            return True
        is_durable = self._sleep_until(end_offset, deadline_s)
        if not is_durable:
            # Whatever was begun is ended by somebody who can wait.
            self.sync_soon()
        return is_durable

    def _sleep_until(self, end_offset: int, deadline_s: float) -> bool:
        """Sleep while others lead, and lead when woken for it; False when time is up."""
        waiters = self._waiters
        was_woken = True
        waiter: SyncWaiter | None = waiters.join(end_offset)
        try:
            while waiter is not None:
                # Joined first: whoever wakes others from now on sees this one, or `is_led` shows that nobody
                # will. Who slept in vain does not believe it.
                if not (waiters.is_led and was_woken) and self._lead(end_offset, deadline_s):
                    break
                remaining_s = deadline_s - time.monotonic()
                was_woken = remaining_s > 0 and waiter.sleep(min(remaining_s, _LONGEST_SLEEP_S))
                if self.log.flushed_offset >= end_offset or remaining_s <= 0:
                    break
                if was_woken:
                    # To lead, which wakes others; where somebody else does, that one will.
                    waiter = None if self._lead(end_offset, deadline_s) else waiters.join(end_offset)
            return self.log.flushed_offset >= end_offset
        finally:
            if waiter is not None:
                waiters.leave(waiter)

    def _lead(self, end_offset: int, deadline_s: float) -> bool:
        """Sync as leader unless another does; whether the log is durable up to `end_offset` in time."""
        # An interrupt may come between the acquiring and the next line, so whether the lock is held is not
        # kept in a variable: releasing one that is not ours raises RuntimeError.
        try:
            if self._sync_lock.acquire(blocking=False) and self.log.flushed_offset < end_offset:
                self._flush_locked(deadline_s)
            return self.log.flushed_offset >= end_offset
        finally:
            try:
                self._sync_lock.release()
            except RuntimeError:
                pass
            else:
                self._wake_waiters()

    def _wake_waiters(self) -> None:
        if self.log.is_poisoned:
            self._waiters.wake_all()
        else:
            self._waiters.wake(self.log.flushed_offset)

    def run_once(self) -> None:
        """One round of ASYNC_FLUSH: sync if enough pages are dirty, or it is time to be thorough."""
        now_s = time.monotonic()
        thorough = now_s - self._last_thorough_s >= self._thorough_interval_s
        if thorough:
            self._last_thorough_s = now_s
        dirty_pages = self.log.max_offset // _PAGE_BYTES - self.log.flushed_offset // _PAGE_BYTES
        if self.behind_bytes and (thorough or dirty_pages >= self._least_pages):
            self.flush()

    def _flush_locked(self, deadline_s: float = math.inf) -> int:
        """Sync, and wait until `deadline_s` at most: a later call makes durable what is not so then."""
        self._waiters.is_led = True
        log = self.log
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
                        if deadline_s == math.inf:
                            mapped_file.sync()
                        elif not mapped_file.sync_within(max(0.0, deadline_s - time.monotonic())):
                            return log.flushed_offset
                        if mapped_file.is_full:
                            mapped_file.release_descriptor()
            except OSError as error:
                # Kept before anything is called: Ctrl-C, pressed while the disk hung, strikes at a call.
                self._sync_error = error
                if is_foreign(error):
                    self._sync_error = None
                    raise
                log.poison(error)
                raise (log.refusal or AssertionError("poisoned without a refusal")) from error
            if log.flushed_offset > target:
                # A signal handler that puts has synced more in the midst of this.
                return log.flushed_offset
            log.flushed_offset = target
        self.flushed_store_timestamp = store_timestamp
        return target

    # -- puts that wait without a thread ---------------------------------------------------------------

    @property
    def failure(self) -> StoreError | None:
        """The error that ended flushing; None while flushing works."""
        return self.log.refusal if self.log.is_poisoned else None

    def sync_soon(self) -> None:
        """Have what was appended synced by the owner's service or the next leader, and do not wait for it."""
        if not self._is_sync_asked:
            # Before the service is woken, which takes it back before it syncs.
            self._is_sync_asked = True
            try:
                if self.on_pending is not None:
                    self.on_pending()
            except BaseException:
                self._is_sync_asked = False
                raise

    def keep(self, settle: Settle) -> None:
        """Call `settle` once all is durable that was appended before, or that has failed.

        It may be called twice when Ctrl-C strikes. Who keeps something calls `complete_soon` afterwards.
        """
        self._kept.append(settle)

    def complete_soon(self, end_offset: int) -> None:
        """See to it that what was kept, for a record that ends at `end_offset`, is settled."""
        if self.log.flushed_offset >= end_offset or self.log.is_poisoned:
            # Nobody may come to do it: the last sync of a store that is being closed is over.
            self.complete_pending()
        else:
            self.sync_soon()

    def when_visible(self, end_offset: int, action: Callable[[], None]) -> None:
        """Call `action` once the log can be read up to `end_offset`: now, or after a sync that succeeds."""
        if self.log.visible_offset >= end_offset:
            action()
            return

        def settle(failure: StoreError | None) -> None:
            if failure is None:
                action()

        self.keep(settle)
        self.complete_soon(end_offset)

    def commit_group(self) -> None:
        """What the owner's service does when woken: sync for all that do not wait themselves."""
        self._is_sync_asked = False
        if not self.complete_pending() and self._is_sync_flush and self.behind_bytes:
            self.flush()

    def complete_pending(self) -> int:
        """Sync once for all that is kept and settle it; returns how many."""
        taken: deque[Settle] = deque()
        try:
            # Taken before the sync: what comes in later may not be covered by it.
            count = self._take_kept(taken)
            if count:
                failure = self._flush_failure()
                while taken:
                    taken[0](failure)
                    taken.popleft()
        except BaseException:
            self._kept.extendleft(reversed(taken))
            raise
        return count

    def _take_kept(self, taken: deque[Settle]) -> int:
        with self._taking:
            while self._kept:
                # At every moment it is in one of the two, for Ctrl-C's sake.
                taken.append(self._kept[0])
                self._kept.popleft()
        return len(taken)

    def _flush_failure(self) -> StoreError | None:
        try:
            self.flush()
        except StoreError as failure:
            return failure
        return None
