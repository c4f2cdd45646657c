"""A call beside its caller, in a thread of its own: for one long compiled loop, which holds no GIL.

It costs about a tenth of a millisecond, so what runs beside must take several. There is no pool: nothing
is left running, and a process may fork whenever it likes.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["beside"]

T = TypeVar("T")


def beside(call: Callable[[], T]) -> "Future[T]":
    """Begin `call` in a new thread. Its result, or what it raised, is in the future.

    Where no thread is to be had (a limit, or the interpreter is ending) it is done before this returns.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again by whoever asks for the result
            future.set_exception(error)

    try:
        threading.Thread(target=run, name="mqstore beside").start()
    except RuntimeError:
        run()
    return future
