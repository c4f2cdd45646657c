"""A durable future: the result of a put that does not wait. It is done once the put's bytes are durable.

To make, resolve and ask an ordinary future costs as much as the put itself. This one begins light: it skips
the base class's set-up, and `done` compares the end of its record with the log's flushed offset. A caller who
needs more than `done`, `result` and `exception` (a callback, `cancel`, `concurrent.futures.wait`,
`asyncio.wrap_future`) turns it into an ordinary future, in one step, which the flusher completes.
From then on all is the standard library's own code.

It requests no sync: the put does that. A thread that waits in `result` may lead a sync, as a put may.
Threads: any. Durability: a result means that the log is durable up to the record's end.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any, TypeVar

from mqstore.store.errors import StoreError
from mqstore.store.log.flusher import Flusher
from mqstore.store.threads.library_wait import wait_in_library
from mqstore.store.threads.lock import RLock

__all__ = ["DurableFuture"]

Outcome = TypeVar("Outcome")
# Above every offset: it makes every comparison with the flushed offset false.
_NOT_LIGHT = 1 << 64
_ORDINARY_FIELDS = vars(Future()).keys()
# Held while a light future becomes an ordinary one. Re-entrant, because a finalizer may run under it and call
# a method of another future.
_becoming_ordinary = RLock()
# Other threads hold the lock of a future for microseconds, or until the system lets them run again.
_LONG_S = 0.05


def _forget_in_child() -> None:
    """A thread of the parent may have held it at the fork."""
    global _becoming_ordinary  # noqa: PLW0603 - there is one thread
    _becoming_ordinary = RLock()


os.register_at_fork(after_in_child=_forget_in_child)


class DurableFuture(Future[Outcome]):
    """A future that is done once the log is durable up to `end_offset`; 0 for at once."""

    __slots__ = ("_end_offset", "_flusher", "_light_end", "_log", "_outcome")

    # Whether its lock was found taken for long: the thread that completes futures waits for it once only.
    _was_taken = False

    def __init__(self, flusher: Flusher, end_offset: int, outcome: Outcome) -> None:
        # The base's __init__ is not called: `_become_ordinary` sets its fields. No field here changes later
        # but _light_end, which is _end_offset until this becomes an ordinary future.
        self._flusher = flusher
        self._log = flusher.log
        self._light_end = self._end_offset = end_offset
        self._outcome = outcome

    @property
    def outcome(self) -> Outcome:
        """What `result` will return, whether the log is durable or not."""
        return self._outcome

    def result(self, timeout: float | None = None) -> Outcome:
        """The outcome, after waiting for the disk, `timeout` seconds at most.

        Raises StorePoisoned, TimeoutError, CancelledError.
        """
        if self._log.flushed_offset >= self._light_end or (timeout is None and self._wait_as_putter()):
            return self._outcome
        return wait_in_library(partial(super().result, timeout))

    def when_done(self, action: Callable[[], None]) -> None:
        """Call `action` once `done` is true, from here or from the thread that syncs; maybe more than once.

        A callback that leaves this a light future. It requests a sync, and does not wait for it.
        """
        self._flusher.add_pending(lambda _failure: action())
        if self.done():
            # The sync may have ended before the line above.
            action()
        else:
            self._flusher.sync_soon()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What `result` would raise; None when it would return. Raises TimeoutError, CancelledError."""
        if self._log.flushed_offset >= self._light_end or (timeout is None and self._wait_as_putter()):
            return None
        return wait_in_library(partial(super().exception, timeout))

    def done(self) -> bool:
        """Whether `result` would return or raise at once."""
        if self._log.flushed_offset >= self._light_end:
            return True
        if self._light_end != _NOT_LIGHT and self._flusher.failure is None:
            return False
        return super().done()

    def _wait_as_putter(self) -> bool:
        """Wait for the disk as a blocking put does, while this is light; True if the put is durable then.

        Only without a time limit: `wait_for` has its own.
        """
        while self._light_end != _NOT_LIGHT:
            try:
                if self._flusher.wait_for(self._end_offset):
                    return self._log.flushed_offset >= self._light_end
            except StoreError as failure:
                self._become_ordinary(failure)
        return False

    def __getattr__(self, name: str) -> Any:
        # Each method of the base first reads a field that a light future does not have.
        if name not in _ORDINARY_FIELDS:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
        self._become_ordinary()
        return vars(self)[name]

    def _become_ordinary(self, failure: StoreError | None = None) -> None:
        """Become an ordinary future: done if the log is durable or failed, else completed by the flusher.

        failure: the error of a wait for the disk. After an interrupt between any two lines the future is
        still light, and the next call makes it ordinary.
        """
        flusher = self._flusher
        with _becoming_ordinary:
            if "_condition" in vars(self):
                return
            # First: a thread that reads the flushed offset later than this one must not answer otherwise.
            self._light_end = _NOT_LIGHT
            failure = failure or flusher.failure
            ordinary: Future[Outcome] = Future()
            if self._log.flushed_offset >= self._end_offset:
                ordinary.set_result(self._outcome)
            elif failure is not None:
                ordinary.set_exception(failure)
            else:
                # Before it becomes ordinary: so an interrupt may add it twice, but cannot leave it out.
                flusher.add_pending(self.complete)
            # In one step: no thread sees half an ordinary future.
            vars(self).update(vars(ordinary))
        if not ordinary.done():
            flusher.complete_soon(self._end_offset)

    def complete(self, failure: StoreError | None) -> None:
        """Completes the future with its result or with `failure`. Later calls have no effect."""
        if not self._is_free():
            # Ctrl-C ended a call in the standard library that held the lock. It stays taken until that thread
            # calls again, and the futures of others must not wait for it.
            self._flusher.add_pending(self.complete)
            return
        try:
            if failure is None or self._log.flushed_offset >= self._end_offset:
                self.set_result(self._outcome)
            else:
                self.set_exception(failure)
        except InvalidStateError:
            with self._condition:
                # Ctrl-C may have come after the future was completed and before it notified.
                self._condition.notify_all()
                was_cancelled = self._state == "CANCELLED"
            if was_cancelled:
                # The message is stored all the same. This tells those who wait for several futures.
                self.set_running_or_notify_cancel()

    def _is_free(self) -> bool:
        """Whether nobody holds the lock for long."""
        is_free = True
        try:
            self._condition.acquire(timeout=0 if self._was_taken else _LONG_S)
        finally:
            # Whether or not it was acquired, as in `Flusher._lead`: an interrupt must not leave it taken.
            try:
                self._condition.release()
            except RuntimeError:
                is_free = False
        self._was_taken = not is_free
        return is_free
