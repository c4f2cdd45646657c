"""Arrivals: tells those who wait for messages that some came.

Two ways: a thread that waits in `wait` until a condition of its own holds, and listeners that are called
with (topic, queue id, next queue offset) by the thread whose put made the message visible.
A listener must be quick; what it raises is kept in `error` and never fails the put.
Threads: any. Costs a put nothing but one test while nobody waits or listens. An announcement takes no lock,
so an interrupt (Ctrl-C) in its midst holds up nobody else's put. (Behind an interrupted wait, one does.)
"""

import threading
import time
import weakref
from collections.abc import Callable

from mqstore.store.bell import Bell

__all__ = ["ArrivalListener", "Arrivals"]

ArrivalListener = Callable[[str, int, int], None]
_LONGEST_SLEEP_S = 0.01


class Arrivals:
    """The waiting threads and the listeners of one store."""

    def __init__(self) -> None:
        # Whether anyone wants to know; read without a lock by every put.
        self.wanted = False
        self.error: Exception | None = None
        self._closed = False
        # Held to replace one of the next two, which are read without it. Re-entrant for a handler's put.
        self._lock = threading.RLock()
        # Weak: an interrupt may keep a thread from taking its bell back.
        self._bells: tuple[weakref.ref[Bell], ...] = ()
        self._listeners: tuple[ArrivalListener, ...] = ()

    def add_listener(self, listener: ArrivalListener) -> None:
        """Call `listener` after each put from now on."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
            self.wanted = True

    def announce(self, topic: str, queue_id: int, next_offset: int) -> None:
        """Say that a queue has become longer."""
        for listener in self._listeners:
            try:
                listener(topic, queue_id, next_offset)
            except Exception as error:  # noqa: BLE001 - whatever a listener raises must not fail the put
                self.error = error
        self._ring()

    def wait(self, arrived: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait until `arrived()` holds, asked anew after each arrival; False when time is up or closed."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        bell = Bell()
        with self._lock:
            self._bells = (*self._bells, weakref.ref(bell))
            self.wanted = True
        try:
            while not arrived():
                # Not long: another process's puts, and one that was under way here, are not announced.
                remaining_s = min(deadline_s - time.monotonic(), _LONGEST_SLEEP_S)
                if remaining_s <= 0 or self._closed:
                    return False
                bell.sleep(remaining_s)
            return True
        finally:
            self._forget(bell)

    def close(self) -> None:
        """Let all waiting threads go."""
        self._closed = True
        self._ring()

    def _ring(self) -> None:
        bells = self._bells
        for known in bells:
            bell = known()
            if bell is None:
                self._forget(None)
            else:
                bell.ring()
        if not bells and not self._listeners:
            # An interrupt came before this was noted.
            self._forget(None)

    def _forget(self, bell: Bell | None) -> None:
        """Forget the bell of a thread that does not wait any more, and those of threads that are gone."""
        with self._lock:
            self._bells = tuple([known for known in self._bells if known() not in (None, bell)])
            self.wanted = bool(self._bells or self._listeners)
