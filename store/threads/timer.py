"""A timer: calls that one thread makes, each when its time has come.

    call_later(5_000, call) -> in about 5 s the thread calls it, unless it was cancelled before

The thread starts with the first call and sleeps between calls; it polls nothing. A call should be quick: the
others wait behind it. What a call raises is logged, and the next call is made.
Threads: `call_later` and what it returns from any thread, also from a call; calls are made one at a time.
"""

import heapq
import itertools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.start_thread import start_thread

__all__ = ["Timer", "TimerThread"]

_logger = logging.getLogger(__name__)

# Heals a wake-up that an interrupt (Ctrl-C) has prevented.
_LONGEST_SLEEP_S = 5.0


class Timer(Protocol):
    """Something that makes calls later."""

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Callable[[], None]:
        """Make `call` after `delay_ms`. Returns what cancels it; a call that has begun goes on."""
        ...


class _Call:
    __slots__ = ("call", "due_s")

    def __init__(self, call: Callable[[], object], due_s: float) -> None:
        self.call: Callable[[], object] | None = call
        self.due_s = due_s

    def cancel(self) -> None:
        self.call = None


class TimerThread:
    """A `Timer` with a thread of its own."""

    def __init__(self, name: str, now_s: Callable[[], float] = time.monotonic) -> None:
        """name: of the thread. now_s: a clock that only goes forward."""
        self.name = name
        self._now_s = now_s
        self._event = AutoResetEvent()
        # Appended to by any thread, taken in by the thread that works.
        self._new: deque[_Call] = deque()
        # Of the thread that works alone.
        self._heap: list[tuple[float, int, _Call]] = []
        self._numbers = itertools.count()
        self._lock = Lock()
        # Written under the lock.
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Callable[[], None]:
        """As `Timer`. After `stop` nothing is called. Raises RuntimeError if no thread can be started."""
        entry = _Call(call, self._now_s() + delay_ms / 1000)
        self._new.append(entry)
        if self._thread is None:
            self._start()
        self._event.set()
        return entry.cancel

    def run_once(self) -> None:
        """Make the calls that are due."""
        while self._new:
            entry = self._new.popleft()
            heapq.heappush(self._heap, (entry.due_s, next(self._numbers), entry))
        now_s = self._now_s()
        while self._heap and self._heap[0][0] <= now_s and not self._is_stopping:
            _make(heapq.heappop(self._heap)[2])

    @property
    def due_s(self) -> float:
        """When the next call is due; infinity without one."""
        return self._heap[0][0] if self._heap else math.inf

    def stop(self, timeout_s: float) -> bool:
        """End the thread after the call that it makes now; False if that takes longer than `timeout_s`.

        Calls that are not due yet are dropped. One that stops its own timer need not wait.
        """
        with self._lock:
            self._is_stopping = True
            thread = self._thread
        self._event.set()
        if thread is None or thread.ident is None or thread is threading.current_thread():
            return True
        thread.join(timeout_s)
        return not thread.is_alive()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None or self._is_stopping:
                return
            thread = threading.Thread(target=self._loop, name=self.name, daemon=True)
            # Assigned before the start: an interrupt may come when the thread already runs.
            self._thread = thread
            if not start_thread(thread):
                self._thread = None
                raise RuntimeError(f"the thread {self.name!r} cannot be started: end other threads")

    def _loop(self) -> None:
        while not self._is_stopping:
            self.run_once()
            if not self._new:
                sleep_s = min(self.due_s - self._now_s(), _LONGEST_SLEEP_S)
                if sleep_s > 0:
                    self._event.wait(sleep_s)
        self._new.clear()
        self._heap.clear()

    def __repr__(self) -> str:
        return f"TimerThread({self.name!r}, {len(self._heap) + len(self._new)} calls)"


def _make(entry: _Call) -> None:
    call, entry.call = entry.call, None
    if call is None:
        return
    try:
        call()
    except BaseException:
        # SystemExit and CancelledError as well: they may not end the thread of all other calls.
        _logger.exception("a call of a timer failed: %r", call)
