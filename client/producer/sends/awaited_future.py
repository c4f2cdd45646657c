"""A future of a producer: it can be awaited in asyncio, and an interrupt of a wait comes out as itself."""

from collections.abc import Generator
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from mqstore.store.threads.library_wait import wait_in_library

__all__ = ["AwaitedFuture"]

Outcome = TypeVar("Outcome")


class AwaitedFuture(Future[Outcome]):
    """`result()` in a thread, `await` in asyncio."""

    def result(self, timeout: float | None = None) -> Outcome:
        """The outcome, after waiting for it, `timeout` seconds at most.

        Raises what it failed with, TimeoutError, CancelledError.
        """
        return wait_in_library(partial(super().result, timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What `result` would raise; None when it would return. Raises TimeoutError, CancelledError."""
        return wait_in_library(partial(super().exception, timeout))

    def __await__(self) -> Generator[Any, None, Outcome]:
        import asyncio

        return asyncio.wrap_future(self).__await__()
