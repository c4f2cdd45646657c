"""Compiled loops that sync files: system calls with no Python between them, which release the GIL.

The functions of C are arguments: their addresses, from `c_functions`. `sync_files` runs in the
caller's thread and syncs many files. `serve_syncs` is what the thread of a timed sync does (timed_sync.py).
Import this module inside the function that first needs it; compiled code is cached on disk.
"""

import ctypes
from errno import EINTR, ENOENT
from typing import Final

import numpy as np
import numpy.typing as npt

from mqstore.store.atomic_kernels import exchange, load, pause, store
from mqstore.store.byte_kernels import call_address, int_at
from mqstore.store.compiled import compiled, compiled_into_caller
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


# -- timed syncs ----------------------------------------------------------------------------------------

# What the thread that syncs and its callers share: words of memory, by their number. Each group has a cache
# line of its own, because the other side looks at one word again and again.
_WORD_COUNT = 48
# Written before the thread starts. The addresses of C's functions, the two eventfds, whether to look for a
# while before sleeping, and a struct pollfd of the second eventfd.
C_FUNCTIONS: Final = ("read", "write", "poll", "clock_gettime", "fdatasync", "__errno_location")
_READ, _WRITE, _POLL, _CLOCK, _SYNC, _ERRNO = range(6)
ASKED: Final = 6
ENDED: Final = 7
LOOKS: Final = 8
POLLED: Final = 9
ONE: Final = 10
# Written by the callers. The number of the last request in the high 32 bits, its descriptor in the low ones;
# whether the thread is to end; whether a caller sleeps, which the thread takes back.
REQUEST: Final = 16
STOP: Final = 17
_IS_AWAITED: Final = 18
# Written by the thread. The number of the request that ended last, and its errno or 0; whether the thread
# sleeps, which a caller takes back; how long a sync takes, in ns.
ANSWER: Final = 24
_IS_ASLEEP: Final = 25
_SYNC_NS: Final = 26
# Of one side alone: for clock_gettime, for what is read from an eventfd, and how often not to look.
_CALLERS: Final = 32
_THREADS: Final = 40
_TIME, _NANOSECONDS, _SINK, _RESTS = range(4)

_CACHE_LINE_BYTES = 64
_LAST_NUMBER = np.int64(0x7FFFFFFF)
_CLOCK_MONOTONIC = 1
# A look that was in vain has cost as much as the wake-up that it was to save. So nobody looks for the end of
# syncs that are slower, or for a request that comes later.
_LONGEST_SYNC_NS = 300_000
_LONGEST_GAP_NS = 100_000
# If so much passes between two looks at the clock, another thread had the processor, and needs it.
_TAKEN_NS = 30_000
_RESTS_AFTER_VAIN = 32
_LOOKS_A_TIME = 16


