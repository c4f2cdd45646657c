"""The compiled loop that syncs many files, over functions of C that the test plays.

The loop that serves timed syncs is tested with its caller (test_timed_sync.py).
"""

import ctypes
import errno
import os

import numpy as np
import pytest

from mqstore.store.files import sync_kernels


class CFiles:
    """C's open, fdatasync, close and errno, as a test wants them: what was called, and what fails."""

    def __init__(self, failures: dict[str, int]) -> None:
        """failures: errno by call, such as "open b" or "sync b"."""
        self.calls: list[str] = []
        self._failures = failures
        self._errno = ctypes.c_int(0)
        word, number = ctypes.c_long, ctypes.c_int
        self._kept = (
            ctypes.CFUNCTYPE(number, ctypes.c_char_p, number)(self._open),
            ctypes.CFUNCTYPE(number, number)(lambda descriptor: self._call("sync", chr(descriptor))),
            ctypes.CFUNCTYPE(number, number)(lambda descriptor: self._call("close", chr(descriptor))),
            ctypes.CFUNCTYPE(word)(lambda: ctypes.addressof(self._errno)),
        )
        addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in self._kept]
        self.functions = np.array(addresses, np.int64)

    def _call(self, what: str, name: str) -> int:
        self.calls.append(f"{what} {name}")
        # What close does to errno is of no interest.
        self._errno.value = self._failures.get(f"{what} {name}", 99)
        return -1 if f"{what} {name}" in self._failures else 0

    def _open(self, path: bytes, flags: int) -> int:
        assert flags == os.O_RDWR
        return -1 if self._call("open", path.decode()) else ord(path)


@pytest.mark.parametrize(
    ("failures", "calls", "answer"),
    [
        ({}, "open a, sync a, close a, open b, sync b, close b, open c, sync c, close c", (3, 0)),
        ({"open b": errno.ENOENT}, "open a, sync a, close a, open b, open c, sync c, close c", (3, 0)),
        ({"open b": errno.EMFILE}, "open a, sync a, close a, open b", (1, errno.EMFILE)),
        ({"sync b": errno.EIO}, "open a, sync a, close a, open b, sync b, close b", (1, errno.EIO)),
    ],
)
def test_files_are_synced_one_after_the_other(
    failures: dict[str, int], calls: str, answer: tuple[int, int]
) -> None:
    """A missing one is passed over; nothing is touched after a failure, and no descriptor stays open."""
    files = CFiles(failures)
    paths = (ctypes.c_char_p * 3)(b"a", b"b", b"c")
    outcome = np.full(2, 99, np.int64)
    sync_kernels.sync_files(files.functions, np.frombuffer(paths, np.int64), os.O_RDWR, outcome)
    assert tuple(outcome.tolist()) == answer
    assert files.calls == calls.split(", ")


def test_functions_of_c_are_found_by_name() -> None:
    """One that C does not have is an error, and not an address to jump to."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    (close,) = sync_kernels.c_functions("close")
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(int(close))(descriptor) == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(descriptor)
    with pytest.raises(AttributeError):
        sync_kernels.c_functions("close", "no such function")
