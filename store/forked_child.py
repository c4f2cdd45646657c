"""What a forked child inherits of a parent's open store: it is never cleaned up, and every call is refused.

A fork copies the memory and one thread. Locks that other threads held stay held for ever in the child, and
mapped files, LMDB's tables and descriptors are the parent's: a finalizer that waits, writes or aborts would
hang the child or harm the parent. So the child runs none. Parts of a store are disarmed: they have no method
left, and their fields are never released, not even at the end of the interpreter.

Which parts: mqstore/forked_stores.py. Threads: runs right after a fork, when there is one thread.
"""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from mqstore.store.errors import StoreError

__all__ = ["disarm", "leave_to_parent"]


class _Refusing:
    """The methods of a part in a child: each raises the error."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        raise _error_of(self)

    def __iter__(self) -> Iterator[Any]:
        raise _error_of(self)

    def __len__(self) -> int:
        raise _error_of(self)

    def __contains__(self, item: object) -> bool:
        raise _error_of(self)

    def __repr__(self) -> str:
        return f"<part of a store: {_error_of(self)}>"


def _error_of(part: object) -> StoreError:
    reason: Callable[[], StoreError] = part.__dict__["reason"]
    return reason()


_METHODS = {name: method for name, method in vars(_Refusing).items() if callable(method)}


def disarm(part: object, reason: Callable[[], StoreError]) -> None:
    """Remove methods and fields of `part`: any use of it raises the error that `reason` makes."""
    kind, fields = type(part), vars(part)
    if "reason" not in fields:
        leave_to_parent(dict(fields))
        # A class of the same layout, as an object must keep it.
        object.__setattr__(part, "__class__", type(kind.__name__, (kind,), _METHODS))
        fields.clear()
        fields["reason"] = reason


def leave_to_parent(thing: object) -> None:
    """Keep `thing` alive until the process ends, also through the end of the interpreter."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
