"""Locks that no interrupt leaves taken: `with Lock():` and `with RLock():`, on every supported Python.

Python runs the handlers of signals in the main thread, and looks for signals where a function begins and
where a call has returned. If a handler raises (Ctrl-C) between the taking of a lock and the block under it,
nobody releases the lock. Up to Python 3.13 `with` has no such place. CPython 3.14 enters a `with` by an
ordinary call, and looks for signals once that has returned (github.com/python/cpython/issues/148874).

    before 3.14    Lock and RLock are those of `threading`
    from 3.14 on   they are SafeLock and SafeRLock, which hold one of `threading`

What makes these safe, where `with` enters by a call:

    __enter__    is a function of Python. It is entered by a frame, so nothing is looked for when it returns.
                 It takes the lock by reading a property whose getter is C: reading an attribute does not look
                 for signals, as a call would. A handler that raises while `acquire` waits has not acquired
    __exit__     is the C method of the lock itself, found through a slot of that name: a function of Python
                 could be interrupted where it begins, before it releases

From 3.12 on there is another such place: the jump to the next turn of a loop, if it depends on a condition
(github.com/python/cpython/issues/130279). So a loop under a lock is in a function that is called there:
tests/architecture/test_locked_loops.py.

The sources take all their locks from here; tests/architecture/test_seams.py sees to it. `acquire` alone,
without `with`, may be interrupted once it has acquired, on every Python: who calls it must allow for that.
Threads: any.
"""

import sys
import threading
from operator import methodcaller
from typing import TYPE_CHECKING

__all__ = ["Lock", "RLock", "SafeLock", "SafeRLock"]


class _EnteredSafely:
    """What both have in common."""

    __slots__ = ("__exit__", "acquire", "release")

    def __init__(self, lock: "threading.Lock | threading.RLock") -> None:
        # Bound methods of C. The type's attribute `__exit__` is the slot, which `with` reads.
        self.__exit__ = lock.__exit__
        self.acquire = lock.acquire
        self.release = lock.release

    _taken = property(methodcaller("acquire"))

    def __enter__(self) -> bool:
        # No call may stand here.
        return self._taken  # type: ignore[no-any-return]


class SafeLock(_EnteredSafely):
    """As threading.Lock.

    >>> lock = SafeLock()
    >>> with lock:
    ...     lock.locked()
    True
    >>> lock.locked()
    False
    """

    __slots__ = ("locked",)

    def __init__(self) -> None:
        lock = threading.Lock()
        super().__init__(lock)
        self.locked = lock.locked

    def __repr__(self) -> str:
        return f"SafeLock(locked={self.locked()})"


class SafeRLock(_EnteredSafely):
    """As threading.RLock: its thread may take it again."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(threading.RLock())


if TYPE_CHECKING or sys.version_info < (3, 14):
    from threading import Lock, RLock
else:
    Lock, RLock = SafeLock, SafeRLock
