"""The pulls that wait: each until a message that it wants has arrived, or until its time is up.

    hold -> taken in by the thread -> looked at again, for a message may have come meanwhile
         -> an arrival with a tag that it may want, or its time: looked at -> its callback

A message with other tags leaves a pull waiting: hashes of tags are compared in the thread that puts, so the
broker's thread need not wake (PullRequestHoldService does the same). Nothing is polled: a thousand pulls that
wait cost a time-out each.

It does not decide which pulls wait, nor read queues: `pull` is handed in (embedded_broker.py).
Threads: `hold` and what it returns from any thread; `run_once` and `end` from one (wake_up_thread.py). The
table of queues has that one writer and is read without a lock, by threads that put. So no put waits for a
pull, and an interrupt (Ctrl-C) in a put or in `hold` leaves no lock taken. A put that is interrupted just
there may leave a pull to its time-out.
Source: PullRequestHoldService, NotifyMessageArrivingListener of Apache RocketMQ.
"""

import heapq
import itertools
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import Protocol, TypeAlias

from mqstore.broker.broker import PullAnswer, PullRequest
from mqstore.index.pull.tag_filter import parse_subscription
from mqstore.put.arrivals import Arrival, ArrivalListener
from mqstore.store.errors import StoreError
from mqstore.store.threads.auto_reset_event import AutoResetEvent

__all__ = ["Announcements", "HeldPulls", "PullCallback"]

_logger = logging.getLogger(__name__)

PullCallback: TypeAlias = Callable[[PullAnswer | Exception], None]
# The heap is built again when it holds more ended pulls than waiting ones, and more than this.
_MANY_ENDED = 64


class Announcements(Protocol):
    """What is asked of a store: to be told of messages that arrive."""

    def add_arrival_listener(
        self,
        listener: ArrivalListener,
        *,
        queues: Container[tuple[str, int]] | None = None,
        on_close: Callable[[], object] | None = None,
    ) -> None: ...
    def remove_arrival_listener(self, listener: ArrivalListener) -> None: ...
    def when_visible(self, action: Callable[[], None]) -> None: ...


class _HeldPull:
    """One pull that waits. It is answered or cancelled, by whichever thread takes its callback first."""

    __slots__ = ("_callbacks", "deadline_s", "queue", "request", "tag_filter")

    def __init__(self, request: PullRequest, callback: PullCallback, deadline_s: float) -> None:
        self.request = request
        self.queue = request.topic, request.queue_id
        self.tag_filter = parse_subscription(request.subscription)
        self.deadline_s = deadline_s
        # One callback, or none any more. To pop from a list is one step, and needs no lock.
        self._callbacks = [callback]

    @property
    def has_ended(self) -> bool:
        """Whether it was answered or cancelled."""
        return not self._callbacks

    def take_callback(self) -> PullCallback | None:
        """The callback, once; None for those who come later."""
        try:
            return self._callbacks.pop()
        except IndexError:
            return None

    def may_want(self, arrival: Arrival) -> bool:
        """Whether the tags of a message have the hash of one that is wanted."""
        return self.tag_filter is None or self.tag_filter.may_match(arrival.tags_code)


