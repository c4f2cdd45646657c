"""A timed sync: another thread calls fdatasync, and the caller waits for it no longer than it may.

A thread in fdatasync cannot be woken before the disk answers, which may take a minute. So a thread of its own
calls it, in a compiled loop that never waits for the GIL (sync_kernels.py). It shares two words with the
callers: the number of the last request, and that of the request that ended last, with its errno. The words
are the truth. Two eventfds only wake those who look at them. So an exception at any place, such as Ctrl-C,
loses neither a request nor an error. The cost: docs/decisions/0017-a-put-waits-no-longer-than-it-says.md.

One sync at a time is under way. A later call first waits for its end, and then requests another one, because
the first may not cover what was written since. An error is final: every later call raises it again.
The thread is a daemon. The first sync starts it; `close`, or the end of the object, ends it. If none can be
started, the caller calls fdatasync, however long that takes. A forked child starts its own.
Threads: one at a time; the caller locks. Durability: when `sync` returned True.
"""

import math
import os
import select
import sys
import threading
import time
import weakref
from collections.abc import Callable

import numpy as np

from mqstore.store.foreign_error import raise_foreign
from mqstore.store.threads.start_thread import start_thread

__all__ = ["TimedSync"]

_LOW = 0xFFFFFFFF
_LAST_NUMBER = 0x7FFFFFFF
# A signal handler that syncs may take the wake-up of the wait that it interrupts. So each wait looks for
# itself after this time.
_LONGEST_SLEEP_S = 0.1
# A thread that has nothing to do any more needs the GIL once more to end.
_LONGEST_JOIN_S = 1.0


class TimedSync:
    """Syncs one file."""

    def __init__(self) -> None:
        # Kept when it has ended: it knows whether a sync has failed.
        self._thread: _SyncThread | None = None

    def sync(self, descriptor: int, timeout_s: float) -> bool:
        """Make all bytes written before this call durable; False when time is up first. Raises OSError."""
        deadline_s = time.monotonic() + timeout_s
        thread = self._thread
        if thread is not None and not thread.has_ended(deadline_s):
            return False
        if thread is None or not thread.is_ready:
            thread = self._start_thread()
            if thread is None:
                os.fdatasync(descriptor)
                return True
        thread.request(descriptor)
        return thread.has_ended(deadline_s)

    def finish(self) -> None:
        """Wait for the end of a sync that is under way, however long it takes. Raises its OSError."""
        if self._thread is not None:
            self._thread.has_ended(math.inf)

    def close(self) -> None:
        """End the thread, after the sync that is under way. Later calls still raise the error of that one.

        The next sync starts another thread.
        """
        if self._thread is not None:
            self._thread.wait(math.inf)
            self._thread.stop()
            self._thread.join()

    def close_later(self, descriptor: int) -> bool:
        """Have `descriptor` closed after the sync under way; False if there is none. The last call."""
        thread = self._thread
        if thread is None or thread.is_idle:
            return False
        thread.descriptor_to_close = descriptor
        return True

    def _start_thread(self) -> "_SyncThread | None":
        """None if the system has no thread or no descriptors left, or the interpreter is ending."""
        if self._thread is not None:
            self._thread.stop()
        try:
            # Kept before it is started: an interrupt leaves no thread that nobody can end.
            self._thread = thread = _SyncThread()
            return thread if thread.start() else None
        except (OSError, ImportError) as error:
            # To load the loop takes descriptors too.
            raise_foreign(error)
            return None

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # The end of the process ends the thread, which must not look for an interpreter by then.
        thread = getattr(self, "_thread", None)
        if thread is not None and not is_finalizing():
            thread.stop()


