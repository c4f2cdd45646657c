"""The consume request cache: pulled batches that wait until the application asks, and how far it has come.

    pull service -> submit -> a batch waits -> take -> the application
                                                         |
         offset to commit  <-  done  <-------------------'  when it asks for the next one, or says so

Three offsets are kept of each queue: `taken`, behind the last batch that was taken; that of the message to
hand out next (`position`); and `done`, the end of what was handed out before the last time. So an application
that dies while it works gets the same messages again.
A batch whose queue was taken away, or was sought through, is not handed out.

A batch that was taken stays in hand until all of it was handed out and settled. So an interrupt (Ctrl-C) at
any place of a poll loses nothing: who asks next gets what was taken, and not handed out. Several threads that
ask at once get different batches.

It pulls nothing and commits nothing (lite_pull_consumer.py). The thread that pulls touches each page of a
batch. So the thread that takes the batch, which may be a loop of asyncio, seldom waits for a disk.
Threads: any; one lock. Callbacks of `call_when_ready` come from the thread that pulls, and must be quick.
Source: docs/spec/client_produce.md section 9; consumeRequestCache of DefaultLitePullConsumerImpl,
AssignedMessageQueue.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Container
from contextlib import suppress

from mqstore.broker.broker import MessageQueue, PullAnswer
from mqstore.client.consumer.lite_pull.consume_request import ConsumeRequest
from mqstore.client.consumer.pulls.process_queue import NOTHING_CACHED, PulledBatch
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.store.errors import StoreClosed
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.lock import RLock

__all__ = ["ConsumeRequestCache"]

_PAUSE_ABOVE_THRESHOLD_MS = 50
_PAUSE_WHEN_PAUSED_MS = 1_000
_PAGE_BYTES = 4096
# Heals a wake-up that an interrupt (Ctrl-C) has prevented.
_LONGEST_SLEEP_S = 5.0


class _Progress:
    """Of one queue: two offsets of it; done is not beyond taken."""

    __slots__ = ("done", "taken")

    def __init__(self, offset: int) -> None:
        self.taken = offset
        self.done = offset


class ConsumeRequestCache:
    """What was pulled for one consumer. It is a `Consuming`: the pull service hands on to it.

    paused: queues that the application does not want messages of now; replaced, never changed.
    """

    def __init__(self, broker_count: int, batch_size: int, threshold_for_all: int, max_span: int) -> None:
        """broker_count: once so many are closed nothing more will come.

        batch_size: messages of a pull at most. threshold_for_all: messages above which nothing is pulled.
        max_span: of the offsets of a queue's messages in memory.
        """
        self.paused: frozenset[MessageQueue] = frozenset()
        self._broker_count = broker_count
        self._most_requests = threshold_for_all // batch_size
        self._max_span = max_span
        # Re-entrant for a signal handler that asks. No Condition: one that is interrupted may keep its lock.
        self._lock = RLock()
        # All of these under the lock.
        self._requests: deque[ConsumeRequest] = deque()
        self._progress: dict[PulledQueue, _Progress] = {}
        # Taken, and not settled as a whole; in the order in which they were taken. Replaced, never changed.
        self._in_hand: tuple[ConsumeRequest, ...] = ()
        self._waiting: list[Callable[[], None]] = []
        self._closed: dict[str, StoreClosed] = {}
        self._is_stopped = False

    # -- for the pull service ---------------------------------------------------------------------

    def pause_ms(self, pulled: PulledQueue) -> int:
        """1000 while the queue is paused; 50 if too much is in memory, or too far apart."""
        if pulled.queue in self.paused:
            return _PAUSE_WHEN_PAUSED_MS
        is_too_much = len(self._requests) > self._most_requests
        if is_too_much or pulled.process_queue.is_wider_than(self._max_span):
            return _PAUSE_ABOVE_THRESHOLD_MS
        return 0

    def submit(self, pulled: PulledQueue, batch: PulledBatch, answer: PullAnswer) -> None:
        """Keep a batch until it is asked for."""
        # A page that cannot be read raises again where the application reads the message.
        with suppress(Exception):
            for message in batch.messages:
                _read_in(message)
        request = ConsumeRequest(pulled, batch, answer)
        with self._lock:
            self._requests.append(request)

    def wake(self) -> None:
        """Tell those who wait."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    @property
    def is_behind(self) -> bool:
        """Never: nothing here works by itself."""
        return False

    def look_again(self) -> None:
        """Nothing: nothing here works by itself."""

    def skip(self, pulled: PulledQueue, offset: int) -> None:
        """Nothing before `offset` is there any more, and nothing of the queue waits."""
        with self._lock:
            progress = self._progress.get(pulled)
            if progress is None:
                self._progress[pulled] = _Progress(offset)
            elif offset > progress.taken:
                progress.taken = offset
                if not self._is_in_hand(pulled):
                    progress.done = offset

    def _is_in_hand(self, pulled: PulledQueue) -> bool:
        return any(request.pulled is pulled for request in self._in_hand)

    def end(self, broker_name: str, error: StoreClosed) -> None:
        """A broker is closed. When all are closed, `take` raises, once no batch is left."""
        with self._lock:
            self._closed[broker_name] = error
        self.wake()

    # -- for the application ----------------------------------------------------------------------

    def take(self) -> ConsumeRequest | None:
        """The next batch, of which some was not handed out yet, or None; what was handed out before is done.

        The caller hands out: it sets `handed`, and then `taker` to None, and calls nothing behind that; or
        it calls `let_go`. Raises the StoreClosed of a broker if all are closed and nothing is left.
        """
        with self._lock:
            return self._take(threading.get_ident())

    def wait(self, timeout_s: float) -> ConsumeRequest | None:
        """As `take`, but wait for a batch; None if none came in time, or `stop` was called."""
        end_s = time.monotonic() + timeout_s
        event = AutoResetEvent()
        while (request := self.take()) is None and not self._is_stopped:
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                break
            cancel = self.call_when_ready(event.set)
            try:
                event.wait(min(left_s, _LONGEST_SLEEP_S))
            finally:
                cancel()
        return request

    def _take(self, taker: int) -> ConsumeRequest | None:
        self._settle()
        for request in self._in_hand:
            # The thread itself may have been interrupted in between.
            if not request.is_handed_out and request.taker in (None, taker):
                return self._begin(request, taker)
        while self._requests:
            request = self._requests[0]
            if request.pulled.process_queue.dropped:
                self._requests.popleft()
                continue
            if request.pulled not in self._progress:
                self._progress[request.pulled] = _Progress(request.batch.first_offset)
            # An interrupt comes behind calls only: never between these two.
            self._in_hand = (*self._in_hand, request)
            self._requests.popleft()
            return self._begin(request, taker)
        if len(self._closed) == self._broker_count and not self._is_stopped:
            raise next(iter(self._closed.values()))
        return None

    def _begin(self, request: ConsumeRequest, taker: int) -> ConsumeRequest:
        request.taker = taker
        if request.is_cached:
            batch = request.batch
            offset = request.pulled.process_queue.remove(batch, batch.left)
            # Nothing is cached where an interrupt came behind that the last time.
            self._progress[request.pulled].taken = request.end_offset if offset == NOTHING_CACHED else offset
            request.is_cached = False
        return request

    def let_go(self) -> None:
        """Leave what the calling thread took, and did not hand out, to any thread."""
        taker = threading.get_ident()
        for request in self._in_hand:
            if request.taker == taker:
                request.taker = None
                self.wake()

    def call_when_ready(self, call: Callable[[], None]) -> Callable[[], None]:
        """Have `call` made once: when something is here, or nothing more will be. Returns its cancel."""
        with self._lock:
            has_come = bool(self._requests) or self._is_stopped or len(self._closed) == self._broker_count
            if not has_come:
                self._waiting.append(call)
        if has_come:
            call()

        def cancel() -> None:
            with self._lock:
                if call in self._waiting:
                    self._waiting.remove(call)

        return cancel

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopped

    def stop(self) -> None:
        """Let nobody wait any more. What was handed out keeps its `done`."""
        self._is_stopped = True
        self.wake()

    # -- how far it has come ----------------------------------------------------------------------

    def settle(self, queues: Container[MessageQueue] | None = None) -> None:
        """All that was handed out is done, or all of these queues."""
        with self._lock:
            self._settle(queues)

    def _settle(self, queues: Container[MessageQueue] | None = None) -> None:
        for request in self._in_hand:
            pulled = request.pulled
            if pulled.process_queue.dropped:
                self._drop(request)
            elif queues is None or pulled.queue in queues:
                self._progress[pulled].done = self._position(pulled)
                if request.is_handed_out:
                    self._drop(request)

    def _drop(self, request: ConsumeRequest) -> None:
        self._in_hand = tuple([kept for kept in self._in_hand if kept is not request])

    def _position(self, pulled: PulledQueue) -> int:
        """The offset of the message to hand out next."""
        for request in self._in_hand:
            if request.pulled is pulled and not request.is_handed_out:
                return request.messages[request.handed].queue_offset
        return self._progress[pulled].taken

    def begin(self, pulled: PulledQueue, offset: int) -> None:
        """The application wants this queue from `offset` on."""
        with self._lock:
            # Its pulls may have begun already, and be farther than that.
            self._progress.setdefault(pulled, _Progress(offset))

    def done(self) -> dict[MessageQueue, int]:
        """The offset to commit, of each queue that is still this consumer's."""
        with self._lock:
            self._forget_dropped()
            return {pulled.queue: progress.done for pulled, progress in self._progress.items()}

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the message to hand out next, if that is known."""
        with self._lock:
            self._forget_dropped()
            return self._position_of(queue)

    def _position_of(self, queue: MessageQueue) -> int | None:
        for pulled in self._progress:
            if pulled.queue == queue:
                return self._position(pulled)
        return None

    def _forget_dropped(self) -> None:
        for pulled in [pulled for pulled in self._progress if pulled.process_queue.dropped]:
            for request in self._in_hand:
                if request.pulled is pulled:
                    self._drop(request)
            del self._progress[pulled]

    def __repr__(self) -> str:
        return f"ConsumeRequestCache({len(self._requests)} batches)"


def _read_in(message: StoredMessage) -> None:
    """Touch each page of a record."""
    data = message.data
    for position in range(message.start, message.stop, _PAGE_BYTES):
        data[position]
    data[message.stop - 1]
