"""A compiled loop that waits by asking for the time, and holds the GIL no longer than its caller did.

`spin_until(due_ns, timespec)`: due_ns is a time of `time.perf_counter_ns`, which on Linux is CLOCK_MONOTONIC;
timespec is int64[2] for C's clock_gettime to write into. It is not cached, as it has the function's address.
"""

import ctypes
import time

import numba

__all__ = ["spin_until"]

_clock_gettime = ctypes.CDLL(None).clock_gettime
_clock_gettime.argtypes = [ctypes.c_int, ctypes.c_void_p]
_clock_gettime.restype = ctypes.c_int
_MONOTONIC = time.CLOCK_MONOTONIC


@numba.njit(numba.int64(numba.int64, numba.int64[::1]), nogil=True)  # type: ignore[untyped-decorator]
def spin_until(due_ns, timespec):  # type: ignore[no-untyped-def]
    """Return the time when it is `due_ns` or later."""
    while True:
        _clock_gettime(_MONOTONIC, timespec.ctypes.data)
        now_ns = timespec[0] * 1_000_000_000 + timespec[1]
        if now_ns >= due_ns:
            return now_ns
