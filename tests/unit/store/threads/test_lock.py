"""Locks: no signal handler that raises leaves one taken, wherever it strikes.

Method: a real timer of the system interrupts a thread that does nothing but take and release the lock, so
each place where Python looks for signals is struck many times. On a Python whose `with` has such a place
between the taking and the block, `threading.Lock` fails this test within a few strikes.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from mqstore.store.threads.lock import Lock, RLock, SafeLock, SafeRLock

STRIKES = 300
KINDS = pytest.mark.parametrize(
    "make", [Lock, RLock, SafeLock, SafeRLock], ids=["Lock", "RLock", "SafeLock", "SafeRLock"]
)


class Struck(Exception):
    """What the handler raises."""


@pytest.fixture(autouse=True)
def _struck() -> Iterator[None]:
    def strike(_number: int, _frame: FrameType | None) -> None:
        raise Struck

    before = signal.signal(signal.SIGALRM, strike)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def is_free(lock: Any) -> bool:
    """Whether another thread can have it."""
    had: list[bool] = []

    def take() -> None:
        had.append(lock.acquire(blocking=False))
        if had[0]:
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return had[0]


@KINDS
def test_no_interrupt_leaves_it_taken(make: Callable[[], Any]) -> None:
    lock = make()
    for at in range(STRIKES):
        with pytest.raises(Struck):  # noqa: PT012 - it strikes anywhere in it
            signal.setitimer(signal.ITIMER_REAL, 1e-5 * (1 + at % 7))
            while True:
                with lock:
                    pass
        assert is_free(lock), at


@KINDS
def test_an_interrupted_wait_has_not_taken_it(make: Callable[[], Any]) -> None:
    """The holder still has it, and after it anybody."""
    lock, is_taken, is_over = make(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_taken.set()
            is_over.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    is_taken.wait()
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    with pytest.raises(Struck):
        lock.__enter__()
    assert not is_free(lock)
    is_over.set()
    holder.join()
    assert is_free(lock)


@KINDS
def test_it_is_released_whatever_ends_the_block(make: Callable[[], Any]) -> None:
    """By an error, by leaving a loop, or to its end."""
    lock = make()
    with suppress(KeyError), lock:
        assert not is_free(lock)
        raise KeyError
    assert is_free(lock)
    for _ in range(2):
        with lock:
            break
    assert is_free(lock)


@pytest.mark.parametrize("make", [RLock, SafeRLock])
def test_its_thread_takes_a_reentrant_one_again(make: Callable[[], Any]) -> None:
    lock = make()
    with lock, lock:
        assert not is_free(lock)
    assert is_free(lock)


@pytest.mark.parametrize("make", [Lock, SafeLock])
def test_acquire_and_locked_are_those_of_a_lock(make: Callable[[], Any]) -> None:
    lock = make()
    assert lock.acquire()
    assert not lock.acquire(False)
    assert not lock.acquire(True, 0.001)
    assert lock.locked()
    lock.release()
    assert not lock.locked()
    with pytest.raises(RuntimeError):
        lock.release()
