"""A thread of a broker: sleeps until there is work, or until the time that the work has named.

It is a daemon thread. It starts with the first work, and ends with the last, or by `close`.
It does not know what the work is: pulls that wait (held_pulls.py), checks (transaction_checks.py).
Threads: any thread may start and close it. An interrupt (Ctrl-C) in any of these leaves no lock
taken, and no second thread at work.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.start_thread import start_thread

__all__ = ["WakeUpThread", "Work"]


class Work(Protocol):
    """What the thread does."""

    @property
    def event(self) -> AutoResetEvent:
        """Set when there is something to do."""
        ...

    @property
    def due_s(self) -> float:
        """When `run_once` is to be called if the event is not set before; infinity for never."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether there will be nothing to do any more."""
        ...

    def run_once(self) -> None:
        """Do what there is to do now. May not raise."""
        ...

    def end(self) -> None:
        """Do the last of it; nothing is asked of it afterwards. Called again if an interrupt has struck."""
        ...


class WakeUpThread:
    """Runs one kind of work of one broker."""

    def __init__(self, name: str, work: Work, now_s: Callable[[], float] = time.monotonic) -> None:
        """name: of the thread. now_s: the clock of `due_s`, in seconds; it only goes forward."""
        self._name = name
        self._work = work
        self._now_s = now_s
        self._is_closing = False
        # Held to start the thread.
        self._lock = Lock()
        # One, unless an interrupt has come between the start of the first and its turn.
        self._threads: list[threading.Thread] = []
        # Taken by the thread that works, for good.
        self._turn = Lock()
        self._has_ended = False

    def start(self) -> None:
        """Start the thread unless it runs, or is to end. Raises RuntimeError if none can be started."""
        if self._turn.locked():
            return
        with self._lock:
            if self._is_closing or self._turn.locked():
                return
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            # Added before the start: an interrupt may come when the thread already runs.
            self._threads.append(thread)
            if not start_thread(thread):
                self._threads.remove(thread)
                raise RuntimeError(f"the thread {self._name!r} cannot be started: end other threads")

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread, as a callback does."""
        return threading.current_thread() in self._threads

    def end_soon(self) -> None:
        """Have the thread end, without waiting for it.

        Where none has ever run, none will: the work ends here.
        """
        self._is_closing = True
        self._work.event.set()
        self._run()

    def close(self) -> None:
        """End the thread and wait for it; a callback that runs in the thread itself need not wait."""
        self.end_soon()
        for thread in self._threads:
            if thread is not threading.current_thread():
                # Raised for a thread whose start was interrupted. It may yet run, and find no turn left.
                with suppress(RuntimeError):
                    thread.join()
        if not (self._has_ended or self.is_current):
            # An interrupt has struck when an earlier call was about to end it.
            self._end()

    def _run(self) -> None:
        if not self._turn.acquire(blocking=False):
            # Another thread works, or the work has ended.
            return
        try:
            while not (self._is_closing or self._work.is_done):
                self._work.event.wait(self._sleep_s())
                self._work.run_once()
        finally:
            self._end()

    def _end(self) -> None:
        self._work.end()
        self._has_ended = True

    def _sleep_s(self) -> float:
        return max(0.0, min(self._work.due_s - self._now_s(), threading.TIMEOUT_MAX))

    def __repr__(self) -> str:
        state = "closing" if self._is_closing else "running" if self._turn.locked() else "not started"
        return f"WakeUpThread({self._name!r}, {state})"
