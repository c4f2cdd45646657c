"""Forks: in a forked child every store that its parent has open is closed, and only forgotten.

The child may be a worker of a pool, a daemon whose parent ends, or a program that leaves
`with MessageStore.open(...)` by `sys.exit`. It does not delete `abort`, writes no state file, and waits for
no lock of a thread that it does not have: `close`, `with` and the end of the interpreter do nothing there.
All else raises StoreForked, reads and `read_only` stores included: their locks may be held by threads that
are missing. Messages that were read before stay readable. A child that wants to go on opens the store itself:
read only beside its parent, or for writing once that has ended.

A fork calls what is registered here; puts and gets do nothing for it. Threads: any; a child begins with one.
"""

import os
import weakref
from typing import ClassVar, Protocol

__all__ = ["ForkedStores"]


class _Store(Protocol):
    def _forget(self, opener_pid: int) -> None: ...


class ForkedStores:
    """The stores that are open in this process."""

    _open: ClassVar["weakref.WeakSet[_Store]"] = weakref.WeakSet()
    # This process: the one that opened them.
    _process_id: ClassVar = os.getpid()

    @classmethod
    def add(cls, store: _Store) -> None:
        """Have `store` forgotten in each child from now on."""
        cls._open.add(store)

    @classmethod
    def remove(cls, store: _Store) -> None:
        """It is closed."""
        cls._open.discard(store)

    @classmethod
    def forget_all(cls) -> None:
        """In a child: forget what the parent has open."""
        for store in list(cls._open):
            store._forget(cls._process_id)
        cls._open = weakref.WeakSet()
        cls._process_id = os.getpid()


os.register_at_fork(after_in_child=ForkedStores.forget_all)