class _SyncThread:
    """A thread that syncs, and what it shares with its TimedSync.

    Both refer to this object, and its descriptors are closed when neither does any more.
    """

    # -1: none. The last one is a file's.
    _asked = _ended = descriptor_to_close = -1
    # From the start of the thread to `stop`.
    is_ready = False
    _thread: threading.Thread | None = None

    def __init__(self) -> None:
        self._arrays = [np.zeros(1, np.int64) for _ in range(3)] + [np.ones(1, np.int64)]
        # As serve_syncs has them.
        self._request, self._answer, self._stop = (array.data for array in self._arrays[:3])
        _all_threads.add(self)
        self._asked = os.eventfd(0, os.EFD_CLOEXEC)
        self._ended = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def start(self) -> bool:
        """Start the thread; whether there is one. Raises OSError, ImportError."""
        from mqstore.store.files import sync_kernels

        functions = sync_kernels.c_functions("read", "write", "fdatasync", "__errno_location")
        arrays = self._arrays

        def run() -> None:
            sync_kernels.serve_syncs(functions, *arrays, arrays[3].ctypes.data, self._asked, self._ended)

        thread = threading.Thread(target=run, name="mqstore sync", daemon=True)
        self._thread = thread
        if not start_thread(thread):
            self._thread = None
            return False
        self.is_ready = True
        return True

    @property
    def is_idle(self) -> bool:
        """Whether the last request has ended, or there was none."""
        return self._request[0] >> 32 == self._answer[0] >> 32

    def request(self, descriptor: int) -> None:
        """Request a sync. `wait` wakes the thread."""
        number = ((self._request[0] >> 32) + 1) & _LAST_NUMBER
        self._request[0] = number << 32 | descriptor

    def has_ended(self, deadline_s: float) -> bool:
        """Whether the last request ends in time. Raises its OSError."""
        is_idle = self.wait(deadline_s)
        error_number = self._answer[0] & _LOW
        if error_number:
            raise OSError(error_number, os.strerror(error_number))
        return is_idle

    def wait(self, deadline_s: float) -> bool:
        """Wait for the end of the last request; whether it came in time."""
        if self.is_idle:
            return True
        # Each time: an interrupt may have come between the request and this.
        os.eventfd_write(self._asked, 1)
        # One for each wait: a signal handler that puts may wait within this.
        poll = select.poll()
        poll.register(self._ended, select.POLLIN)
        while not self.is_idle:
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                return self.is_idle
            if poll.poll(min(remaining_s, _LONGEST_SLEEP_S) * 1000):
                self._forget_wake_ups()
        return True

    def _forget_wake_ups(self) -> None:
        try:
            os.eventfd_read(self._ended)
        except BlockingIOError as error:
            raise_foreign(error)

    def stop(self) -> None:
        """Have the thread end, after the sync that is under way."""
        self.is_ready = False
        self._stop[0] = 1
        if self._asked >= 0:
            os.eventfd_write(self._asked, 1)

    def join(self) -> None:
        """Wait for the end of the thread, which is stopped and idle."""
        thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join(_LONGEST_JOIN_S)
        if thread is None or not thread.is_alive():
            # One that is about to start sees that it is stopped, and uses none of them.
            self._close()

    def leave_to_parent(self) -> None:
        """In a forked child, which has no such thread: what is under way ends in the parent."""
        self.is_ready = False
        if not self.is_idle:
            self._request[0] = self._answer[0]
        self._thread = None
        self._close()

    def _close(self, close: Callable[[int], None] = os.close) -> None:
        # Each is forgotten before it is closed: an interrupt in between leaks it, and never closes it twice.
        # `os` may be gone: at the end of the process a module's names are cleared before some objects.
        for name in ("_asked", "_ended", "descriptor_to_close"):
            descriptor = getattr(self, name)
            setattr(self, name, -1)
            if descriptor >= 0:
                close(descriptor)

    def __del__(self) -> None:
        self._close()


_all_threads: "weakref.WeakSet[_SyncThread]" = weakref.WeakSet()


def _leave_all_to_parent() -> None:
    for thread in list(_all_threads):
        thread.leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)
