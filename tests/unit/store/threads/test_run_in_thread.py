"""A call beside its caller: its result comes back, and its error too."""

import itertools
import threading
import time

import pytest

from mqstore.store.threads.run_in_thread import run_in_thread
from support.crash.interrupt_storm import Strike, Struck


def test_the_result_comes_from_another_thread() -> None:
    """Which has ended by then, or is about to."""
    assert run_in_thread(threading.get_ident).result() != threading.get_ident()


def test_what_it_raises_is_raised_where_the_result_is_asked_for() -> None:
    """Whatever it is."""
    future = run_in_thread(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        future.result()


def test_without_a_thread_the_caller_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the number of threads is limited: slower, and no error."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert run_in_thread(threading.get_ident).result() == threading.get_ident()


def test_a_limit_met_while_an_error_is_handled_is_no_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is done by the caller; the error is its own affair."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    try:
        raise ValueError("handled")
    except ValueError:
        assert run_in_thread(threading.get_ident).result() == threading.get_ident()


def test_an_interrupt_of_a_wait_is_no_other_error() -> None:
    """At every place of it, as Ctrl-C may come."""
    for place in itertools.count(1):
        strike = Strike(place)
        call = run_in_thread(lambda: time.sleep(0.01))
        try:
            with strike:
                call.result()
        except Struck:
            call.wait()
        if not strike.has_struck:
            break
    assert place > 3
