"""The acknowledger: in SYNC_FLUSH it answers each message once the disk has it.

The loop puts a message without waiting, and hands its future over. The store's group-commit service syncs
for all that was put so far, and brings the loop back, which answers every message that is durable by then. So
hundreds of messages cost one sync and one wake-up of the loop, and no thread stands between the two.

A message that the disk does not have `sync_flush_timeout` after its put is stored and answered
FLUSH_DISK_TIMEOUT, as by a broker of RocketMQ. The loop sees to that, for the service may hang with the disk.

The store's services must run. Threads: the loop's, but for the call that wakes it.
Durability: an answer is sent once the message is durable, or with the error of the sync that failed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from mqstore.store.log.durable_future import DurableFuture
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.status import PutMessageStatus

__all__ = ["Acknowledger", "WhenDurable"]

_logger = logging.getLogger(__name__)

WhenDurable: TypeAlias = Callable[[PutMessageResult | Exception], None]
"""Sends the answer to a put: from its result, or from the error of the sync."""


class _Put(NamedTuple):
    """A put that waits for the disk. since_s: of the loop's clock."""

    future: "DurableFuture[PutMessageResult]"
    when_durable: WhenDurable
    since_s: float


class Acknowledger:
    """Answers for one server."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sync_flush_timeout_ms: int | None) -> None:
        """sync_flush_timeout_ms: of the store's configuration; None for no limit."""
        self._loop = loop
        self._timeout_s = None if sync_flush_timeout_ms is None else sync_flush_timeout_ms / 1000
        # In the order of the log. The loop's; others look whether it is empty.
        self._waiting: deque[_Put] = deque()
        # Whether the loop was woken and has not answered yet.
        self._is_woken = False
        # For the put that waits longest; it may be of one that was answered.
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting_count(self) -> int:
        """Puts that are not answered yet."""
        return len(self._waiting)

    def add(self, future: "DurableFuture[PutMessageResult]", when_durable: WhenDurable) -> None:
        """Call `when_durable` in the loop's thread once the message is durable, or cannot become so."""
        self._waiting.append(_Put(future, when_durable, self._loop.time()))
        future.when_done(self._wake)
        if self._timer is None:
            self._watch_time()

    def stop(self) -> None:
        """Give no answers any more."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self) -> None:
        """After a sync, for each put; the first one wakes the loop for all."""
        if self._is_woken or not self._waiting:
            return
        self._is_woken = True
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:
            # The loop is closed: its clients are gone, and count what they sent as not sent.
            _logger.warning("messages were durable after the server had stopped")

    def _answer(self) -> None:
        # First: a sync that ends from now on wakes the loop again.
        self._is_woken = False
        while self._waiting and self._waiting[0].future.done():
            put = self._waiting.popleft()
            put.when_durable(_outcome_of(put.future))

    def _watch_time(self) -> None:
        """Answer those whose time is up, and look again when the next one's is."""
        self._timer = None
        if self._timeout_s is None:
            return
        late = []
        while self._waiting and self._waiting[0].since_s + self._timeout_s <= self._loop.time():
            late.append(self._waiting.popleft())
        if self._waiting:
            self._timer = self._loop.call_at(self._waiting[0].since_s + self._timeout_s, self._watch_time)
        for put in late:
            put.when_durable(_outcome_of(put.future))

    def __repr__(self) -> str:
        return f"Acknowledger({self.waiting_count} waiting)"


def _outcome_of(future: "DurableFuture[PutMessageResult]") -> PutMessageResult | Exception:
    """As a put that waits would have it; one that is not done yet took too long."""
    if not future.done():
        return msgspec.structs.replace(future.outcome, status=PutMessageStatus.FLUSH_DISK_TIMEOUT)
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001 - whatever it is, its client gets an answer
        return error
