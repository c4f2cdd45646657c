"""Progress: how a long pass over the log reports how far it is. One type, from the front door to the walk."""

from collections.abc import Callable

__all__ = ["Progress"]

Progress = Callable[[str, int, int], None]
"""Called with (what is being done, bytes done, bytes in all).

An opening does `recover`, which finds the end of the log, and `dispatch`, which fills the queues.
"""
