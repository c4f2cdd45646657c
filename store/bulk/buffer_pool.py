"""Spare buffers: room for records that was used and is used again.

A buffer of a megabyte that is given back to the system, and asked for again with the next block, costs a page
fault for each of its pages, which is more than the encoding of what goes into it.
Threads: any. Whoever took a buffer owns it until it is given back; one that is never given back is lost to
nobody but the collector.
"""

from typing import Final

import numpy as np

from mqstore.store.bulk.text_column import Bytes

__all__ = ["BufferPool"]

_MAX_BUFFERS: Final = 2
_MAX_BYTES: Final = 16 << 20
"""Larger ones are not kept: they are rare, and would be held for ever."""


class BufferPool:
    """The few buffers that are kept."""

    def __init__(self) -> None:
        self._buffers: list[Bytes] = []

    def take(self, size_bytes: int) -> Bytes:
        """A buffer of at least so many bytes, with anything in it."""
        try:
            # One step, so that no two threads take the same.
            buffer = self._buffers.pop()
        except IndexError:
            return np.empty(size_bytes, np.uint8)
        return buffer if len(buffer) >= size_bytes else np.empty(size_bytes, np.uint8)

    def give_back(self, buffer: Bytes) -> None:
        """Nobody reads or writes it any more."""
        if len(self._buffers) < _MAX_BUFFERS and len(buffer) <= _MAX_BYTES:
            self._buffers.append(buffer)
