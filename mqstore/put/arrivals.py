"""Arrivals: wakes threads that wait for messages, and calls listeners.

Two ways: a thread that waits in `wait` until a condition of its own holds, and listeners that are called
with an `Arrival` for each message that has a place in a queue, once it can be got: by the thread whose put
made it visible, or, when that put did not wait for the disk, by the one that synced. A listener may name
the queues that it wants to hear of: puts to others then cost next to nothing.
A listener must be quick; what it raises is kept in `error` and never fails the put.
Threads: any. While no thread waits and no listener is there, a put only tests a flag. An announcement takes
no lock, so an interrupt (Ctrl-C) in it blocks no other put. (The announcement after an interrupted wait
takes one.)
Source: MessageArrivingListener, NotifyMessageArrivingListener.
"""

import time
import weakref
from collections.abc import Callable, Container, Iterable
from typing import NamedTuple, Protocol

import msgspec

from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.java_hash import string_hash
from mqstore.store.record.sys_flag import takes_queue_offset
from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.lock import RLock

__all__ = ["Arrival", "ArrivalListener", "Arrivals"]


class Arrival(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A message that has arrived in a queue and can be got.

    Where it is, and what a broker needs to decide which consumer to wake; fields are read on access.
    The message is a view of the mapped log: copy what is to be kept long.
    """

    message: StoredMessage

    @property
    def topic(self) -> str:
        """The topic of the queue."""
        return self.message.topic

    @property
    def queue_id(self) -> int:
        """The queue of the topic."""
        return self.message.queue_id

    @property
    def next_offset(self) -> int:
        """The queue offset after the message: the queue is at least that long."""
        return self.message.queue_offset + 1

    @property
    def tags_code(self) -> int:
        """The hash of its tags, by which queues are filtered; 0 without tags."""
        return string_hash(self.message.tags or "")

    @property
    def store_timestamp(self) -> int:
        """When it was appended, epoch ms."""
        return self.message.store_timestamp

    @property
    def properties(self) -> dict[str, str]:
        """Its properties."""
        return self.message.properties

    def __repr__(self) -> str:
        return f"Arrival({self.message!r})"


ArrivalListener = Callable[[Arrival], object]


class _Listening(NamedTuple):
    """A listener, the queues that it hears of (None: all), and what to call when there will be no more."""

    listener: ArrivalListener
    queues: Container[tuple[str, int]] | None
    on_close: Callable[[], object] | None


class _Log(Protocol):
    def look_message_by_offset(self, physical_offset: int) -> StoredMessage | None: ...


class _Flusher(Protocol):
    def when_visible(self, end_offset: int, action: Callable[[], None]) -> None: ...


_LONGEST_SLEEP_S = 0.01


class Arrivals:
    """The waiting threads and the listeners of one store."""

    def __init__(self, log: _Log, flusher: _Flusher) -> None:
        """log: holds the announced messages. flusher: says when they can be got."""
        self._log = log
        self._flusher = flusher
        # Whether a thread waits or a listener is there; every put reads it without a lock.
        self.wanted = False
        self.error: Exception | None = None
        self._closed = False
        # Held to replace one of the next two, which are read without it. Re-entrant for a handler's put.
        self._lock = RLock()
        # Weak: an interrupt may keep a thread from removing its event.
        self._events: tuple[weakref.ref[AutoResetEvent], ...] = ()
        self._listening: tuple[_Listening, ...] = ()

    def add_listener(
        self,
        listener: ArrivalListener,
        *,
        queues: Container[tuple[str, int]] | None = None,
        on_close: Callable[[], object] | None = None,
    ) -> None:
        """Call `listener` for each message from now on, and `on_close` once there will be no more.

        queues: the (topic, queue id)s of which it hears, asked at each put; None for all.
        """
        with self._lock:
            self._listening = (*self._listening, _Listening(listener, queues, on_close))
            self.wanted = True
        if self._closed and on_close is not None:
            on_close()

    def remove_listener(self, listener: ArrivalListener) -> None:
        """Call `listener` no more; a call that has begun in another thread goes on."""
        with self._lock:
            self._listening = self._without(listener)
            self.wanted = bool(self._events or self._listening)

    def wants(self, topic: str, queue_id: int) -> bool:
        """Whether a message in this queue is to be announced; asked once it is in the log."""
        if self._events or not self._listening:
            # Without either, an interrupt has prevented the update of `wanted`: the announcement does it.
            return True
        queue = (topic, queue_id)
        for _, queues, _ in self._listening:
            if queues is None or queue in queues:
                return True
        return False

    def announce(self, physical_offsets: Iterable[int], end_offset: int) -> None:
        """Announce messages at these offsets once the log can be read up to `end_offset`."""
        self._flusher.when_visible(end_offset, lambda: self._announce_now(physical_offsets))

    def _announce_now(self, physical_offsets: Iterable[int]) -> None:
        listening = self._listening
        for physical_offset in physical_offsets if listening else ():
            message = self._log.look_message_by_offset(physical_offset)
            # Half messages and rollbacks have no place in a queue.
            if message is not None and takes_queue_offset(message.sys_flag):
                arrival = Arrival(message)
                queue = (message.topic, message.queue_id)
                for listener, queues, _ in listening:
                    if queues is None or queue in queues:
                        self._call(listener, arrival)
        self._ring()

    def _call(self, listener: ArrivalListener, arrival: Arrival) -> None:
        try:
            listener(arrival)
        except Exception as error:  # noqa: BLE001 - whatever a listener raises must not fail the put
            self.error = error

    def wait(self, arrived: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait until `arrived()` holds, asked again after each arrival; False when time is up or closed."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        event = AutoResetEvent()
        with self._lock:
            self._events = (*self._events, weakref.ref(event))
            self.wanted = True
        try:
            while not arrived():
                # Briefly: puts of another process, and one that was under way here, are not announced.
                remaining_s = min(deadline_s - time.monotonic(), _LONGEST_SLEEP_S)
                if remaining_s <= 0 or self._closed:
                    return False
                event.wait(remaining_s)
            return True
        finally:
            self._forget(event)

    def close(self) -> None:
        """End all waits, and tell the listeners that there will be no more. Safe to call twice."""
        self._closed = True
        self._ring()
        for known in self._listening:
            if known.on_close is not None:
                known.on_close()

    def _ring(self) -> None:
        events = self._events
        for known in events:
            event = known()
            if event is None:
                self._forget(None)
            else:
                event.set()
        if not events and not self._listening:
            # An interrupt had prevented the update of `wanted`.
            self._forget(None)

    def _forget(self, event: AutoResetEvent | None) -> None:
        """Remove the event of a thread that no longer waits, and those of threads that are gone."""
        with self._lock:
            self._events = self._waiting_beside(event)
            self.wanted = bool(self._events or self._listening)

    # A loop of their own: see store/threads/lock.py.
    def _without(self, listener: ArrivalListener) -> tuple[_Listening, ...]:
        return tuple([known for known in self._listening if known.listener != listener])

    def _waiting_beside(self, event: AutoResetEvent | None) -> tuple[weakref.ref[AutoResetEvent], ...]:
        return tuple([known for known in self._events if known() not in (None, event)])
