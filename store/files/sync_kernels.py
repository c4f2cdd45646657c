"""Compiled loops that sync files: system calls with no Python between them, which release the GIL.

The functions of C are arguments: their addresses, from `c_functions`. `sync_files` runs in the
caller's thread and syncs many files. `serve_syncs` is what the thread of a timed sync does (timed_sync.py).
Import this module inside the function that first needs it; compiled code is cached on disk.
"""

import ctypes
from errno import EINTR, ENOENT

import numpy as np
import numpy.typing as npt

from mqstore.store.byte_kernels import call_address, int_at
from mqstore.store.compiled import compiled
from mqstore.store.loops.kinds import INT64, LONGS, LONGS_OUT

__all__ = ["c_functions", "serve_syncs", "sync_files"]

_LOW = np.int64(0xFFFFFFFF)


def c_functions(*names: str) -> npt.NDArray[np.int64]:
    """The addresses of functions of the C library."""
    library = ctypes.CDLL(None)
    addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
    assert all(addresses), names
    return np.array(addresses, np.int64)


@compiled(LONGS, LONGS, INT64, LONGS_OUT)
def sync_files(functions, paths, flags, outcome):  # type: ignore[no-untyped-def]
    """Open, sync and close one file after the other.

    functions: int64, addresses of C's open, of the function that syncs a descriptor, of close, and of the
    one that returns the address of errno. paths: int64, addresses of the paths, each ending in a zero byte.
    flags: for open. outcome: int64[2], filled with the number of files done, and the errno of the failure or
    0. (It is not returned, because an interrupt would lose a returned value.)
    A missing file counts as done. After a failure no further file is synced.
    """
    open_file, sync, close, errno_location = functions[0], functions[1], functions[2], functions[3]
    outcome[0] = outcome[1] = 0
    for path in paths:
        descriptor = np.int32(call_address(open_file, path, flags, 0))
        if descriptor >= 0:
            if np.int32(call_address(sync, descriptor, 0, 0)) != 0:
                outcome[1] = int_at(call_address(errno_location, 0, 0, 0))
            call_address(close, descriptor, 0, 0)
        else:
            error = np.int64(int_at(call_address(errno_location, 0, 0, 0)))
            outcome[1] = error if error != ENOENT else 0
        if outcome[1] != 0:
            return
        outcome[0] += 1


@compiled(LONGS, LONGS_OUT, LONGS_OUT, LONGS_OUT, LONGS_OUT, INT64, INT64, INT64)
def serve_syncs(functions, request, answer, stop, count, count_at, asked, ended):  # type: ignore[no-untyped-def]
    """Sync the descriptor of each request, one at a time, until told to stop.

    functions: int64, addresses of C's read and write, of the function that syncs a descriptor, and of the
    one that returns the address of errno. request: int64[1], the number of the last request in the high 32
    bits, its descriptor in the low ones. answer: int64[1], the number of the request that ended last, and its
    errno or 0. Each is written in one step, so no thread sees half of it. stop: int64[1], not 0 when this is
    to return. count: int64[1], 1 at first, at the address count_at: for the values of the eventfds.
    asked: the eventfd that wakes this loop; one wake-up too many is harmless. ended: the one that is written
    after each answer. After a failure nothing is synced: each further request is answered with that errno.
    """
    read, write, sync, errno_location = functions[0], functions[1], functions[2], functions[3]
    error = np.int64(0)
    while stop[0] == 0:
        call_address(read, asked, count_at, 8)
        while request[0] >> 32 != answer[0] >> 32:
            taken = request[0]
            while error == 0 and np.int32(call_address(sync, taken & _LOW, 0, 0)) != 0:
                error = np.int64(int_at(call_address(errno_location, 0, 0, 0)))
                if error == EINTR:
                    error = np.int64(0)
            answer[0] = (taken >> 32 << 32) | error
            call_address(write, ended, count_at, 8)