class HeldPulls:
    """The pulls that wait at one broker.

    event: set when there is something to do. is_done: whether the store was closed.
    """

    def __init__(
        self,
        store: Announcements,
        pull: Callable[[PullRequest], PullAnswer],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`pull` answers a request with what is there now. now_s: in seconds, it only goes forward."""
        self.event = AutoResetEvent()
        self.is_done = False
        self._store = store
        self._pull = pull
        self._now_s = now_s
        # Appended to by any thread, taken in by the thread that works.
        self._new: deque[_HeldPull] = deque()
        # To be looked at. Any thread adds; the thread that works removes. A dict, for it has each once.
        self._due: dict[_HeldPull, None] = {}
        # The rest is written by the thread that works alone. The tuples are replaced, never changed.
        self._by_queue: dict[tuple[str, int], tuple[_HeldPull, ...]] = {}
        self._deadlines: list[tuple[float, int, _HeldPull]] = []
        self._numbers = itertools.count()
        self._ended_count = 0
        self._is_listening = False
        # Read by `hold`: nobody works any more.
        self._is_over = False

    def hold(self, request: PullRequest, callback: PullCallback) -> Callable[[], None]:
        """Have `callback` called once there is something to pull, or after `suspend_ms`.

        Returns what cancels that. A callback that has begun by then goes on.
        """
        held = _HeldPull(request, callback, self._now_s() + request.suspend_ms / 1000)
        self._new.append(held)
        if self._is_over:
            self._answer_new()
        self.event.set()

        def cancel() -> None:
            if held.take_callback() is not None:
                self._look_soon(held)

        return cancel

    def __len__(self) -> int:
        """How many wait; those that `hold` has just added included."""
        waiting = [held for _, _, held in self._deadlines.copy()]
        return sum(not held.has_ended for held in (*waiting, *self._new.copy()))

    # -- in the threads that put ------------------------------------------------------------------

    def _on_arrival(self, arrival: Arrival) -> None:
        for held in self._by_queue.get((arrival.topic, arrival.queue_id), ()):
            if held.may_want(arrival):
                self._look_soon(held)

    def _look_soon(self, held: _HeldPull) -> None:
        # Both each time: an interrupt may have come between the two.
        self._due[held] = None
        self.event.set()

    def _on_close(self) -> None:
        self.is_done = True
        self.event.set()

    # -- in the thread that works -----------------------------------------------------------------

    @property
    def due_s(self) -> float:
        """When the time of the next pull is up; infinity without one."""
        return self._deadlines[0][0] if self._deadlines else math.inf

    def run_once(self) -> None:
        """Take in new pulls, look at those that are due, and answer those whose time is up."""
        self._take_in()
        touched = set()
        for held in list(self._due):
            del self._due[held]
            touched.add(held.queue)
            if not held.has_ended:
                self._look(held, is_last=False)
            self._ended_count += held.has_ended
        now_s = self._now_s()
        while self._deadlines and (self._deadlines[0][0] <= now_s or self._deadlines[0][2].has_ended):
            held = heapq.heappop(self._deadlines)[2]
            touched.add(held.queue)
            self._look(held, is_last=True)
        self._forget_ended(touched)

    def end(self) -> None:
        """Answer all that wait, with what there is now: the error of a closed store or broker."""
        # First: from now on `hold` answers by itself.
        self._is_over = True
        if self._is_listening:
            self._store.remove_arrival_listener(self._on_arrival)
        for _, _, held in self._deadlines:
            self._look(held, is_last=True)
        self._deadlines.clear()
        self._by_queue.clear()
        self._answer_new()

    def _answer_new(self) -> None:
        while self._new:
            with suppress(IndexError):
                self._look(self._new.popleft(), is_last=True)

    def _take_in(self) -> None:
        new = []
        while self._new:
            new.append(self._new.popleft())
        if not new:
            return
        by_queue: dict[tuple[str, int], list[_HeldPull]] = {}
        for held in new:
            by_queue.setdefault(held.queue, []).append(held)
            heapq.heappush(self._deadlines, (held.deadline_s, next(self._numbers), held))
        for queue, pulls in by_queue.items():
            self._by_queue[queue] = (*self._by_queue.get(queue, ()), *pulls)
        if not self._is_listening:
            self._is_listening = True
            self._store.add_arrival_listener(self._on_arrival, queues=self._by_queue, on_close=self._on_close)

        # Arrivals are noticed from here on. What came before is found by looking again: now, and, where a put
        # does not wait for the disk, once its message can be read.
        def look_again() -> None:
            for held in new:
                self._look_soon(held)

        self._due.update(dict.fromkeys(new))
        # An error shows when they are looked at, unless it is another's: theirs is then found in time.
        with suppress(StoreError):
            self._store.when_visible(look_again)

    def _look(self, held: _HeldPull, *, is_last: bool) -> None:
        """Pull for it, and answer it if something is there, or if it is the last time."""
        if held.has_ended:
            return
        answer: PullAnswer | Exception
        try:
            answer = self._pull(held.request)
        except Exception as error:  # noqa: BLE001 - the callback gets it
            answer = error
        if is_last or isinstance(answer, Exception) or _has_something(answer):
            callback = held.take_callback()
            if callback is not None:
                _call(callback, answer, held.request)

    def _forget_ended(self, queues: Iterable[tuple[str, int]]) -> None:
        for queue in queues:
            waiting = tuple([held for held in self._by_queue.get(queue, ()) if not held.has_ended])
            if waiting:
                self._by_queue[queue] = waiting
            else:
                self._by_queue.pop(queue, None)
        if self._ended_count > max(_MANY_ENDED, len(self._deadlines) // 2):
            self._deadlines = [entry for entry in self._deadlines if not entry[2].has_ended]
            heapq.heapify(self._deadlines)
            self._ended_count = 0

    def __repr__(self) -> str:
        return f"HeldPulls({len(self)} waiting)"


def _has_something(answer: PullAnswer) -> bool:
    """Whether a pull that waits gets this answer before its time is up.

    Not if only messages with other tags have come: there may be more of them.
    """
    return bool(answer.messages) or answer.is_illegal or answer.next_begin_offset < answer.max_offset


def _call(callback: PullCallback, answer: PullAnswer | Exception, request: PullRequest) -> None:
    try:
        callback(answer)
    except (Exception, SystemExit):
        # SystemExit as well: it would end the thread of all other pulls.
        _logger.exception("the callback of %s failed", request)
