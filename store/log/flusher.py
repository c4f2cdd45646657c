"""The flusher: makes what was appended durable, and tells those who wait for it.

One thread leads at a time: it holds the sync lock and syncs everything appended so far. Threads that come
meanwhile sleep (sync_waiters.py). Then those are woken whose bytes are durable, and after them one of the
others, which leads the next sync. One fdatasync serves all that was appended before it, and nobody holds a
lock that an append needs.

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
import time
from collections import deque
from collections.abc import Callable

from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreError
from mqstore.store.foreign_error import is_foreign
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.sync_waiters import SyncWaiter, SyncWaiters
from mqstore.store.threads.lock import Lock, RLock

__all__ = ["Completion", "Flusher"]

_PAGE_BYTES = 4_096
# An interrupt (Ctrl-C) may end a leader after its sync and before it wakes the others. So each of them looks
# for itself after this time.
_LONGEST_SLEEP_S = 0.1
Completion = Callable[[StoreError | None], None]
"""Called with None when something is durable, or with the error of a sync that failed."""


class Flusher:
    """Syncs one commit log."""

    def __init__(self, log: CommitLog, config: StoreConfig) -> None:
        self.log = log
        # Its flushed_offset is raised here alone.
        self._offsets = log.offsets
        self._least_pages = config.flush_commit_log_least_pages
        self._thorough_interval_s = config.flush_commit_log_thorough_interval / 1000
        self._is_sync_flush = config.is_sync_flush
        timeout_ms = config.sync_flush_timeout
        self._timeout_s = math.inf if timeout_ms is None else timeout_ms / 1000
        # Held by the leader. Re-entrant, because a release shows whether this thread held it (`_lead`), and a
        # signal handler may put while its thread leads.
        self._sync_lock = RLock()
        self._waiters = SyncWaiters()
        self._last_thorough_s = time.monotonic()
        # The error of the one sync that failed. Written and read by the leader.
        self._sync_error: OSError | None = None
        # Store time of the newest message known to be durable; read by the checkpoint.
        self.flushed_store_timestamp = log.last_store_timestamp
        # Any thread appends; `complete_pending` takes them, under _pending_lock.
        self._pending: deque[Completion] = deque()
        self._pending_lock = Lock()
        # Whether the service was woken and has not begun to sync yet.
        self._is_sync_asked = False
        # Called when somebody asks for a sync; the owner's service then calls `commit_group`.
        self.on_pending: Callable[[], None] | None = None

    @property
    def flushed_offset(self) -> int:
        """The log is durable up to this byte."""
        return self._offsets.flushed_offset

    @property
    def behind_bytes(self) -> int:
        """Bytes appended and not yet durable."""
        return self._offsets.max_offset - self._offsets.flushed_offset

    def flush(self) -> int:
        """Sync all that was appended before the call; returns the flushed offset.

        Raises StorePoisoned if this or an earlier sync failed.
        """
        try:
            with self._sync_lock:
                return self._flush_locked()
        finally:
            self._wake_waiters()

    def wait_for(self, end_offset: int) -> bool:
        """Wait until the log is durable up to `end_offset`; sync as leader if there is none.

        False if it took longer than `sync_flush_timeout`, or if this thread is amid a wait that a signal
        handler or a finalizer has interrupted. Raises StorePoisoned.
        """
        if self._offsets.flushed_offset >= end_offset:
            return True
        if self._waiters.is_entered:
            self.sync_soon()
            return False
        deadline_s = time.monotonic() + self._timeout_s
        if not self._waiters.is_led and self._lead(end_offset, deadline_s):
            return True
        is_durable = self._sleep_until(end_offset, deadline_s)
        if not is_durable:
            # The service can wait for the end of a sync that is under way.
            self.sync_soon()
        return is_durable

    def _sleep_until(self, end_offset: int, deadline_s: float) -> bool:
        """Sleep while others lead, and lead when woken to; False when time is up."""
        waiters = self._waiters
        was_woken = True
        waiter: SyncWaiter | None = waiters.join(end_offset)
        try:
            while waiter is not None:
                # It has joined before it looks: a thread that wakes others from now on sees it, or `is_led`
                # shows that none will. After a sleep in which nobody woke it, it does not trust `is_led`.
                if not (waiters.is_led and was_woken) and self._lead(end_offset, deadline_s):
                    break
                remaining_s = deadline_s - time.monotonic()
                was_woken = remaining_s > 0 and waiter.sleep(min(remaining_s, _LONGEST_SLEEP_S))
                if self._offsets.flushed_offset >= end_offset or remaining_s <= 0:
                    break
                if was_woken:
                    # To lead, and then to wake others. If another thread leads, that one wakes them.
                    waiter = None if self._lead(end_offset, deadline_s) else waiters.join(end_offset)
            return self._offsets.flushed_offset >= end_offset
        finally:
            if waiter is not None:
                waiters.leave(waiter)

    def _lead(self, end_offset: int, deadline_s: float) -> bool:
        """Sync as leader unless another does; whether the log is durable up to `end_offset` in time."""
        # No variable says whether the lock is held: an interrupt may come between `acquire` and the
        # assignment. To release a lock that this thread does not hold raises RuntimeError.
        try:
            if self._sync_lock.acquire(blocking=False) and self._offsets.flushed_offset < end_offset:
                self._flush_locked(deadline_s)
            return self._offsets.flushed_offset >= end_offset
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
            self._waiters.wake(self._offsets.flushed_offset)

    def run_once(self) -> None:
        """One round of ASYNC_FLUSH: sync if enough pages are dirty, or it is time to be thorough."""
        now_s = time.monotonic()
        thorough = now_s - self._last_thorough_s >= self._thorough_interval_s
        if thorough:
            self._last_thorough_s = now_s
        dirty_pages = self._offsets.max_offset // _PAGE_BYTES - self._offsets.flushed_offset // _PAGE_BYTES
        if self.behind_bytes and (thorough or dirty_pages >= self._least_pages):
            self.flush()

    def _flush_locked(self, deadline_s: float = math.inf) -> int:
        """Sync, but wait no longer than until `deadline_s`: a later call then makes the rest durable."""
        self._waiters.is_led = True
        log, offsets = self.log, self._offsets
        if self._sync_error is not None:
            log.poison(self._sync_error)
        if log.is_poisoned:  # I9
            raise log.refusal or AssertionError("poisoned without a refusal")
        # Read first: the time of a message that is appended in between counts with the next sync.
        store_timestamp = log.last_store_timestamp
        target = offsets.max_offset
        assert offsets.flushed_offset <= target, (offsets.flushed_offset, target)  # I3
        if target > offsets.flushed_offset:
            try:
                for mapped_file in log.files.files:
                    if mapped_file.end_offset > offsets.flushed_offset and mapped_file.start_offset < target:
                        if deadline_s == math.inf:
                            mapped_file.sync()
                        elif not mapped_file.sync_within(max(0.0, deadline_s - time.monotonic())):
                            return offsets.flushed_offset
                        if mapped_file.is_full:
                            mapped_file.release_descriptor()
            except OSError as error:
                # Kept before anything is called: a call raises Ctrl-C that was pressed while the disk hung.
                self._sync_error = error
                if is_foreign(error):
                    self._sync_error = None
                    raise
                log.poison(error)
                raise (log.refusal or AssertionError("poisoned without a refusal")) from error
            if offsets.flushed_offset > target:
                # A signal handler that puts has interrupted this and has synced more.
                return offsets.flushed_offset
            offsets.flushed_offset = target
        self.flushed_store_timestamp = store_timestamp
        return target

    # -- puts that wait without a thread ---------------------------------------------------------------

    @property
    def failure(self) -> StoreError | None:
        """The error that ended flushing; None while flushing works."""
        return self.log.refusal if self.log.is_poisoned else None

    def sync_soon(self) -> None:
        """Have the owner's service or the next leader sync what was appended; does not wait for it."""
        if not self._is_sync_asked:
            # Set before the service is woken, which clears it before it syncs.
            self._is_sync_asked = True
            try:
                if self.on_pending is not None:
                    self.on_pending()
            except BaseException:
                self._is_sync_asked = False
                raise

    def add_pending(self, complete: Completion) -> None:
        """Call `complete` once all that was appended before is durable, or the sync of it has failed.

        It may be called twice after Ctrl-C. The caller calls `complete_soon` next.
        """
        self._pending.append(complete)

    def complete_soon(self, end_offset: int) -> None:
        """Have what is pending for a record that ends at `end_offset` completed."""
        if self._offsets.flushed_offset >= end_offset or self.log.is_poisoned:
            # The last sync of a store that is being closed may be over, and nobody else would do it.
            self.complete_pending()
        else:
            self.sync_soon()

    def when_visible(self, end_offset: int, action: Callable[[], None]) -> None:
        """Call `action` once the log can be read up to `end_offset`: now, or after a sync that succeeds."""
        if self.log.visible_offset >= end_offset:
            action()
            return

        def complete(failure: StoreError | None) -> None:
            if failure is None:
                action()

        self.add_pending(complete)
        self.complete_soon(end_offset)

    def commit_group(self) -> None:
        """What the owner's service does when woken: sync for all puts that do not sync themselves."""
        self._is_sync_asked = False
        if not self.complete_pending() and self._is_sync_flush and self.behind_bytes:
            self.flush()

    def complete_pending(self) -> int:
        """Sync once for all that is pending and complete it; returns how many there were."""
        taken: deque[Completion] = deque()
        try:
            # Taken before the sync, which may not cover what is added later.
            count = self._take_pending(taken)
            if count:
                failure = self._flush_failure()
                while taken:
                    taken[0](failure)
                    taken.popleft()
        except BaseException:
            self._pending.extendleft(reversed(taken))
            raise
        return count

    def _take_pending(self, taken: deque[Completion]) -> int:
        with self._pending_lock:
            self._move_pending(taken)
        return len(taken)

    def _move_pending(self, taken: deque[Completion]) -> None:
        while self._pending:
            # At every moment it is in one of the two: Ctrl-C loses none.
            taken.append(self._pending[0])
            self._pending.popleft()

    def _flush_failure(self) -> StoreError | None:
        try:
            self.flush()
        except StoreError as failure:
            return failure
        return None
