"""A call beside its caller: its result comes back, and its error too."""

import threading

import pytest

from mqstore.store.threads.run_in_thread import run_in_thread


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
