"""Waits in the standard library: an interrupt comes out of them as itself.

`Condition.wait` releases its lock and takes it again at the end. If an interrupt (Ctrl-C) strikes between the
release and the waiting, the `with` around it releases a lock that this thread does not hold, and a
RuntimeError about the lock comes out instead of KeyboardInterrupt. Futures and `threading.Event` wait in this
way. Waits of the store itself use `AutoResetEvent`, which has no such place.
"""

import sys
from collections.abc import Callable
from typing import TypeVar

__all__ = ["wait_in_library"]

T = TypeVar("T")

# What RLock.release and Lock.release say.
_NOT_HELD = ("cannot release un-acquired lock", "release unlocked lock")


def wait_in_library(wait: Callable[[], T]) -> T:
    """What `wait` returns or raises; after an interrupt, the exception that the signal's handler raised."""
    handled = sys.exception()
    try:
        return wait()
    except RuntimeError as error:
        interrupt = error.__context__
        if interrupt is None or interrupt is handled or str(error) not in _NOT_HELD:
            raise
        raise interrupt from None
