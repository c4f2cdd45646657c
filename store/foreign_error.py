"""Which OSError is the system's answer to a call of the store, and which is a program's own.

Python runs the handlers of signals between any two steps of the main thread, and what a handler raises comes
out there: out of an append, a sync, a look for a file. Alarms often raise TimeoutError, which is an OSError.
Such an error says nothing about the disk: it goes on to the caller as KeyboardInterrupt does, and is neither
kept nor taken for a file that is missing. So whatever catches an OSError asks here first.

An error of the system has its number; FileSystem implementations give it too. One that a handler raises has
none, or came out of the handler's own calls. Only handlers are called with the frame that they interrupt.
Pure functions, for paths on which something has failed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from mqstore.store.errors import StoreError

__all__ = ["is_foreign", "raise_foreign", "suppress_system_error"]


def is_foreign(error: BaseException) -> bool:
    """Whether this OSError is not the answer to a call of the store; False for what is no OSError."""
    if not isinstance(error, OSError):
        return False
    # Of the store's own errors some are OSErrors too: they have no number, and are answers to its calls.
    is_numbered = error.errno is not None or isinstance(error, StoreError)
    return not is_numbered or _is_of_handler(error.__traceback__)


def raise_foreign(error: BaseException) -> None:
    """Raise `error` again if it is foreign. First thing where an OSError is caught."""
    if is_foreign(error):
        raise error


@contextmanager
def suppress_system_error(*kinds: type[OSError]) -> Iterator[None]:
    """As contextlib.suppress, for errors that are the system's."""
    try:
        yield
    except kinds as error:
        raise_foreign(error)


def _is_of_handler(traceback: TracebackType | None) -> bool:
    """Whether one of the frames that the error came through was called with the frame before it."""
    before: FrameType | None = None
    while traceback is not None:
        frame = traceback.tb_frame
        if before is not None and _has(frame, before):
            return True
        before, traceback = frame, traceback.tb_next
    return False


def _has(frame: FrameType, argument: FrameType) -> bool:
    """Whether `argument` is a local of `frame`, by itself or among others that it was called with."""
    return any(
        value is argument or (isinstance(value, tuple) and any(each is argument for each in value))
        for value in frame.f_locals.values()
    )
