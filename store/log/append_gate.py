"""The append gate: lets one thread at a time append to the log, and none while appends are refused.

A refusal can be lifted (a full disk, a closed store) or is final: the log is *poisoned*. A disk that fails
during a step poisons the log, as a failed sync does: what the disk holds then is unknown.

It does not know what a step does (log_appender.py).
Threads: any. A step runs under one lock; so once `refuse` or `poison` has returned, no append is under way.
Only a signal handler or a finalizer can want to append, or to refuse, amid a step of its own thread. It would
wait for ever: it gets a RuntimeError instead, as Python's own buffered files raise. So does one that wants to
append amid work `aside`, which holds locks that a step of another thread may be waiting for.
What is run under the lock is passed as a function: a generator of `contextmanager` that an interrupt leaves
entered would keep the lock as long as anybody keeps the error.
"""

import time
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import TypeVar

from mqstore.store.errors import StoreError, StorePoisoned
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.threads.lock import Lock

__all__ = ["AppendGate"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")

# How often a putter lets others run before it blocks on the append lock.
_YIELDS = 100
# A record this long is copied without the interpreter's lock: to yield does not help then.
_LONG_COPY_BYTES = 16 << 10


class AppendGate:
    """The lock of one log, and why appends are refused."""

    def __init__(self, store_path: Path) -> None:
        """store_path: the directory that the error of a poisoned log names."""
        self._store_path = store_path
        self._lock = Lock()
        # The thread within a step that may run Python code; 0 if there is none. Under _lock, and read without
        # it: no other thread writes the number of this one.
        self._holder = 0
        # The threads that work aside. Each adds and removes itself.
        self._aside: set[int] = set()
        # Makes the error that appends raise at the moment; None when they are not refused. Under _lock.
        self._refusal: Callable[[], StoreError] | None = None

    def guarded(
        self, step: Callable[[Argument], Result], *, size_of: Callable[[Argument], int] | None = None
    ) -> Callable[[Argument], Result]:
        """`step`, called under the lock. size_of: the bytes that it copies, where they are known.

        The returned function raises the error of the refusal, and StorePoisoned after an OSError of `step`.
        It is as fast as the same lines inside each step; a context manager would cost several calls.
        """

        def run(argument: Argument) -> Result:
            lock = self._lock
            if lock.locked():
                self.let_holder_finish(0 if size_of is None else size_of(argument))
            thread = get_ident()
            if thread in self._aside:
                self._refuse_aside()
            with lock:
                try:
                    self._holder = thread
                    if self._refusal is not None:
                        raise self._refusal()
                    try:
                        return step(argument)
                    except OSError as error:
                        raise self.error_of(error) from error
                finally:
                    self._holder = 0

        return run

    def let_holder_finish(self, size_bytes: int = 0) -> None:
        """Yield until the lock is free, a limited number of times; at once if a long record is to be copied.

        A thread that blocks on a lock is handed it while it still has to wait for the interpreter's own lock,
        and those behind it queue up: from then on each append costs two thread switches.
        Raises RuntimeError if this thread itself is within a step, or works aside.
        """
        self._refuse_within_step()
        self._refuse_aside()
        if size_bytes >= _LONG_COPY_BYTES:
            return
        for _ in range(_YIELDS):
            time.sleep(0)
            if not self._lock.locked():
                return

    def _refuse_within_step(self) -> None:
        if self._holder == get_ident():
            raise RuntimeError(
                f"a signal handler or finalizer used the store {self._store_path} within an append of the "
                "thread that it interrupted: let it set a flag or start a thread instead"
            )

    def aside(self, work: Callable[[], Result]) -> Result:
        """Run work of this thread beside appends that takes locks which steps take, too.

        A finalizer within it that appended would wait for a step that waits for such a lock.
        """
        thread = get_ident()
        try:
            self._aside.add(thread)
            return work()
        finally:
            self._aside.discard(thread)

    def _refuse_aside(self) -> None:
        if get_ident() in self._aside:
            raise RuntimeError(
                f"a signal handler or finalizer used the store {self._store_path} while the thread that it "
                "interrupted prepared room for appends: let it set a flag or start a thread instead"
            )

    def refuse(self, reason: Callable[[], StoreError] | None) -> None:
        """Refuse appends with the error that `reason` makes, or accept them again with None.

        A poisoned log stays poisoned: later calls change nothing. Raises RuntimeError within a step.
        """
        self._refuse_within_step()
        self._between_steps(lambda: self._refuse_locked(reason))

    def refuse_for_good(self, reason: Callable[[], StoreError]) -> None:
        """As `poison`, with the error that `reason` makes."""
        self._between_steps(lambda: self._refuse_locked(_Final(reason)))

    def _refuse_locked(self, refusal: Callable[[], StoreError] | None) -> None:
        if not self.is_poisoned:
            self._refusal = refusal

    def refuse_for_good_locked(self, reason: Callable[[], StoreError]) -> None:
        """As `refuse_for_good`, within a step."""
        self._refusal = _Final(reason)

    def poison(self, cause: BaseException) -> None:
        """Accept no more appends: a sync failed. The first cause stays.

        Within a step, by a signal handler's sync, too: the step ends, and is the last one.
        """
        self._between_steps(lambda: self._poisoned_by(cause))

    def _between_steps(self, change: Callable[[], object]) -> None:
        """Make a change under the lock, as a step has it; within a step of this thread it has it already."""
        thread = get_ident()
        if self._holder == thread:
            change()
            return
        with self._lock:
            try:
                self._holder = thread
                change()
            finally:
                self._holder = 0

    def error_of(self, failure: OSError) -> StoreError:
        """The error to raise for an OSError in a step, which poisons the log; one of a program passes."""
        raise_foreign(failure)
        return self._poisoned_by(failure)

    def _poisoned_by(self, cause: BaseException) -> StoreError:
        """As `poison`, under the lock; returns the error to raise."""
        refusal = self._refusal
        if not isinstance(refusal, _Final):
            self._refusal = refusal = _Final(lambda: StorePoisoned(self._store_path, cause))
        return refusal()

    @property
    def is_poisoned(self) -> bool:
        """Whether appends are refused for good: a sync has failed, or the store's lock was lost."""
        return isinstance(self._refusal, _Final)

    @property
    def refusal(self) -> StoreError | None:
        """The error that the next append would raise, if any."""
        refusal = self._refusal
        return refusal() if refusal is not None else None

    def __repr__(self) -> str:
        return f"AppendGate(refusal={self.refusal!r})"


class _Final:
    """A refusal that cannot be lifted."""

    def __init__(self, reason: Callable[[], StoreError]) -> None:
        self._reason = reason

    def __call__(self) -> StoreError:
        return self._reason()
