"""The consume request cache: pulled batches that wait until the application asks, and how far it has come.

    pull service -> submit -> a batch waits -> take -> the application
                                                         |
         offset to commit  <-  done  <-------------------'  when it asks for the next one, or says so

Three offsets are kept for each queue: `taken`, behind the last batch that was taken; `handed`, of the message
to hand out next, which an iterator moves message by message; and `done`, the end of what was handed out
before the last time. So an application that dies while it works gets the same messages again.
A batch whose queue was taken away, or was sought through, is not handed out.

It pulls nothing and commits nothing (lite_pull_consumer.py). The thread that pulls touches each page of a
batch. So the thread that takes the batch, which may be a loop of asyncio, seldom waits for a disk.
Threads: any; one lock. Callbacks of `call_when_ready` come from the thread that pulls, and must be quick.
Source: docs/spec/client_produce.md section 9; consumeRequestCache of DefaultLitePullConsumerImpl,
AssignedMessageQueue.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from typing import NamedTuple

from mqstore.broker.broker import MessageQueue, PullAnswer
from mqstore.client.consumer.pulls.process_queue import PulledBatch
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.store.errors import StoreClosed
from mqstore.store.message.stored_message import StoredMessage

__all__ = ["ConsumeRequestCache", "Polled"]

_PAUSE_ABOVE_THRESHOLD_MS = 50
_PAUSE_WHEN_PAUSED_MS = 1_000
_PAGE_BYTES = 4096
# Heals a wake-up that an interrupt (Ctrl-C) has prevented.
_LONGEST_SLEEP_S = 5.0


class Polled(NamedTuple):
    """A batch that is handed out."""

    pulled: PulledQueue
    messages: Sequence[StoredMessage]


class _Progress:
    """Of one queue: offsets of it, each not beyond the one before: taken, handed, done."""

    __slots__ = ("done", "handed", "taken")

    def __init__(self, offset: int) -> None:
        self.taken = offset
        self.handed = offset
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
        self._condition = threading.Condition()
        # All of these under the lock of the condition.
        self._requests: deque[tuple[PulledQueue, PulledBatch]] = deque()
        self._progress: dict[PulledQueue, _Progress] = {}
        # Queues with messages that were handed out and may still be worked on.
        self._at_work: set[PulledQueue] = set()
        # Taken to be handed out one by one, and not begun: an interrupt may have come in between.
        self._taken: Polled | None = None
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
        with self._condition:
            self._requests.append((pulled, batch))

    def wake(self) -> None:
        """Tell those who wait."""
        with self._condition:
            self._condition.notify_all()
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
        with self._condition:
            progress = self._progress.get(pulled)
            if progress is None:
                self._progress[pulled] = _Progress(offset)
            elif offset > progress.taken:
                if progress.handed == progress.taken:
                    progress.handed = offset
                progress.taken = offset
                if pulled not in self._at_work:
                    progress.done = progress.handed

    def end(self, broker_name: str, error: StoreClosed) -> None:
        """A broker is closed. When all are closed, `take` raises, once no batch is left."""
        with self._condition:
            self._closed[broker_name] = error
        self.wake()

    # -- for the application ----------------------------------------------------------------------

    def take(self, *, one_by_one: bool = False) -> Polled | None:
        """The next batch, or None if none is here; what was handed out before is done.

        one_by_one: nothing of it is handed out before `hand_out` says so. Raises the StoreClosed of a broker
        if all are closed and nothing is left.
        """
        with self._condition:
            return self._take(one_by_one=one_by_one)

    def wait(self, timeout_s: float, *, one_by_one: bool = False) -> Polled | None:
        """As `take`, but wait for a batch; None if none came in time, or `stop` was called."""
        end_s = time.monotonic() + timeout_s
        with self._condition:
            while (polled := self._take(one_by_one=one_by_one)) is None and not self._is_stopped:
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    break
                self._condition.wait(min(left_s, _LONGEST_SLEEP_S))
            return polled

    def _take(self, *, one_by_one: bool) -> Polled | None:
        self._settle()
        taken, self._taken = self._taken, None
        if taken is not None and not taken.pulled.process_queue.dropped:
            return self._hand_over(taken, one_by_one=one_by_one)
        while self._requests:
            pulled, batch = self._requests.popleft()
            if pulled.process_queue.dropped:
                continue
            messages = batch.messages
            progress = self._progress.get(pulled)
            if progress is None:
                self._progress[pulled] = progress = _Progress(batch.first_offset)
            self._at_work.add(pulled)
            progress.taken = pulled.process_queue.remove(batch, batch.left)
            return self._hand_over(Polled(pulled, messages), one_by_one=one_by_one)
        if len(self._closed) == self._broker_count and not self._is_stopped:
            raise next(iter(self._closed.values()))
        return None

    def _hand_over(self, polled: Polled, *, one_by_one: bool) -> Polled:
        progress = self._progress[polled.pulled]
        if one_by_one:
            self._taken = polled
            progress.handed = polled.messages[0].queue_offset
        else:
            progress.handed = progress.taken
        return polled

    def call_when_ready(self, call: Callable[[], None]) -> Callable[[], None]:
        """Have `call` made once: when something is here, or nothing more will be. Returns its cancel."""
        with self._condition:
            has_come = bool(self._requests) or self._is_stopped or len(self._closed) == self._broker_count
            if not has_come:
                self._waiting.append(call)
        if has_come:
            call()

        def cancel() -> None:
            with self._condition:
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
        with self._condition:
            self._settle(queues)

    def _settle(self, queues: Container[MessageQueue] | None = None) -> None:
        for pulled in list(self._at_work):
            if queues is not None and pulled.queue not in queues:
                continue
            progress = self._progress.get(pulled)
            if progress is not None:
                progress.done = progress.handed
            if progress is None or progress.handed == progress.taken:
                self._at_work.discard(pulled)

    def hand_out(self, pulled: PulledQueue, offset: int, following: int | None) -> None:
        """Of a batch that is handed out one by one, those before `offset` are done, and it is handed out.

        following: the offset of the message behind it, which is handed out next; None: there is none.
        """
        with self._condition:
            self._taken = None
            progress = self._progress.get(pulled)
            if progress is not None:
                progress.done = max(progress.done, min(offset, progress.taken))
                progress.handed = progress.taken if following is None else min(following, progress.taken)

    def begin(self, pulled: PulledQueue, offset: int) -> None:
        """The application wants this queue from `offset` on."""
        with self._condition:
            # Its pulls may have begun already, and be farther than that.
            self._progress.setdefault(pulled, _Progress(offset))

    def done(self) -> dict[MessageQueue, int]:
        """The offset to commit, of each queue that is still this consumer's."""
        with self._condition:
            self._forget_dropped()
            return {pulled.queue: progress.done for pulled, progress in self._progress.items()}

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the message to hand out next, if that is known."""
        with self._condition:
            self._forget_dropped()
            for pulled, progress in self._progress.items():
                if pulled.queue == queue:
                    return progress.handed
        return None

    def _forget_dropped(self) -> None:
        for pulled in [pulled for pulled in self._progress if pulled.process_queue.dropped]:
            del self._progress[pulled]
            self._at_work.discard(pulled)

    def __repr__(self) -> str:
        return f"ConsumeRequestCache({len(self._requests)} batches)"


def _read_in(message: StoredMessage) -> None:
    """Touch each page of a record."""
    data = message.data
    for position in range(message.start, message.stop, _PAGE_BYTES):
        data[position]
    data[message.stop - 1]
