"""A timed sync: nobody waits longer than asked, a sync goes on, its error is kept, and its thread ends.

The disk is played by a function of C that waits until the test lets it go on. A real file shows that the real
calls work.
"""

import errno
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from mqstore.store.files import timed_sync
from mqstore.store.files.timed_sync import TimedSync
from support.disks.interrupts import interrupted_at
from support.disks.played_disk import PlayedDisk, threads_that_sync_from_now

HUNG = """
import os, sys
from mqstore.store.files import sync_kernels
from mqstore.store.files.timed_sync import TimedSync

c_functions = sync_kernels.c_functions
sync_kernels.c_functions = lambda read, write, sync, errno: c_functions(read, write, "pause", errno)
timed_sync = TimedSync()
print(timed_sync.sync(os.open("file", os.O_RDWR | os.O_CREAT), 0.01))
# As Python may do at the end, before the object goes.
module = sys.modules[TimedSync.__module__]
module.sys = module.os = None
"""
"""A process whose disk hangs for ever."""


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedDisk]:
    disk = PlayedDisk(monkeypatch)
    yield disk
    disk.goes_on.set()
    # The functions of C must outlive the threads that call them.
    gc.collect()
    assert_comes_true(lambda: not disk.threads())


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def assert_comes_true(claim: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not claim():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def test_a_file_is_synced(descriptor: int) -> None:
    """As often as one likes, by one thread."""
    threads = threads_that_sync_from_now()
    sync = TimedSync()
    for _ in range(3):
        os.write(descriptor, b"bytes")
        assert sync.sync(descriptor, 60)
        assert len(threads()) == 1
    sync.finish()
    sync.close()


def test_a_sync_of_something_else_fails() -> None:
    """As fdatasync does; and for ever, because the first error is final."""
    reading, writing = os.pipe()
    sync = TimedSync()
    try:
        for call in (*[lambda: sync.sync(writing, 60)] * 2, sync.finish):
            with pytest.raises(OSError, match="Invalid argument"):
                call()
        sync.close()
        with pytest.raises(OSError, match="Invalid argument"):
            sync.sync(writing, 60)
    finally:
        os.close(reading)
        os.close(writing)


def test_a_sync_under_way_is_ended_before_the_next_begins(descriptor: int, disk: PlayedDisk) -> None:
    """It may not cover what was written since."""
    sync = TimedSync()
    disk.goes_on.clear()
    for timeout_s in (0, 0, 0.01):
        assert not sync.sync(descriptor, timeout_s)
    disk.goes_on.set()
    sync.finish()
    assert disk.synced == [descriptor]
    disk.goes_on.clear()
    assert not sync.sync(descriptor, 0)
    disk.goes_on.set()
    assert sync.sync(descriptor, 60)
    assert disk.synced == [descriptor] * 3


@pytest.mark.parametrize("ended_by", ["sync", "finish", "close"])
def test_a_late_error_is_raised(ended_by: str, descriptor: int, disk: PlayedDisk) -> None:
    """To the next caller and all after that; nothing is synced any more."""
    sync = TimedSync()
    disk.goes_on.clear()
    disk.error_number = errno.EIO
    assert not sync.sync(descriptor, 0)
    disk.goes_on.set()
    if ended_by == "close":
        sync.close()
    elif ended_by == "finish":
        with pytest.raises(OSError, match="Input/output error"):
            sync.finish()
    assert_comes_true(lambda: bool(disk.synced))
    disk.error_number = 0
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error") as caught:
            sync.sync(descriptor, 60)
        assert caught.value.errno == errno.EIO
    assert disk.synced == [descriptor]


def test_a_sync_that_a_signal_interrupts_is_repeated(descriptor: int, disk: PlayedDisk) -> None:
    """As os.fdatasync does it: EINTR is no answer of the disk."""
    sync = TimedSync()
    disk.goes_on.clear()
    disk.error_number = errno.EINTR
    assert not sync.sync(descriptor, 0)
    disk.goes_on.set()
    assert_comes_true(lambda: len(disk.synced) > 1)
    disk.error_number = 0
    assert sync.sync(descriptor, 60)


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize("error_number", [0, errno.EIO])
def test_ctrl_c_anywhere_loses_no_sync_and_no_error(
    error_number: int, is_started: bool, descriptor: int, disk: PlayedDisk
) -> None:
    """The next call has the disk sync once more, or raises what the interrupted one would have raised."""
    for at in range(1, 1_000):
        sync = TimedSync()
        if is_started:
            disk.error_number = 0
            assert sync.sync(descriptor, 60)
        disk.synced.clear()
        disk.error_number = error_number
        try:
            was_interrupted = interrupted_at(at, (timed_sync,), lambda: sync.sync(descriptor, 60))  # noqa: B023
        except OSError:
            was_interrupted = False
        before = len(disk.synced)
        if error_number:
            # Linux reports it once.
            disk.error_number = 0 if before else error_number
            with pytest.raises(OSError, match="Input/output error"):
                sync.sync(descriptor, 60)
        else:
            assert sync.sync(descriptor, 60), at
            assert len(disk.synced) > before, at
        if not was_interrupted:
            return
    pytest.fail("it never came to an end")


def test_ctrl_c_anywhere_in_a_close_is_made_up_for_by_the_next(descriptor: int, disk: PlayedDisk) -> None:
    """The thread ends, and the next sync has another."""
    for at in range(1, 1_000):
        sync = TimedSync()
        assert sync.sync(descriptor, 60)
        was_interrupted = interrupted_at(at, (timed_sync,), sync.close)
        if at % 2:
            assert sync.sync(descriptor, 60)
        sync.close()
        # One that was replaced ends by itself.
        assert_comes_true(lambda: not disk.threads())
        if not was_interrupted:
            return
    pytest.fail("it never came to an end")


def test_a_signal_handler_may_sync_within_a_sync(descriptor: int, disk: PlayedDisk) -> None:
    """As one that puts while the thread that it interrupted waits for the disk."""
    sync = TimedSync()
    told: list[bool] = []

    def sync_within(number: int, frame: FrameType | None) -> None:
        told.append(sync.sync(descriptor, 0))
        disk.goes_on.set()
        told.append(sync.sync(descriptor, 60))

    before = signal.signal(signal.SIGUSR1, sync_within)
    disk.goes_on.clear()
    disk.on_sync = lambda: (
        None if told else signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
    )
    begun_s = time.monotonic()
    try:
        assert sync.sync(descriptor, 60)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - begun_s < 30
    assert told == [False, True]
    assert len(disk.synced) == 2


def test_the_numbers_of_requests_begin_again(descriptor: int, disk: PlayedDisk) -> None:
    """After 2**31 syncs, a day of a quick disk."""
    sync = TimedSync()
    assert sync.sync(descriptor, 60)
    assert sync._thread is not None
    sync._thread._answer[0] = sync._thread._request[0] = 0x7FFFFFFE << 32
    for _ in range(3):
        assert sync.sync(descriptor, 60)
    assert disk.synced == [descriptor] * 4
    assert sync._thread._request[0] == 1 << 32 | descriptor


@pytest.mark.parametrize("ended_by", ["close", "del"])
def test_the_thread_ends_with_its_owner(ended_by: str, descriptor: int) -> None:
    """And so do its descriptors, at once after `close`; the next sync has another thread."""
    threads = threads_that_sync_from_now()
    sync = TimedSync()
    assert sync.sync(descriptor, 60)
    sync.close()
    before = open_descriptors()
    for _ in range(3):
        assert sync.sync(descriptor, 60)
        assert len(threads()) == 1
        assert open_descriptors() == before + 2
        if ended_by == "close":
            sync.close()
        else:
            sync = TimedSync()
            assert_comes_true(lambda: not threads())
        assert not threads()
        assert_comes_true(lambda: open_descriptors() == before)


def test_a_descriptor_is_not_closed_while_it_is_synced(tmp_path: Path, disk: PlayedDisk) -> None:
    """The thread closes it; one that is not being synced is the caller's."""
    descriptor = os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    sync = TimedSync()
    assert not sync.close_later(descriptor)
    assert sync.sync(descriptor, 60)
    assert not sync.close_later(descriptor)
    disk.goes_on.clear()
    assert not sync.sync(descriptor, 0)
    assert sync.close_later(descriptor)
    del sync
    os.fstat(descriptor)
    disk.goes_on.set()
    assert_comes_true(lambda: not disk.threads())
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.parametrize("lacking", ["threads", "descriptors", "modules"])
def test_without_a_thread_the_caller_syncs(
    lacking: str, descriptor: int, disk: PlayedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes; and a thread does so again once there is one."""

    def lack_threads(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def lack_descriptors(value: int, flags: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    sync = TimedSync()
    synced_by_caller: list[int] = []
    with monkeypatch.context() as lack:
        lack.setattr(os, "fdatasync", synced_by_caller.append)
        if lacking == "threads":
            lack.setattr(threading.Thread, "start", lack_threads)
        elif lacking == "descriptors":
            lack.setattr(os, "eventfd", lack_descriptors)
        else:
            lack.setitem(sys.modules, "mqstore.store.files.sync_kernels", None)
            lack.delattr("mqstore.store.files.sync_kernels")
        for _ in range(2):
            assert sync.sync(descriptor, 0)
    assert (synced_by_caller, disk.synced) == ([descriptor] * 2, [])
    assert sync.sync(descriptor, 60)
    assert disk.synced == [descriptor]


def test_what_a_signal_handler_raises_is_no_lack_of_descriptors(
    descriptor: int, disk: PlayedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alarm's TimeoutError comes out as it is."""

    def interrupted(value: int, flags: int) -> int:
        raise TimeoutError

    sync = TimedSync()
    with monkeypatch.context() as interrupting:
        interrupting.setattr(os, "eventfd", interrupted)
        with pytest.raises(TimeoutError):
            sync.sync(descriptor, 60)
    assert sync.sync(descriptor, 60)


@pytest.mark.parametrize("is_hung", [False, True])
def test_a_forked_child_has_a_thread_of_its_own(is_hung: bool, descriptor: int, disk: PlayedDisk) -> None:
    """It leaves the parent's eventfds alone, and what is under way there."""
    sync = TimedSync()
    assert sync.sync(descriptor, 60)
    if is_hung:
        disk.goes_on.clear()
        assert not sync.sync(descriptor, 0)
    thread = sync._thread
    assert thread is not None
    eventfds = [thread._asked, thread._ended]
    child = os.fork()
    if child == 0:
        try:
            closed = not any(os.path.exists(f"/proc/self/fd/{each}") for each in eventfds)  # noqa: PTH110
            disk.goes_on = threading.Event()
            disk.goes_on.set()
            disk.synced.clear()
            is_synced = sync.sync(descriptor, 60)
            is_own = sync._thread is not thread
            os._exit(0 if closed and is_synced and is_own and disk.synced == [descriptor] else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    disk.goes_on.set()
    assert sync.sync(descriptor, 60)
    assert sync._thread is thread


@pytest.mark.slow
def test_a_hung_sync_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    """The thread ends with it."""
    run = subprocess.run(
        [sys.executable, "-c", HUNG], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "False\n", "")
