"""Starts a thread so that no interrupt (Ctrl-C) can harm it.

`Thread.start` waits for the new thread with an event of the standard library. An interrupt of that wait may
leave the event's lock taken: then the new thread never begins, the process does not end if the thread is no
daemon, or a RuntimeError about the lock comes out. Only the main thread is interrupted, so there another one
calls `Thread.start`, and the main thread waits with an event of the store's own. It costs some 50 us more.
"""

import _thread
import threading

from mqstore.store.threads.auto_reset_event import AutoResetEvent

__all__ = ["start_thread"]

# The answer is the truth, and the event only wakes: an interrupt may take its setting away.
_LONGEST_SLEEP_S = 0.1
# How RuntimeErrors of the system begin; a signal's handler may raise others.
_NO_THREAD = "can't "


def start_thread(thread: threading.Thread) -> bool:
    """Start a thread; False if none can be started (a limit, or the interpreter is ending).

    An interrupt comes out as itself. The thread runs by then, or is about to.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return _start_here(thread)
    answers: list[bool | BaseException] = []
    is_told = AutoResetEvent()

    def start() -> None:
        try:
            answers.append(_start_here(thread))
        except BaseException as error:  # noqa: BLE001 - raised again below
            answers.append(error)
        is_told.set()

    try:
        _thread.start_new_thread(start, ())
        while not answers:
            is_told.wait(_LONGEST_SLEEP_S)
    except RuntimeError as error:
        if not str(error).startswith(_NO_THREAD):
            raise
        return False
    except BaseException:
        # Who undoes what the interrupt left finds a thread that runs.
        is_told.wait(_LONGEST_SLEEP_S)
        raise
    answer = answers[0]
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _start_here(thread: threading.Thread) -> bool:
    try:
        thread.start()
    except RuntimeError:
        return False
    return True
