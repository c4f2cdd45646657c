"""Large blocks of memory: a server's process gives them back to the system as soon as they are freed.

glibc, the C library of most Linux systems, keeps freed blocks of up to 32 MiB for later ones, in the heap of
each thread. The key index uses blocks of up to 24 MiB for a moment when it merges its keys: a server that had
51 MiB of its own had 122 from then on. So each block from 1 MiB on is a mapping of its own, which ends when
it is freed.

To say so stops glibc from adapting its other limit, too. It would give pages back as soon as 128 KiB at the
end of a heap are free, and fault them in again for the next request of some hundred KiB. So a heap may keep
8 MiB.

Only for a process of our own: a program that embeds a store decides this for itself (MALLOC_MMAP_THRESHOLD_).
"""

import ctypes
from typing import Final

__all__ = ["give_back_large_blocks"]

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 1 << 20
_KEPT_BYTES: Final = 8 << 20


def give_back_large_blocks() -> None:
    """Tell the C library, where it is one that can be told so."""
    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell is not None:
        tell(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        tell(_M_TRIM_THRESHOLD, _KEPT_BYTES)
