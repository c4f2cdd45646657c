"""Memory for tables that are mostly empty: pages that were never written take none.

np.zeros promises this only at first. Once memory has been freed, malloc may reuse it, and has to clear it:
that takes a page fault for each page, and all pages stay resident.
It does not map files (files/os_file_system.py). Any thread. Nothing here is durable.
"""

import mmap

import numpy as np
import numpy.typing as npt

__all__ = ["untouched_zeros"]


def untouched_zeros(length: int) -> npt.NDArray[np.int64]:
    """int64[length] of zeros, in pages of its own. A forked child has a copy."""
    memory = mmap.mmap(-1, length * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, np.int64)
