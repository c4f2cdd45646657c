"""Arrivals: tells those who wait for messages that some came.

Two ways: a thread that waits in `wait` until a condition of its own holds, and listeners that are called
with (topic, queue id, next queue offset) by the thread whose put made the message visible.
A listener must be quick; what it raises is kept in `error` and never fails the put.
Threads: any. Costs a put nothing but one test while nobody waits or listens.
"""

import threading
import time
from collections.abc import Callable

__all__ = ["ArrivalListener", "Arrivals"]

ArrivalListener = Callable[[str, int, int], None]


class Arrivals:
    """The waiting threads and the listeners of one store."""

    def __init__(self) -> None:
        # Whether anyone wants to know; read without a lock by every put.
        self.wanted = False
        self.error: Exception | None = None
        self._condition = threading.Condition()
        self._waiting = 0
        self._closed = False
        self._listeners: tuple[ArrivalListener, ...] = ()

    def add_listener(self, listener: ArrivalListener) -> None:
        """Call `listener` after each put from now on."""
        with self._condition:
            self._listeners = (*self._listeners, listener)
            self.wanted = True

    def announce(self, topic: str, queue_id: int, next_offset: int) -> None:
        """Say that a queue has become longer."""
        for listener in self._listeners:
            try:
                listener(topic, queue_id, next_offset)
            except Exception as error:  # noqa: BLE001 - whatever a listener raises must not fail the put
                self.error = error
        with self._condition:
            self._condition.notify_all()

    def wait(self, arrived: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait until `arrived()` holds, asked anew after each arrival; False when time is up or closed."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        with self._condition:
            self._waiting += 1
            self.wanted = True
        try:
            while not arrived():
                with self._condition:
                    # Up to 10 ms, so that an arrival between the question and the wait is not missed long.
                    remaining_s = min(deadline_s - time.monotonic(), 0.01)
                    if remaining_s <= 0 or self._closed:
                        return False
                    self._condition.wait(remaining_s)
            return True
        finally:
            with self._condition:
                self._waiting -= 1
                self.wanted = bool(self._waiting or self._listeners)

    def close(self) -> None:
        """Let all waiting threads go."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
