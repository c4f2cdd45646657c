"""The workers: threads for requests that may wait for the disk or take long, so that the loop never does.

A bounded number of requests waits for a thread; one more is answered SYSTEM_BUSY, as RocketMQ does.
Threads: `answer_later` and `stop` from the loop's; what a worker has made is sent in the loop's.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from mqstore.server.answer import Answer, answered
from mqstore.server.request import Request
from mqstore.store.status import ResponseCode

__all__ = ["BUSY", "Workers"]

_logger = logging.getLogger(__name__)

BUSY: Final = Answer(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]broker busy: too many requests wait")
"""The answer to a request for which there is no room."""


class Workers:
    """Threads of one server. waiting_count: requests that are waiting or at work."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread_count: int, max_waiting: int) -> None:
        self.waiting_count = 0
        self._loop = loop
        self._max_waiting = max_waiting
        self._executor = ThreadPoolExecutor(thread_count, "mqstore worker")

    def answer_later(self, request: Request, handle: Callable[[], Answer | None]) -> bool:
        """Call `handle` in a thread, and answer the request with what it returns or raises.

        False if there is no room: the request was answered so, and `handle` is not called.
        """
        if self.waiting_count >= self._max_waiting:
            request.send(BUSY)
            return False
        self.waiting_count += 1
        request.connection.began(len(request.body))
        self._executor.submit(self._run, request, handle)
        return True

    def _run(self, request: Request, handle: Callable[[], Answer | None]) -> None:
        answer = answered(handle)
        try:
            self._loop.call_soon_threadsafe(self._finish, request, answer)
        except RuntimeError:
            # The loop is closed, and the client's connection with it.
            _logger.warning("%r was answered after the server had stopped", request.command)

    def _finish(self, request: Request, answer: Answer | None) -> None:
        self.waiting_count -= 1
        request.connection.ended(len(request.body))
        if answer is not None:
            request.send(answer)

    def stop(self) -> None:
        """Take nothing more. What a thread is at goes on, and its answer reaches nobody."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def __repr__(self) -> str:
        return f"Workers({self.waiting_count} requests)"
