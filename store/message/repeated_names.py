"""What was made of the names that come again and again, such as topics and tags: a table with bounds.

A name counts as repeated when it comes for the second time. So names that never repeat do not push out those
that do, however many there are; and long ones are not kept at all: nobody fills the memory by what he sends.
Threads: any, without a lock; what is kept is immutable, and each step leaves both tables right.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["RepeatedNames"]

K = TypeVar("K", bound=object)
T = TypeVar("T")

_MOST_ENTRIES = 4_096
_LONGEST_NAME = 256


class RepeatedNames(Generic[K, T]):
    """A table of `make(name)` for names that repeat. A name is a str, or a tuple of them and of other values.

    get: the entry of a repeated name, None for others: a `dict.get`, for hot paths. Used as in
    `names.get(name) or names.add(name)`, so an entry must be true.
    """

    def __init__(self, make: Callable[[K], T]) -> None:
        """make: returns something immutable, equal for equal names."""
        self._make = make
        self._repeated: dict[K, T] = {}
        # Names that came once, and those that were repeated when that table was full.
        self._others: dict[K, T] = {}
        self.get: Callable[[K], T | None] = self._repeated.get

    def add(self, name: K) -> T:
        """The entry of a name that `get` does not know. Raises what `make` raises; then nothing is kept."""
        entry = self._others.get(name)
        if entry is not None:
            self._keep_repeated(name, entry)
            return entry
        entry = self._make(name)
        if _is_short(name):
            if len(self._others) >= 2 * _MOST_ENTRIES:
                self._others.clear()
            self._others[name] = entry
        return entry

    def _keep_repeated(self, name: K, entry: T) -> None:
        if len(self._repeated) >= _MOST_ENTRIES:
            # Those that are still in use come back from the other table, one by one.
            self._others = self._repeated.copy()
            self._repeated.clear()
        self._others.pop(name, None)
        self._repeated[name] = entry

    def __repr__(self) -> str:
        return f"RepeatedNames(repeated={len(self._repeated)}, others={len(self._others)})"


def _is_short(name: object) -> bool:
    """Whether a name has only short texts and numbers.

    Not those of a subclass, which may hold more than it shows, or compare in a way of its own.
    """
    parts = name if type(name) is tuple else (name,)
    return all(
        part is None or type(part) is int or (type(part) is str and len(part) <= _LONGEST_NAME)
        for part in parts
    )
