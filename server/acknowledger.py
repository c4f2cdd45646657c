"""The acknowledger: one thread that waits for the disk in SYNC_FLUSH, for all messages that were put so far.

The loop puts a message without waiting, and hands its future over. The thread takes all futures that are
there and waits for the last one: the log is durable in its order, and a thread that waits leads the sync for
all (store/log/sync_waiters.py). So hundreds of messages cost one sync, one wake-up of the loop, and no
callback each. A message that the disk does not have `sync_flush_timeout` after its put is stored and answered
FLUSH_DISK_TIMEOUT, as by a broker of RocketMQ.

Threads: `add` from the loop's; its own thread is a daemon. An answer is sent in the loop's.
Durability: an answer is sent once the message is durable, or with the error of the sync that failed.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeAlias

import msgspec

from mqstore.store.log.durable_future import DurableFuture
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.status import PutMessageStatus
from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.start_thread import start_thread

__all__ = ["Acknowledger", "WhenDurable"]

_logger = logging.getLogger(__name__)
_FOR_EVER_S = -1.0

WhenDurable: TypeAlias = Callable[[PutMessageResult | Exception], None]
"""Sends the answer to a put: from its result, or from the error of the sync."""
_Waiting: TypeAlias = tuple["Future[PutMessageResult]", WhenDurable, float]


class Acknowledger:
    """Waits for the disk for one server. waiting_count: puts that are not answered yet; the loop's own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.waiting_count = 0
        self._loop = loop
        # Appended to by the loop, taken by the thread.
        self._waiting: deque[_Waiting] = deque()
        self._event = AutoResetEvent()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="mqstore acknowledger", daemon=True)

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if none can be started."""
        if not start_thread(self._thread):
            raise RuntimeError(f"the thread {self._thread.name!r} cannot be started: end other threads")

    def add(self, future: "Future[PutMessageResult]", when_durable: WhenDurable) -> None:
        """Call `when_durable` in the loop's thread once the message is durable, or cannot become so."""
        self.waiting_count += 1
        self._waiting.append((future, when_durable, time.monotonic()))
        self._event.set()

    def stop(self) -> None:
        """End the thread once it has done what there is."""
        self._is_stopping = True
        self._event.set()

    def _run(self) -> None:
        while not (self._is_stopping and not self._waiting):
            self._event.wait(_FOR_EVER_S)
            while batch := self._take():
                self._wait_for(batch)

    def _take(self) -> list[_Waiting]:
        batch = []
        while self._waiting:
            batch.append(self._waiting.popleft())
        return batch

    def _wait_for(self, batch: list[_Waiting]) -> None:
        outcomes: list[tuple[PutMessageResult | Exception, WhenDurable]] = []
        # The last first: the others are done by then. If it waits in vain, the times of the others are up.
        for future, when_durable, since_s in reversed(batch):
            outcomes.append((_outcome_of(future, since_s), when_durable))
        outcomes.reverse()
        try:
            self._loop.call_soon_threadsafe(self._answer, outcomes)
        except RuntimeError:
            # The loop is closed: their clients are gone, and count them as not sent.
            _logger.warning("%d messages were durable after the server had stopped", len(outcomes))

    def _answer(self, outcomes: list[tuple[PutMessageResult | Exception, WhenDurable]]) -> None:
        self.waiting_count -= len(outcomes)
        for outcome, when_durable in outcomes:
            when_durable(outcome)

    def __repr__(self) -> str:
        return f"Acknowledger({self.waiting_count} waiting)"


def _outcome_of(future: "Future[PutMessageResult]", since_s: float) -> PutMessageResult | Exception:
    """The result of a put that began at `since_s`, as a put that waits would have it."""
    try:
        if isinstance(future, DurableFuture) and not future.wait_as_put(since_s):
            stored: PutMessageResult = future.outcome
            return msgspec.structs.replace(stored, status=PutMessageStatus.FLUSH_DISK_TIMEOUT)
        return future.result()
    except Exception as error:  # noqa: BLE001 - whatever it is, its client gets an answer
        return error
