"""A sync that is given up waiting for: it goes on, its error is told, and the next one waits for its end.

The kernel is played by a function, so that a sync takes as long as the test likes; a real file shows that the
real calls work.
"""

import ctypes
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqstore.store.files import timed_sync
from mqstore.store.files.timed_sync import TimedSync

OK, TIME_UP = 1, 0


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


class Kernel:
    """What io_submit and io_getevents answer, in turn, and the result that the sync has then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sync: TimedSync) -> None:
        self.called: list[str] = []
        self.waits: list[int] = []
        self.result = 0
        self.submitted = OK
        self._sync = sync
        monkeypatch.setattr(timed_sync, "_syscall", self._call)
        monkeypatch.setattr(timed_sync, "_brief_syscall", self._call)

    def _call(self, number: Any, *_: Any) -> int:
        if number is timed_sync._SUBMIT:
            self.called.append("submit")
            return self.submitted
        if number is timed_sync._DESTROY:
            return 0
        self.called.append("wait")
        answer = self.waits.pop(0) if self.waits else OK
        self._sync._event[2] = self.result
        return answer


def test_a_file_is_synced(descriptor: int) -> None:
    """By the kernel, or by a thread where it has no asynchronous I/O; as often as one likes."""
    sync = TimedSync()
    for _ in range(3):
        os.write(descriptor, b"bytes")
        assert sync.sync(descriptor, 60)
    sync.finish()


def test_a_sync_of_something_else_fails(descriptor: int) -> None:
    """As fdatasync does."""
    reading, writing = os.pipe()
    try:
        for _ in range(2):
            with pytest.raises(OSError, match="Invalid argument"):
                TimedSync().sync(writing, 60)
    finally:
        os.close(reading)
        os.close(writing)


def test_a_sync_under_way_is_ended_before_the_next_begins(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not cover what was written since."""
    sync = TimedSync()
    if sync._context is None:
        pytest.skip("the kernel gives no context for asynchronous I/O here")
    kernel = Kernel(monkeypatch, sync)
    kernel.waits = [TIME_UP, TIME_UP]
    assert not sync.sync(descriptor, 0)
    assert not sync.sync(descriptor, 0)
    assert sync.sync(descriptor, 0)
    assert kernel.called == ["submit", "wait", "wait", "wait", "submit", "wait"]


@pytest.mark.parametrize("ended_by", ["sync", "finish"])
def test_a_late_error_is_told(ended_by: str, descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To whoever comes next, once."""
    sync = TimedSync()
    if sync._context is None:
        pytest.skip("the kernel gives no context for asynchronous I/O here")
    kernel = Kernel(monkeypatch, sync)
    kernel.waits = [TIME_UP]
    assert not sync.sync(descriptor, 0)
    kernel.result = -errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        sync.sync(descriptor, 0) if ended_by == "sync" else sync.finish()
    assert not sync._answers


@pytest.mark.parametrize("why", ["no context", "full queues"])
def test_a_thread_syncs_where_the_kernel_does_not(
    why: str, descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded as well; its error is told too."""
    sync = TimedSync()
    if why == "no context" or sync._context is None:
        sync._context = None
    else:
        Kernel(monkeypatch, sync).submitted = -1
    go_on = threading.Event()

    def fail_slowly(_: int) -> None:
        assert go_on.wait(60)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", fail_slowly)
    assert not sync.sync(descriptor, 0)
    assert not sync.sync(descriptor, 0)
    go_on.set()
    with pytest.raises(OSError, match="Input/output error"):
        sync.finish()
    monkeypatch.undo()
    assert sync.sync(descriptor, 60)


def test_the_request_is_as_the_kernel_reads_it() -> None:
    """struct iocb: operation and descriptor lie at bytes 16 and 20."""
    request = bytes(timed_sync._Request(opcode=3, descriptor=7))
    assert (len(request), request[16:18], request[20:24]) == (64, b"\3\0", b"\7\0\0\0")
    assert ctypes.sizeof(timed_sync._Time) == 16
