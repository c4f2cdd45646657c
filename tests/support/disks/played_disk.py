"""A disk whose timed syncs take as long as the test likes: functions of C in place of fdatasync and errno."""

import ctypes
import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from mqstore.store.files import sync_kernels

__all__ = ["PlayedDisk", "threads_that_sync_from_now"]


class PlayedDisk:
    """Syncs nothing. It must outlive the threads that call its functions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Those that call its functions.
        self.threads = threads_that_sync_from_now()
        self.synced: list[int] = []
        self.error_number = 0
        self.goes_on = threading.Event()
        self.goes_on.set()
        # Called in the thread that syncs, before it waits.
        self.on_sync: Callable[[], object] = lambda: None
        self._errno = ctypes.c_int(0)
        self._sync = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(self._sync_descriptor)
        self._tell = ctypes.CFUNCTYPE(ctypes.c_long)(lambda: ctypes.addressof(self._errno))
        self._c_functions = sync_kernels.c_functions
        monkeypatch.setattr(sync_kernels, "c_functions", self._functions)

    def _functions(self, *names: str) -> npt.NDArray[np.int64]:
        assert names == ("read", "write", "fdatasync", "__errno_location")
        played = (ctypes.cast(function, ctypes.c_void_p).value for function in (self._sync, self._tell))
        return np.array([*self._c_functions("read", "write"), *played], np.int64)

    def _sync_descriptor(self, descriptor: int) -> int:
        self.on_sync()
        assert self.goes_on.wait(60)
        self.synced.append(descriptor)
        self._errno.value = self.error_number
        return -1 if self.error_number else 0


def threads_that_sync_from_now() -> Callable[[], list[threading.Thread]]:
    """Gives the threads of timed syncs that were started since.

    A store that another test forgot has its thread until garbage is collected.
    """
    others = _threads_that_sync()
    return lambda: [thread for thread in _threads_that_sync() if thread not in others]


def _threads_that_sync() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mqstore sync"]
