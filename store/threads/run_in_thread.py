"""Runs a call in a new thread and returns its future: for one long compiled loop, which releases the GIL.

A new thread costs about a tenth of a millisecond, so the call should take several. There is no pool: no
thread is left running, and the process may fork at any time. `start_thread` is for threads of other kinds,
too: it distinguishes a lack of threads from an interrupt.
"""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["run_in_thread", "start_thread"]

T = TypeVar("T")


def run_in_thread(call: Callable[[], T]) -> "Future[T]":
    """Start `call` in a new thread. The future gives its result, or the exception that it raised.

    If no thread can be started (a limit, or the interpreter is ending), the call is done before this returns.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again by `result` of the future
            future.set_exception(error)

    if not start_thread(threading.Thread(target=run, name="mqstore run_in_thread")):
        run()
    return future


def start_thread(thread: threading.Thread) -> bool:
    """Start a thread; False if none can be started (a limit, or the interpreter is ending).

    An interrupt (Ctrl-C) that strikes while `Thread.start` waits for the new thread can come out of it as a
    RuntimeError too. The thread runs by then; the interrupt is raised again.
    """
    handled = sys.exception()
    try:
        thread.start()
    except RuntimeError as error:
        interrupt = error.__context__
        if interrupt is not None and interrupt is not handled:
            raise interrupt from None
        return False
    return True
