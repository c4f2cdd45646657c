"""Runs a call in a new thread: for one long compiled loop, which releases the GIL.

A new thread costs about a tenth of a millisecond, so the call should take several. There is no pool: no
thread is left running, and the process may fork at any time.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from mqstore.store.threads.start_thread import start_thread

__all__ = ["CallInThread", "run_in_thread"]

T = TypeVar("T")


class CallInThread(Generic[T]):
    """A call that may still be under way.

    It is waited for with `Thread.join`. A wait for a Future can be interrupted (Ctrl-C) with a lock half
    released, and then raises RuntimeError instead of the interrupt.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._value: T | None = None
        self._error: BaseException | None = None
        thread = threading.Thread(target=self._run, name="mqstore run_in_thread")
        self._thread: threading.Thread | None = None
        if start_thread(thread):
            self._thread = thread
        else:
            self._run()

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self._error = error

    def wait(self) -> None:
        """Wait until the call is over."""
        if self._thread is not None:
            self._thread.join()

    def result(self) -> T:
        """What the call returned, or raises what it raised, after it is over."""
        self.wait()
        if self._error is not None:
            raise self._error
        return cast("T", self._value)


def run_in_thread(call: Callable[[], T]) -> CallInThread[T]:
    """Start `call` in a new thread.

    If no thread can be started (a limit, or the interpreter is ending), the call is done before this returns.
    """
    return CallInThread(call)
