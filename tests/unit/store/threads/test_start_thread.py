"""The start of a thread: what an interrupt of it leaves, and the answer where no thread can be started."""

import itertools
import threading
from collections.abc import Iterator

import pytest

from mqstore.store.threads.start_thread import start_thread
from support.crash.interrupt_storm import Strike, Struck


@pytest.fixture
def quick_threads() -> Iterator[list[threading.Thread]]:
    """Threads of a test, all of which end."""
    threads: list[threading.Thread] = []
    yield threads
    for thread in threads:
        if thread.ident is not None:
            thread.join(10)
            assert not thread.is_alive(), "a thread never began"


def test_an_interrupt_at_any_place_lets_the_thread_run(quick_threads: list[threading.Thread]) -> None:
    """In the main thread, as Ctrl-C comes; a thread that never began would keep the process from ending."""
    assert threading.current_thread() is threading.main_thread()
    for place in itertools.count(1):
        ran: list[int] = []
        thread = threading.Thread(target=ran.append, args=(place,))
        quick_threads.append(thread)
        strike = Strike(place)
        try:
            with strike:
                start_thread(thread)
        except Struck:
            pass
        if not strike.has_struck:
            thread.join(10)
            assert ran == [place]
            break
    assert place > 5


def test_another_thread_starts_one_too(quick_threads: list[threading.Thread]) -> None:
    """Without a detour, as no handler runs there."""
    ran: list[int] = []
    inner = threading.Thread(target=lambda: ran.append(threading.get_ident()))
    quick_threads.append(inner)
    outer = threading.Thread(target=start_thread, args=(inner,))
    assert start_thread(outer)
    outer.join(10)
    inner.join(10)
    assert ran == [inner.ident]


def test_no_thread_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the limit is met."""

    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert not start_thread(threading.Thread(target=int))
    monkeypatch.undo()
    monkeypatch.setattr("_thread.start_new_thread", refuse)
    assert not start_thread(threading.Thread(target=int))


def test_an_error_of_a_handler_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers raise what they want."""

    def interrupted(*_: object) -> int:
        raise RuntimeError("a handler's own")

    monkeypatch.setattr("_thread.start_new_thread", interrupted)
    with pytest.raises(RuntimeError, match="a handler's own"):
        start_thread(threading.Thread(target=int))


def test_any_other_error_of_the_start_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a lack of memory. Nobody waits for a thread that has failed."""

    def fail(_: threading.Thread) -> None:
        raise MemoryError("no stack")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(MemoryError, match="no stack"):
        start_thread(threading.Thread(target=int))