def shared_words() -> npt.NDArray[np.int64]:
    """The words with the functions of C, and otherwise zeros."""
    spare = np.zeros(_WORD_COUNT + _CACHE_LINE_BYTES // 8, np.int64)
    start = -spare.ctypes.data % _CACHE_LINE_BYTES // 8
    words = spare[start : start + _WORD_COUNT]
    words[: len(C_FUNCTIONS)] = c_functions(*C_FUNCTIONS)
    words[ONE] = 1
    return words


@compiled_into_caller
def _word(words, number):  # type: ignore[no-untyped-def]
    return load(words + np.int64(8) * number)


@compiled_into_caller
def _set_word(words, number, value):  # type: ignore[no-untyped-def]
    store(words + np.int64(8) * number, np.int64(value))


@compiled_into_caller
def _take_back(words, number):  # type: ignore[no-untyped-def]
    """Whether the word was set; it is not any more."""
    return exchange(words + np.int64(8) * number, np.int64(0)) != 0


@compiled_into_caller
def _is_idle(words):  # type: ignore[no-untyped-def]
    """Whether the last request has ended."""
    return _word(words, REQUEST) >> 32 == _word(words, ANSWER) >> 32


@compiled
def _now_ns(words, own):  # type: ignore[no-untyped-def]
    call_address(_word(words, _CLOCK), _CLOCK_MONOTONIC, words + np.int64(8) * (own + _TIME), 0)
    return _word(words, own + _TIME) * 1_000_000_000 + _word(words, own + _NANOSECONDS)


@compiled
def _look(words, own, is_idle, longest_ns):  # type: ignore[no-untyped-def]
    """Look again and again, without sleeping, until the last request has ended, or (is_idle: False) until there is one.

    Whether it came to that. If not, this side does not look the next times.
    """
    rests = _word(words, own + _RESTS)
    if rests > 0:
        _set_word(words, own + _RESTS, rests - 1)
        return False
    begun_ns = last_ns = _now_ns(words, own)
    while True:
        for _ in range(_LOOKS_A_TIME):
            if _is_idle(words) == is_idle:
                return True
            pause()
        now_ns = _now_ns(words, own)
        if now_ns - last_ns > _TAKEN_NS or now_ns - begun_ns > longest_ns:
            _set_word(words, own + _RESTS, _RESTS_AFTER_VAIN)
            return False
        last_ns = now_ns


@compiled(INT64, INT64, INT64)
def ask_for_sync(words, descriptor, timeout_ns):  # type: ignore[no-untyped-def]
    """Request a sync, and wait for its end as long as one may, or until a signal comes.

    words: the address of the shared words. descriptor: -1 to wait for the end of the last request. The caller
    looks at the words to see whether it has ended.
    """
    if descriptor >= 0:
        number = ((_word(words, REQUEST) >> 32) + 1) & _LAST_NUMBER
        _set_word(words, REQUEST, number << 32 | descriptor)
    if _take_back(words, _IS_ASLEEP):
        call_address(_word(words, _WRITE), _word(words, ASKED), words + 8 * ONE, 8)
    sync_ns = _word(words, _SYNC_NS)
    if _word(words, LOOKS) != 0 and sync_ns < _LONGEST_SYNC_NS:
        if _look(words, _CALLERS, True, min(timeout_ns, _LONGEST_SYNC_NS, 2 * sync_ns + 50_000)):
            return
    _set_word(words, _IS_AWAITED, 1)
    # The thread answers first and then asks who sleeps. So one of the two sees the other.
    if not _is_idle(words):
        timeout_ms = (timeout_ns + 999_999) // 1_000_000
        if np.int32(call_address(_word(words, _POLL), words + 8 * POLLED, 1, timeout_ms)) > 0:
            call_address(_word(words, _READ), _word(words, ENDED), words + 8 * (_CALLERS + _SINK), 8)
    else:
        _take_back(words, _IS_AWAITED)


@compiled
def _await_request(words, gap_ns):  # type: ignore[no-untyped-def]
    """Look, and then sleep, until there may be a request. One wake-up too many is harmless."""
    if _word(words, LOOKS) != 0 and gap_ns < _LONGEST_GAP_NS:
        if _look(words, _THREADS, False, _LONGEST_GAP_NS):
            return
    _set_word(words, _IS_ASLEEP, 1)
    # A caller requests first and then asks whether the thread sleeps. So one of the two sees the other.
    if _is_idle(words) and _word(words, STOP) == 0:
        call_address(_word(words, _READ), _word(words, ASKED), words + 8 * (_THREADS + _SINK), 8)
    _set_word(words, _IS_ASLEEP, 0)


@compiled(INT64)
def serve_syncs(words):  # type: ignore[no-untyped-def]
    """Sync the descriptor of each request, one at a time, until told to stop.

    words: the address of the shared words. After a failure nothing is synced: each further request is
    answered with that errno.
    """
    error = np.int64(0)
    gap_ns = np.int64(0)
    answered_ns = _now_ns(words, _THREADS)
    while True:
        taken = _word(words, REQUEST)
        if taken >> 32 == _word(words, ANSWER) >> 32:
            if _word(words, STOP) != 0:
                return
            _await_request(words, gap_ns)
            continue
        begun_ns = _now_ns(words, _THREADS)
        gap_ns += (min(begun_ns - answered_ns, 4 * _LONGEST_GAP_NS) - gap_ns) // 4
        while error == 0 and np.int32(call_address(_word(words, _SYNC), taken & _LOW, 0, 0)) != 0:
            error = np.int64(int_at(call_address(_word(words, _ERRNO), 0, 0, 0)))
            if error == EINTR:
                error = np.int64(0)
        answered_ns = _now_ns(words, _THREADS)
        sync_ns = _word(words, _SYNC_NS)
        sync_ns += (min(answered_ns - begun_ns, 4 * _LONGEST_SYNC_NS) - sync_ns) // 4
        _set_word(words, _SYNC_NS, sync_ns)
        _set_word(words, ANSWER, (taken >> 32 << 32) | error)
        if _take_back(words, _IS_AWAITED):
            call_address(_word(words, _WRITE), _word(words, ENDED), words + 8 * ONE, 8)
