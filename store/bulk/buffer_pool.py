"""A buffer pool: keeps released buffers for the next blocks of records.

A buffer of a megabyte that is returned to the system and allocated again for the next block costs a page
fault for each of its pages. That is more than the encoding of its contents.
Threads: any. A caller owns a buffer until it returns it; one that is not returned is garbage-collected.
"""

from typing import Final

import numpy as np

from mqstore.store.bulk.text_column import Bytes

__all__ = ["BufferPool"]

_MAX_BUFFERS: Final = 2
_MAX_BYTES: Final = 16 << 20
"""Larger buffers are not kept: they are rare, and would take memory for ever."""


class BufferPool:
    """The few buffers that are kept."""

    def __init__(self) -> None:
        self._buffers: list[Bytes] = []

    def take(self, size_bytes: int) -> Bytes:
        """A buffer of at least so many bytes; its contents are arbitrary."""
        try:
            # One step, so that no two threads take the same.
            buffer = self._buffers.pop()
        except IndexError:
            return np.empty(size_bytes, np.uint8)
        return buffer if len(buffer) >= size_bytes else np.empty(size_bytes, np.uint8)

    def release(self, buffer: Bytes) -> None:
        """Take back a buffer that no thread reads or writes any more."""
        if len(self._buffers) < _MAX_BUFFERS and len(buffer) <= _MAX_BYTES:
            self._buffers.append(buffer)
