"""Waits in the standard library: what comes out of one that is interrupted, and of one that fails."""

import itertools
import threading
from concurrent.futures import Future
from functools import partial

import pytest

from mqstore.store.threads.library_wait import wait_in_library
from support.crash.interrupt_storm import Strike, Struck


def test_it_returns_and_raises_what_the_wait_does() -> None:
    done: Future[int] = Future()
    done.set_result(7)
    assert wait_in_library(done.result) == 7
    with pytest.raises(TimeoutError):
        wait_in_library(partial(Future[int]().result, 0))


def test_an_interrupt_comes_out_as_itself() -> None:
    """At every place of a wait for a future and for an event: nothing but what the handler raised."""
    for make_wait in (lambda: Future[int]().result, lambda: threading.Event().wait):
        for place in itertools.count(1):
            strike = Strike(place)
            wait = partial(make_wait(), 0.001)
            try:
                with strike:
                    wait_in_library(wait)
            except (Struck, TimeoutError):
                pass
            if not strike.has_struck:
                break
        assert place > 5


def test_an_error_of_the_outcome_stays_what_it_is() -> None:
    """It is no interrupt, although another exception came before it."""
    failed: Future[int] = Future()
    error = RuntimeError("cannot schedule new futures")
    error.__context__ = ValueError("before")
    failed.set_exception(error)
    with pytest.raises(RuntimeError, match="cannot schedule"):
        wait_in_library(failed.result)


def test_what_is_handled_around_the_wait_is_no_interrupt() -> None:
    lock = threading.RLock()
    try:
        raise ValueError("handled")
    except ValueError:
        with pytest.raises(RuntimeError, match="un-acquired"):
            wait_in_library(lock.release)
