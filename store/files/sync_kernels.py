"""Compiled loops that sync files: system calls with no Python between them, which release the GIL.

The functions of C are arguments: their addresses, from `c_functions`. `sync_files` runs in the
caller's thread and syncs many files. `serve_syncs` is what the thread of a timed sync does (timed_sync.py).
Import this module inside the function that first needs it; compiled code is cached on disk.
"""

import ctypes
from errno import EINTR, ENOENT

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.extending import intrinsic

from mqstore.store.compiled import compiled

__all__ = ["c_functions", "serve_syncs", "sync_files"]

_LONG = numba.types.int64
_LONGS = numba.types.int64[::1]
_LOW = np.int64(0xFFFFFFFF)


def c_functions(*names: str) -> npt.NDArray[np.int64]:
    """The addresses of functions of the C library."""
    library = ctypes.CDLL(None)
    addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
    assert all(addresses), names
    return np.array(addresses, np.int64)


@intrinsic
def _call(typing_context, function, first, second, third):  # type: ignore[no-untyped-def]
    """Call the C function at an address with three integers; one that takes fewer does not see the rest."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address, *values = arguments
        kind = context.get_value_type(_LONG)
        target = builder.inttoptr(address, ir.FunctionType(kind, [kind, kind, kind]).as_pointer())
        return builder.call(target, values)

    return _LONG(_LONG, _LONG, _LONG, _LONG), generate


@intrinsic
def _int_at(typing_context, address):  # type: ignore[no-untyped-def]
    """The C int at an address."""
    word = numba.types.int32

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load(builder.inttoptr(arguments[0], context.get_value_type(word).as_pointer()))

    return word(_LONG), generate


@compiled((_LONGS, _LONGS, _LONG, _LONGS))
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
        descriptor = np.int32(_call(open_file, path, flags, 0))
        if descriptor >= 0:
            if np.int32(_call(sync, descriptor, 0, 0)) != 0:
                outcome[1] = _int_at(_call(errno_location, 0, 0, 0))
            _call(close, descriptor, 0, 0)
        else:
            error = np.int64(_int_at(_call(errno_location, 0, 0, 0)))
            outcome[1] = error if error != ENOENT else 0
        if outcome[1] != 0:
            return
        outcome[0] += 1


@compiled((_LONGS, *[_LONGS] * 4, _LONG, _LONG, _LONG))
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
        _call(read, asked, count_at, 8)
        while request[0] >> 32 != answer[0] >> 32:
            taken = request[0]
            while error == 0 and np.int32(_call(sync, taken & _LOW, 0, 0)) != 0:
                error = np.int64(_int_at(_call(errno_location, 0, 0, 0)))
                if error == EINTR:
                    error = np.int64(0)
            answer[0] = (taken >> 32 << 32) | error
            _call(write, ended, count_at, 8)
