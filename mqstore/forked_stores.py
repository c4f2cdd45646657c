"""Forks: in a forked child every store that its parent has open is closed, without touching a file.

The child may be a worker of a pool, a daemon whose parent ends, or a program that leaves
`with MessageStore.open(...)` by `sys.exit`. It does not delete `abort`, writes no state file, and waits for
no lock of a thread that it does not have: `close`, `with` and the end of the interpreter do nothing there.
Every other call raises StoreForked, reads and `read_only` stores included: a lock may be held by a thread
that the child does not have. Messages that were read before stay readable. A child that needs the store
opens it itself: read only beside its parent, or for writing once the parent has ended.

A fork calls what is registered here, so puts and gets pay nothing for it. Threads: any; a child has one.
"""

import contextlib
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
        """Forget `store` in each child from now on."""
        cls._open.add(store)

    @classmethod
    def remove(cls, store: _Store) -> None:
        """It is closed."""
        cls._open.discard(store)

    @classmethod
    def forget_all(cls) -> None:
        """In a child: forget what the parent has open."""
        opened, opener_pid = list(cls._open), cls._process_id
        cls._open, cls._process_id = weakref.WeakSet(), os.getpid()
        with contextlib.ExitStack() as all_of_them:
            # One that fails keeps no other from being forgotten.
            for store in opened:
                all_of_them.callback(store._forget, opener_pid)


os.register_at_fork(after_in_child=ForkedStores.forget_all)
