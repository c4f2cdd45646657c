"""A bounded executor: a few threads that run calls in the order in which they were handed in.

A call that finds too many others waiting is rejected, so that a caller learns that it is too fast. Threads
start as calls come, and end with `close`. The calls take care of their own errors: what one raises is
logged.
Threads: any may submit. In a forked child it begins with no thread and no call.
Source: ThreadPoolExecutor of Java with a LinkedBlockingQueue, as RocketMQ's clients use it.
"""

import logging
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from mqstore.store.threads.lock import Lock
from mqstore.store.threads.start_thread import start_thread

__all__ = ["BoundedExecutor"]

_logger = logging.getLogger(__name__)


class BoundedExecutor:
    """Runs calls in at most `max_threads` daemon threads; at most `capacity` wait for one."""

    def __init__(self, name: str, max_threads: int, capacity: int | None = None) -> None:
        """capacity: None for as many as come."""
        self._name = name
        self._max_threads = max_threads
        self._capacity = capacity
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        # Held to hand in a call, to add a thread, and to close: no call comes behind the end.
        self._lock = Lock()
        # None ends a thread.
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        # One element for each thread that waits for a call. Kept until there are all threads.
        self._idle: list[None] = []
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """How many calls wait for a thread."""
        return self._calls.qsize()

    def submit(self, call: Callable[[], object]) -> bool:
        """Have a thread run `call`; False if too many wait, or if it is closed."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            if self._is_closed or (self._capacity is not None and self._calls.qsize() >= self._capacity):
                return False
            if len(self._threads) < self._max_threads and not self._take_idle() and not self._add_thread():
                return False
            self._calls.put(call)
        return True

    def _take_idle(self) -> bool:
        try:
            self._idle.pop()
        except IndexError:
            return False
        return True

    def _add_thread(self) -> bool:
        """Start one more; False if there is none, and none can be started."""
        name = f"mqstore-{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        if start_thread(thread):
            self._threads.append(thread)
        return bool(self._threads)

    def _run(self) -> None:
        calls = self._calls
        while True:
            if len(self._threads) < self._max_threads and calls.empty():
                self._idle.append(None)
            call = calls.get()
            if call is None:
                return
            try:
                call()
            except Exception:
                _logger.exception("a call of the executor %s failed", self._name)
            # It may hold what its caller wants to be free of.
            del call

    def close(self) -> None:
        """Take no more calls, run those that wait, and end the threads.

        It may be called by one of them, which then ends by itself.
        """
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            self._is_closed = True
            for _ in self._threads:
                self._calls.put(None)
            threads, self._threads = self._threads, []
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def __repr__(self) -> str:
        return f"BoundedExecutor({self._name!r}, threads={len(self._threads)}, waiting={self.waiting})"
