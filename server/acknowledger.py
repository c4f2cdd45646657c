"""The acknowledger: answers the puts of SYNC_FLUSH, once the disk has them.

The loop puts a message without waiting, and hands its future over. The store's group-commit service syncs for
all that was put meanwhile, and calls this after each sync, which has the loop answer all messages that are
durable now. So a message that comes alone costs two wake-ups, of the service and of the loop, and hundreds of
messages cost no more. A message that the disk does not have `sync_flush_timeout` after its put is stored and
answered FLUSH_DISK_TIMEOUT, as by a broker of RocketMQ: a timer of the loop sees to that.

Threads: the loop's, but for `_has_synced`, which any thread calls that syncs.
Durability: an answer is sent once the message is durable, or with the error of the sync that failed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple, TypeAlias

import msgspec

from mqstore.message_store import MessageStore
from mqstore.store.log.durable_future import DurableFuture
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.status import PutMessageStatus

__all__ = ["Acknowledger", "WhenDurable"]

_logger = logging.getLogger(__name__)

WhenDurable: TypeAlias = Callable[[PutMessageResult | Exception], None]
"""Sends the answer to a put: from its result, or from the error of the sync."""


class _Waiting(NamedTuple):
    """A put that is not answered yet. deadline_s: of the loop's clock."""

    future: "Future[PutMessageResult]"
    when_durable: WhenDurable
    deadline_s: float


class Acknowledger:
    """Answers the puts of one server."""

    def __init__(self, loop: asyncio.AbstractEventLoop, store: MessageStore) -> None:
        self._loop = loop
        self._store = store
        timeout_ms = store.config.sync_flush_timeout
        self._limit_s = None if timeout_ms is None else timeout_ms / 1000
        # In the order of the log. Only the loop changes it.
        self._waiting: deque[_Waiting] = deque()
        # Whether the loop will answer what is durable, and has not begun yet.
        self._is_called = False
        # Runs while puts wait, until the time of the oldest is up.
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting_count(self) -> int:
        """Puts that are not answered yet."""
        return len(self._waiting)

    def start(self) -> None:
        """From now on, answer."""
        self._store.add_sync_listener(self._has_synced)
        self._has_synced()

    def add(self, future: "Future[PutMessageResult]", when_durable: WhenDurable) -> None:
        """Call `when_durable` once the message is durable, or cannot become so, or its time is up.

        Its time begins now. Messages are added in the order in which they were put.
        """
        deadline_s = self._loop.time() + (self._limit_s or 0)
        self._waiting.append(_Waiting(future, when_durable, deadline_s))
        if self._timer is None and self._limit_s is not None:
            self._timer = self._loop.call_at(deadline_s, self._look_at_time)
        if future.done():
            # The sync may have ended before this was added.
            self._has_synced()

    def stop(self) -> None:
        """Answer no more."""
        self._store.remove_sync_listener(self._has_synced)
        if self._timer is not None:
            self._timer.cancel()

    def _has_synced(self) -> None:
        """Have the loop answer. It reads the offset that was raised before this, if it has begun by now."""
        if self._waiting and not self._is_called:
            self._is_called = True
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:
                # The loop is closed: their clients are gone, and count them as not sent.
                _logger.warning("%d messages were durable after the server had stopped", self.waiting_count)

    def _answer(self) -> None:
        # Cleared first: a sync that ends from now on calls again.
        self._is_called = False
        waiting = self._waiting
        while waiting and waiting[0].future.done():
            future, when_durable, _ = waiting.popleft()
            when_durable(_outcome_of(future))

    def _look_at_time(self) -> None:
        """Answer those whose time is up, and look again when that of the next one is."""
        self._timer = None
        self._answer()
        waiting = self._waiting
        while waiting and waiting[0].deadline_s <= self._loop.time():
            future, when_durable, _ = waiting.popleft()
            when_durable(_late(future))
        if waiting:
            self._timer = self._loop.call_at(waiting[0].deadline_s, self._look_at_time)

    def __repr__(self) -> str:
        return f"Acknowledger({self.waiting_count} waiting)"


def _outcome_of(future: "Future[PutMessageResult]") -> PutMessageResult | Exception:
    """Of a future that is done."""
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001 - whatever it is, its client gets an answer
        return error


def _late(future: "Future[PutMessageResult]") -> PutMessageResult | Exception:
    """Of a message that is stored, and that the disk does not have in time."""
    if not isinstance(future, DurableFuture):
        return _outcome_of(future)
    stored: PutMessageResult = future.outcome
    return msgspec.structs.replace(stored, status=PutMessageStatus.FLUSH_DISK_TIMEOUT)
