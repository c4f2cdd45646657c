"""Tells an OSError that a call of the store got from the system from one that a signal handler raised.

Python runs signal handlers between any two steps of the main thread, and what a handler raises comes out
there: of an append, a sync, a look for a file. Alarms often raise TimeoutError, which is an OSError. Such an
error says nothing about the disk. It goes to the caller, as KeyboardInterrupt does; it is neither kept nor
read as a missing file. So code that catches an OSError asks here first.

An error of the system has its errno; FileSystem implementations set it too. One that a handler raises has no
errno, or comes from the handler's own calls. Only handlers are called with the frame that they interrupt.
Pure functions, for paths on which something has failed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from mqstore.store.errors import StoreError

__all__ = ["is_foreign", "raise_foreign", "suppress_system_error"]


def is_foreign(error: BaseException) -> bool:
    """Whether this OSError does not come from a call of the store; False if it is no OSError."""
    if not isinstance(error, OSError):
        return False
    # Some of the store's own errors are OSErrors too. They have no errno, but are not foreign.
    is_numbered = error.errno is not None or isinstance(error, StoreError)
    return not is_numbered or _is_of_handler(error.__traceback__)


def raise_foreign(error: BaseException) -> None:
    """Raise `error` again if it is foreign. To be called first wherever an OSError is caught."""
    if is_foreign(error):
        raise error


@contextmanager
def suppress_system_error(*kinds: type[OSError]) -> Iterator[None]:
    """As contextlib.suppress, but foreign errors pass."""
    try:
        yield
    except kinds as error:
        raise_foreign(error)


def _is_of_handler(traceback: TracebackType | None) -> bool:
    """Whether a frame that the error passed through was called with the frame before it as an argument."""
    before: FrameType | None = None
    while traceback is not None:
        frame = traceback.tb_frame
        if before is not None and _has(frame, before):
            return True
        before, traceback = frame, traceback.tb_next
    return False


def _has(frame: FrameType, argument: FrameType) -> bool:
    """Whether `argument` is a local variable of `frame`, or an element of a tuple that is one."""
    return any(
        value is argument or (isinstance(value, tuple) and any(each is argument for each in value))
        for value in frame.f_locals.values()
    )
