"""The thread of a broker: when it starts, what wakes it, and that it ends. Its work notes each step."""

import math
import threading
from collections.abc import Callable, Iterator

import pytest

from mqstore.broker import wake_up_thread as wake_up_thread_module
from mqstore.broker.wake_up_thread import WakeUpThread
from mqstore.store.threads import auto_reset_event
from mqstore.store.threads import run_in_thread as run_in_thread_module
from mqstore.store.threads.auto_reset_event import AutoResetEvent
from support.disks.interrupts import interrupted_at


class Work:
    """Counts its steps; `step` is released by each."""

    def __init__(self) -> None:
        self.event = AutoResetEvent()
        self.due_s = math.inf
        self.is_done = False
        self.step = threading.Semaphore(0)
        self.thread_names: list[str] = []
        self.end_count = 0
        self.during: Callable[[], None] = lambda: None

    def run_once(self) -> None:
        self.thread_names.append(threading.current_thread().name)
        self.during()
        self.step.release()

    def end(self) -> None:
        self.end_count += 1


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert "mqstore broker" not in [thread.name for thread in threading.enumerate()]


def test_each_event_is_one_step_of_one_thread(work: Work) -> None:
    """However often it is started; the thread is a daemon, which keeps no program alive."""
    thread = WakeUpThread("mqstore broker", work)
    assert repr(thread) == "WakeUpThread('mqstore broker', not started)"
    for _ in range(3):
        thread.start()
        work.event.set()
        assert work.step.acquire(timeout=60)
    running = [thread for thread in threading.enumerate() if thread.name == "mqstore broker"]
    assert [thread.daemon for thread in running] == [True]
    assert repr(thread) == "WakeUpThread('mqstore broker', running)"
    thread.close()
    assert work.end_count == 1
    assert set(work.thread_names) == {"mqstore broker"}
    assert repr(thread) == "WakeUpThread('mqstore broker', closing)"


def test_a_step_is_taken_when_its_time_has_come(work: Work) -> None:
    """Without any event."""
    work.due_s = 0.0

    def wait_no_more() -> None:
        work.due_s = math.inf

    work.during = wait_no_more
    thread = WakeUpThread("mqstore broker", work)
    thread.start()
    assert work.step.acquire(timeout=60)
    thread.close()
    assert work.end_count == 1


def test_many_that_start_it_at_once_get_one_thread(work: Work) -> None:
    """All of them pull for the first time."""
    wake_up = WakeUpThread("mqstore broker", work)
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait(60)
        wake_up.start()

    starters = [threading.Thread(target=start) for _ in range(8)]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join(60)
    assert [thread.name for thread in threading.enumerate()].count("mqstore broker") == 1
    wake_up.close()
    assert work.end_count == 1


def test_it_ends_with_its_work(work: Work) -> None:
    """And does not start again: closing finds nothing to do."""
    thread = WakeUpThread("mqstore broker", work)
    thread.start()
    ended = next(thread for thread in threading.enumerate() if thread.name == "mqstore broker")
    work.is_done = True
    work.event.set()
    ended.join(60)
    thread.start()
    thread.close()
    assert work.end_count == 1


def test_a_close_without_a_start_ends_the_work(work: Work) -> None:
    """In the thread that closes; there will be no other."""
    thread = WakeUpThread("mqstore broker", work)
    thread.close()
    thread.start()
    thread.close()
    assert (work.end_count, work.thread_names) == (1, [])


def test_a_step_may_close_it(work: Work) -> None:
    """A client that stops in a callback: the thread does not wait for itself."""
    thread = WakeUpThread("mqstore broker", work)
    closed = threading.Event()

    def close() -> None:
        thread.close()
        closed.set()

    work.during = close
    thread.start()
    work.event.set()
    assert closed.wait(60)
    thread.close()
    assert work.end_count == 1


def test_a_want_of_threads_is_an_error(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pull that would have waited is refused; the next one may be luckier."""
    monkeypatch.setattr(wake_up_thread_module, "start_thread", lambda thread: False)
    thread = WakeUpThread("mqstore broker", work)
    with pytest.raises(RuntimeError, match="the thread 'mqstore broker' cannot be started"):
        thread.start()
    monkeypatch.undo()
    thread.start()
    work.event.set()
    assert work.step.acquire(timeout=60)
    thread.close()


def test_ctrl_c_leaves_one_thread_or_none() -> None:
    """Between any two lines of a start: the next start has one thread at work, and closing ends it."""
    modules = (wake_up_thread_module, run_in_thread_module)
    place, was_interrupted = 0, True
    while was_interrupted:
        place += 1
        work = Work()
        thread = WakeUpThread("mqstore broker", work)
        was_interrupted = interrupted_at(place, modules, thread.start)
        thread.start()
        work.event.set()
        assert work.step.acquire(timeout=60), place
        thread.close()
        assert work.end_count == 1
    assert place > 1


def test_a_close_that_was_interrupted_can_be_called_again() -> None:
    """The thread ends all the same."""
    modules = (wake_up_thread_module, auto_reset_event)
    place, was_interrupted = 0, True
    while was_interrupted:
        place += 1
        work = Work()
        thread = WakeUpThread("mqstore broker", work)
        thread.start()
        work.event.set()
        assert work.step.acquire(timeout=60), place
        was_interrupted = interrupted_at(place, modules, thread.close)
        thread.close()
        assert work.end_count == 1, place
    assert place > 1


def test_an_interrupted_close_without_a_start_ends_the_work_later() -> None:
    """Whoever waits for it is answered by the second close at the latest."""
    place, was_interrupted = 0, True
    while was_interrupted:
        place += 1
        work = Work()
        thread = WakeUpThread("mqstore broker", work)
        was_interrupted = interrupted_at(place, (wake_up_thread_module,), thread.close)
        thread.close()
        assert work.end_count >= 1, place
    assert place > 1


def test_an_end_in_its_own_step_is_not_waited_for(work: Work) -> None:
    """The thread knows that it is the one that asks."""
    thread = WakeUpThread("mqstore broker", work)
    seen: list[bool] = []

    def end_soon() -> None:
        seen.append(thread.is_current)
        thread.end_soon()

    work.during = end_soon
    thread.start()
    work.event.set()
    assert work.step.acquire(timeout=60)
    thread.close()
    assert (seen, thread.is_current, work.end_count) == ([True], False, 1)
