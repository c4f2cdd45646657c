"""Sync waiters: the threads that wait until the log is durable up to their record.

Each waits on a lock of its own, and waiters are woken one after another: each wakes the next before it
returns. If all were woken at once, they would only queue for the interpreter's lock and take the processor
from the thread that holds it. The last one wakes one of the threads that have come meanwhile, to lead the
next sync: by then most of the woken threads have put again, and that sync serves them all.

If a busy thread holds the interpreter's lock for milliseconds, each step of this chain would wait for it. A
waiter that is late for that reason wakes all the others at once, and they queue up before the busy thread.

It does not sync, and does not know what the offsets mean (flusher.py). Nothing here is durable.
Threads: any. An interrupt (Ctrl-C) may keep a thread from waking the next: so every wait needs a timeout.
A signal handler or a finalizer that syncs may run in a thread amid a method of this: `is_entered` says so.
Then it must not wait, and whom it would wake looks for itself.
"""

import time
from collections import deque
from threading import get_ident

from mqstore.store.threads.lock import Lock

__all__ = ["SyncWaiter", "SyncWaiters"]

# From being woken to running: some microseconds unless another thread is in the way.
_LATE_S = 0.001


class SyncWaiter:
    """One thread that waits. Its fields, except its own lock, are under the lock of `SyncWaiters`."""

    __slots__ = ("_asleep", "end_offset", "is_listed", "wakes_next")

    def __init__(self, end_offset: int, asleep: Lock) -> None:
        self.end_offset = end_offset
        # Whether it is to be woken: it was not yet, and has not left.
        self.is_listed = True
        self.wakes_next = False
        # Held from the beginning; whichever thread wakes this one releases it, once.
        self._asleep = asleep
        asleep.acquire()

    def sleep(self, timeout_s: float) -> bool:
        """Sleep until woken, `timeout_s` at most; whether it was woken."""
        return self._asleep.acquire(True, timeout_s)

    def wake(self, *, wakes_next: bool) -> None:
        """Wake the thread, and say whether it has to wake the next."""
        self.is_listed = False
        self.wakes_next = wakes_next
        self._asleep.release()


class SyncWaiters:
    """The threads that wait for one log."""

    def __init__(self) -> None:
        # Whether a thread leads, or threads are being woken, the last of which finds a leader. A thread that
        # joins while it is set will be seen. Never trusted for long. Set by the leader, cleared under _lock.
        self.is_led = False
        self._lock = Lock()
        # The thread that has the lock, else 0. Also read without: no other thread writes this one's number.
        self._holder = 0
        # In the order in which they joined, which is nearly the order of their offsets. Those that have left
        # stay until their turn comes. Under _lock, as the next two.
        self._waiting: deque[SyncWaiter] = deque()
        # Those whose bytes are durable, and which are to be woken.
        self._covered: deque[SyncWaiter] = deque()
        # When a waiter that is to wake the next was last woken.
        self._woken_s = 0.0

    @property
    def is_entered(self) -> bool:
        """Whether this thread is amid a method that it was interrupted in: it must not wait here."""
        return self._holder == get_ident()

    def join(self, end_offset: int) -> SyncWaiter:
        """Begin to wait, until `leave`."""
        waiter = SyncWaiter(end_offset, self._make_lock())
        with self._lock:
            try:
                self._holder = get_ident()
                self._waiting.append(waiter)
            finally:
                self._holder = 0
        return waiter

    def leave(self, waiter: SyncWaiter) -> None:
        """Stop waiting, woken or not; wakes the next waiter if `waiter` has to."""
        with self._lock:
            try:
                self._holder = get_ident()
                waiter.is_listed = False
                if waiter.wakes_next:
                    if time.monotonic() - self._woken_s > _LATE_S:
                        self._wake_covered()
                    self._wake_next()
                    waiter.wakes_next = False
            finally:
                self._holder = 0

    def wake(self, flushed_offset: int) -> None:
        """After a sync: begin to wake all that wait for bytes below `flushed_offset`."""
        if self.is_entered:
            return
        with self._lock:
            try:
                self._holder = get_ident()
                self._wake_those_below(flushed_offset)
            finally:
                self._holder = 0

    def _wake_those_below(self, flushed_offset: int) -> None:
        waiting, covered = self._waiting, self._covered
        for _ in range(len(waiting)):
            waiter = waiting[0]
            # Added first, then removed: an interrupt in between loses none.
            (covered if waiter.end_offset <= flushed_offset else waiting).append(waiter)
            waiting.popleft()
        self._wake_next()

    def wake_all(self) -> None:
        """Wake everyone: there will be no further sync."""
        if self.is_entered:
            return
        with self._lock:
            try:
                self._holder = get_ident()
                self._covered.extend(self._waiting)
                self._wake_covered()
                self.is_led = False
            finally:
                self._holder = 0

    def _wake_next(self) -> None:
        """Wake the next whose bytes are durable; if there is none, one that is to lead the next sync."""
        while self._covered or self._waiting:
            # The one that came last leads: it gives the others time to join.
            waiter = self._covered.popleft() if self._covered else self._waiting.pop()
            if waiter.is_listed:
                self._woken_s = time.monotonic()
                waiter.wake(wakes_next=True)
                return
        self.is_led = False

    def _wake_covered(self) -> None:
        while self._covered:
            waiter = self._covered.popleft()
            if waiter.is_listed:
                waiter.wake(wakes_next=False)

    def _make_lock(self) -> Lock:
        return Lock()

    def __repr__(self) -> str:
        waiting = sum(waiter.is_listed for waiter in (*self._waiting, *self._covered))
        return f"SyncWaiters(waiting={waiting})"
