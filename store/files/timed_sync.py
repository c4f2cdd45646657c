"""A sync that is not waited for longer than asked: fdatasync by the kernel's asynchronous I/O.

A thread that calls fdatasync cannot be woken before the disk answers, be it a minute. So the sync is handed
to the kernel (io_submit, IOCB_CMD_FDSYNC), and its end is waited for (io_getevents) as long as the caller
likes. To hand it to another thread of Python would cost a quarter of a sync of a quick disk; this costs next
to nothing (docs/decisions/0017-a-put-waits-no-longer-than-it-says.md). Where the kernel or a sandbox has no
asynchronous I/O, a thread is taken all the same.

One sync at a time is under way; whoever calls next waits for its end first, and then has the rest synced.
Threads: one at a time; the caller locks. Durability: when `sync` returned True. An error is final.
"""

import ctypes
import errno
import os
import platform
import time
from concurrent.futures import Future, wait

from mqstore.store.threads.run_in_thread import run_in_thread

__all__ = ["TimedSync"]

# Of io_setup, io_destroy, io_submit and io_getevents.
_NUMBERS = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4)}.get(platform.machine())
_SETUP, _DESTROY, _SUBMIT, _WAIT = map(ctypes.c_long, _NUMBERS or (0, 0, 0, 0))
_ONE = ctypes.c_long(1)
_FDSYNC = 3

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
# Keeps the interpreter's lock, for which many may queue: what it calls hands the sync over and returns.
_brief_syscall = ctypes.PyDLL(None).syscall
_brief_syscall.restype = ctypes.c_long


class _Request(ctypes.Structure):
    """struct iocb of 64-bit Linux, little-endian."""

    _fields_ = (
        *(("data", ctypes.c_uint64), ("key", ctypes.c_uint32), ("flags_of_write", ctypes.c_int32)),
        *(("opcode", ctypes.c_uint16), ("priority", ctypes.c_int16), ("descriptor", ctypes.c_uint32)),
        *(("buffer", ctypes.c_uint64), ("length_bytes", ctypes.c_uint64), ("offset", ctypes.c_int64)),
        *(("reserved", ctypes.c_uint64), ("flags", ctypes.c_uint32), ("event_descriptor", ctypes.c_uint32)),
    )


class _Time(ctypes.Structure):
    """struct timespec."""

    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


assert ctypes.sizeof(_Request) == 64


class TimedSync:
    """Syncs one file."""

    def __init__(self) -> None:
        # Given by the kernel for the first sync; None where it gives none.
        self._context = _new_context()
        self._process_id = os.getpid()
        self._request = _Request(opcode=_FDSYNC)
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        # One io_event: data, object, result, and a second result.
        self._event = (ctypes.c_int64 * 4)()
        self._time = _Time()
        # The arguments of both calls, as `map` takes them: to make them costs as much as the calls.
        self._submit = (_SUBMIT,), (self._context,), (_ONE,), (self._requests,)
        self._wait = (_WAIT,), (self._context,), (_ONE,), (_ONE,), (self._event,), (ctypes.byref(self._time),)
        # What the kernel answered to io_submit, 1 when the sync is under way, and then to each io_getevents,
        # 1 when it was over. Empty when nothing is to be learnt of it any more. Added to by single calls
        # of C, so that an interrupt (Ctrl-C) leaves nothing untold.
        self._answers: list[int] = []
        self._in_thread: Future[None] | None = None

    def sync(self, descriptor: int, timeout_s: float) -> bool:
        """Make all bytes written before this call durable; False when time is up first. Raises OSError."""
        deadline_s = time.monotonic() + timeout_s
        if (self._answers or self._in_thread is not None) and not self._has_ended(deadline_s):
            return False
        if self._context is not None:
            self._request.descriptor = descriptor
            self._answers.extend(map(_brief_syscall, *self._submit))
            if self._answers[0] == 1:
                return self._has_ended(deadline_s)
            # The kernel's queues are full, perhaps.
            self._answers.clear()
        copy = os.dup(descriptor)
        self._in_thread = run_in_thread(lambda: _sync_and_close(copy))
        return self._has_ended(deadline_s)

    def finish(self) -> None:
        """Wait for the end of a sync that is under way, however long it takes. Raises its OSError."""
        while (self._answers or self._in_thread is not None) and not self._has_ended(time.monotonic() + 60):
            pass

    def _has_ended(self, deadline_s: float) -> bool:
        """Whether the sync that is under way ends in time. Raises its OSError."""
        if self._in_thread is not None:
            return self._thread_has_ended(self._in_thread, deadline_s)
        answers = self._answers
        while answers[0] == 1 and 1 not in answers[1:]:
            remaining_s = max(0.0, deadline_s - time.monotonic())
            self._time.s, self._time.ns = int(remaining_s), int(remaining_s % 1 * 1e9)
            answers.extend(map(_syscall, *self._wait))
            if answers[-1] == 0:
                return False
            if answers[-1] < 0 and ctypes.get_errno() != errno.EINTR:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        result = self._event[2] if answers[0] == 1 else 0
        answers.clear()
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return True

    def _thread_has_ended(self, sync: "Future[None]", deadline_s: float) -> bool:
        wait([sync], max(0.0, deadline_s - time.monotonic()))
        if not sync.done():
            return False
        self._in_thread = None
        sync.result()
        return True

    def __del__(self) -> None:
        # A forked child has no contexts.
        if getattr(self, "_context", None) is not None and self._process_id == os.getpid():
            _syscall(_DESTROY, self._context)


def _new_context() -> ctypes.c_ulong | None:
    context = ctypes.c_ulong(0)
    return context if _NUMBERS is not None and _syscall(_SETUP, _ONE, ctypes.byref(context)) == 0 else None


def _sync_and_close(descriptor: int) -> None:
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
