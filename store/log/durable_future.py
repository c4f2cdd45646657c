"""A durable future: the answer to a put that does not wait, done once its bytes are on the disk.

Making an ordinary future, resolving it and asking it costs as much as the put itself. This one is born
light: it holds the end of its record and the outcome, and reads off the log whether it is done. Only who
asks for more than `done`, `result` and `exception` (a callback, `cancel`, `concurrent.futures.wait`,
`asyncio.wrap_future`) turns it into an ordinary future, in one step, and has it settled by the flusher.
From then on all is the standard library's own code.

It has nothing synced: who puts asks the flusher for that. Who waits in `result` may sync as any putter does.
Threads: any. Durability: a result means that the log is durable up to the record's end.
"""

import os
import threading
from concurrent.futures import Future, InvalidStateError
from typing import Any, TypeVar

from mqstore.store.errors import StoreError
from mqstore.store.log.flusher import Flusher

__all__ = ["DurableFuture"]

Outcome = TypeVar("Outcome")
# Above every offset: the log's flushed offset tells nothing about such a future.
_NOT_LIGHT = 1 << 64
_ORDINARY_FIELDS = vars(Future()).keys()
# Held while a light future becomes an ordinary one; nobody else's code runs under it, but for a finalizer,
# which may ask a future: hence re-entrant.
_becoming_ordinary = threading.RLock()
# Others hold the lock of a future for microseconds, or until the system lets them run again.
_LONG_S = 0.05


def _forget_in_child() -> None:
    """A thread of the parent may have held it at the fork."""
    global _becoming_ordinary  # noqa: PLW0603 - there is one thread
    _becoming_ordinary = threading.RLock()


os.register_at_fork(after_in_child=_forget_in_child)


class DurableFuture(Future[Outcome]):
    """A future that is done once the log is durable up to `end_offset`; 0 for at once."""

    __slots__ = ("_end_offset", "_flusher", "_light_end", "_log", "_outcome")

    def __init__(self, flusher: Flusher, end_offset: int, outcome: Outcome) -> None:
        # Without the base's, for which `_become_ordinary` makes up. Written here alone, but for _light_end:
        # it is _end_offset until this becomes an ordinary future.
        self._flusher = flusher
        self._log = flusher.log
        self._light_end = self._end_offset = end_offset
        self._outcome = outcome

    def result(self, timeout: float | None = None) -> Outcome:
        """The outcome, after waiting for the disk, `timeout` seconds at most.

        Raises StorePoisoned, TimeoutError, CancelledError.
        """
        if self._log.flushed_offset >= self._light_end or (timeout is None and self._wait_as_putter()):
            return self._outcome
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What `result` would raise; None when it would return. Raises TimeoutError, CancelledError."""
        if self._log.flushed_offset >= self._light_end or (timeout is None and self._wait_as_putter()):
            return None
        return super().exception(timeout)

    def done(self) -> bool:
        """Whether `result` would return or raise at once."""
        if self._log.flushed_offset >= self._light_end:
            return True
        if self._light_end != _NOT_LIGHT and self._flusher.failure is None:
            return False
        return super().done()

    def _wait_as_putter(self) -> bool:
        """Wait for the disk as a blocking put does, while this is light; whether that tells the outcome.

        Not with a time limit: who syncs cannot stop when time is up.
        """
        while self._light_end != _NOT_LIGHT:
            try:
                if self._flusher.wait_for(self._end_offset):
                    return self._log.flushed_offset >= self._light_end
            except StoreError as failure:
                self._become_ordinary(failure)
        return False

    def __getattr__(self, name: str) -> Any:
        # All that the base does begins with a field that this does not have while it is light.
        if name not in _ORDINARY_FIELDS:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
        self._become_ordinary()
        return vars(self)[name]

    def _become_ordinary(self, failure: StoreError | None = None) -> None:
        """Become an ordinary future: done where the log says so, else settled by the flusher.

        failure: what a wait for the disk ended with. An interrupt between any two lines leaves a light future
        that is made ordinary when somebody asks again.
        """
        flusher = self._flusher
        with _becoming_ordinary:
            if "_condition" in vars(self):
                return
            # First of all: who reads the flushed offset after this does must not answer otherwise.
            self._light_end = _NOT_LIGHT
            failure = failure or flusher.failure
            ordinary: Future[Outcome] = Future()
            if self._log.flushed_offset >= self._end_offset:
                ordinary.set_result(self._outcome)
            elif failure is not None:
                ordinary.set_exception(failure)
            else:
                # Before it is ordinary: rather kept twice than not at all.
                flusher.keep(self.settle)
            # In one step: half an ordinary future is never seen.
            vars(self).update(vars(ordinary))
        if not ordinary.done():
            flusher.complete_soon(self._end_offset)

    def settle(self, failure: StoreError | None) -> None:
        """Completes the future with its result or with `failure`. Later calls have no effect."""
        if not self._is_free():
            # Ctrl-C ended an asker in the standard library with the lock in hand: until that thread asks
            # again it is gone for good, and the futures of others must not wait for it.
            self._flusher.keep(self.settle)
            return
        try:
            if failure is None or self._log.flushed_offset >= self._end_offset:
                self.set_result(self._outcome)
            else:
                self.set_exception(failure)
        except InvalidStateError:
            with self._condition:
                # Ctrl-C may have come between the first word and the telling.
                self._condition.notify_all()
                was_cancelled = self._state == "CANCELLED"
            if was_cancelled:
                # The message is stored all the same. Those who wait for several futures are told.
                self.set_running_or_notify_cancel()

    def _is_free(self) -> bool:
        """Whether nobody holds the lock for long."""
        is_free = True
        try:
            self._condition.acquire(timeout=_LONG_S)
        finally:
            # Ours or not, as in `Flusher._lead`: an interrupt here must not leave it taken either.
            try:
                self._condition.release()
            except RuntimeError:
                is_free = False
        return is_free
