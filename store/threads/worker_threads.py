"""Worker threads: take items off one queue, in the order in which they were given, and run each.

    add -> queue -> the next thread that is free -> run(item)

Threads are started as items come, up to a number, and stay until `stop`. They are daemons: one that hangs in
foreign code keeps no process alive.
Items are added without a wake-up. `wake` wakes one thread. That wakes the next if more items wait, unless the
last one took less than 0.2 ms: threads that take turns at the interpreter for such items get less done than
one alone. So who adds items looks at `needs_wake` some time later: the items may have become slow.
To wake a thread is a call of the system, and the thread may need milliseconds until it has the interpreter: a
second wake-up meanwhile is left out.
What `run` raises, SystemExit and its kind too, is logged; the thread goes on.
Threads: any. Source: the thread pool of ConsumeMessageConcurrentlyService, whose queue has no bound.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.start_thread import start_thread

__all__ = ["Unfinished", "WorkerThreads"]

_logger = logging.getLogger(__name__)

T = TypeVar("T")

_SLOW_S = 0.0002
# Heals a wake-up that an interrupt (Ctrl-C) has prevented.
_LONGEST_SLEEP_S = 60.0


class Unfinished(NamedTuple):
    """A thread that had not ended when `stop` gave up waiting, and what it was at work on."""

    thread: threading.Thread
    item: object


class _Worker(threading.Thread):
    """One thread. item: what it is at work on."""

    item: Any = None


class WorkerThreads(Generic[T]):
    """Runs items on up to `max_threads` threads."""

    def __init__(self, name: str, run: Callable[[T], object], max_threads: int) -> None:
        """name: of the threads, which get a number each."""
        self._name = name
        self._run = run
        self._max_threads = max_threads
        self._items: deque[T] = deque()
        # Several threads wait for it. Each set wakes one, which then sets it again if there is more.
        self._event = AutoResetEvent()
        self._lock = Lock()
        # Written under the lock.
        self._threads: list[_Worker] = []
        self._idle_count = 0
        # A thread was woken or started that has not looked at the items since. Set under the lock.
        self._is_coming = False
        # Written by all threads: whether the last item took long. As long as nothing is known it may.
        self._is_slow = True
        self._is_stopping = False

    def add(self, item: T) -> None:
        """Queue an item; a thread that is not busy takes it after the next `wake`."""
        self._items.append(item)

    def wake(self) -> bool:
        """See that a thread works on what was added; False if there is none, and none can be started.

        After `stop` nothing is worked on, and nobody is told.
        """
        if self._is_stopping or not self._items:
            return True
        with self._lock:
            if self._is_coming:
                return True
            if self._idle_count:
                self._is_coming = True
                self._event.set()
                return True
        return len(self._threads) >= self._max_threads or self._start_one()

    @property
    def needs_wake(self) -> bool:
        """Whether items wait although a thread could take them."""
        has_thread = self._idle_count or len(self._threads) < self._max_threads
        return bool(self._items and has_thread) and not self._is_stopping

    def wake_all(self) -> bool:
        """As `wake`, for items that have waited: all threads are woken that there is work for."""
        if self._items:
            self._is_slow = True
            self._is_coming = False
        return self.wake()

    def take_all(self) -> list[T]:
        """Remove and return the items that no thread has taken yet."""
        taken = []
        while self._items:
            try:
                taken.append(self._items.popleft())
            except IndexError:
                break
        return taken

    def __len__(self) -> int:
        """Number of items that wait."""
        return len(self._items)

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller runs on one of them."""
        return threading.current_thread() in self._threads

    def stop(self, timeout_s: float) -> list[Unfinished]:
        """Drop the items that wait, and end the threads; those that do not end in time are returned.

        A thread that stops its own workers need not wait for itself.
        """
        with self._lock:
            self._is_stopping = True
            threads = list(self._threads)
        self._items.clear()
        self._event.set()
        deadline_s = time.monotonic() + timeout_s
        others = [thread for thread in threads if thread is not threading.current_thread()]
        for thread in others:
            if thread.ident is not None:
                thread.join(max(0.0, deadline_s - time.monotonic()))
        return [Unfinished(thread, thread.item) for thread in others if thread.is_alive()]

    def _start_one(self) -> bool:
        with self._lock:
            if self._is_stopping or len(self._threads) >= self._max_threads:
                return not self._is_stopping
            worker = _Worker(target=self._loop, name=f"{self._name}-{len(self._threads) + 1}", daemon=True)
            # Added before the start: an interrupt may come when the thread already runs.
            self._threads.append(worker)
            self._is_coming = True
            if not start_thread(worker):
                self._is_coming = False
                self._threads.remove(worker)
            return bool(self._threads)

    def _loop(self) -> None:
        worker, items = threading.current_thread(), self._items
        assert isinstance(worker, _Worker)
        self._is_coming = False
        while not self._is_stopping:
            try:
                worker.item = items.popleft()
            except IndexError:
                self._sleep()
            else:
                if items and self._is_slow:
                    self.wake()
                self._work(worker)
        # The next thread is to end, too.
        self._event.set()

    def _work(self, worker: _Worker) -> None:
        begun_s = time.perf_counter()
        try:
            self._run(worker.item)
        except BaseException:
            _logger.exception("%s failed on %r", worker.name, worker.item)
        self._is_slow = time.perf_counter() - begun_s > _SLOW_S
        # What is done is not kept.
        worker.item = None

    def _sleep(self) -> None:
        """Wait for the next item; one that was added before this is seen."""
        with self._lock:
            self._idle_count += 1
        try:
            if not self._items and not self._is_stopping:
                self._event.wait(_LONGEST_SLEEP_S)
        finally:
            # Both at once: else one could be said to come that is at work.
            with self._lock:
                self._idle_count -= 1
                self._is_coming = False

    def __repr__(self) -> str:
        return f"WorkerThreads({self._name!r}, {len(self._threads)} threads, {len(self)} items)"
