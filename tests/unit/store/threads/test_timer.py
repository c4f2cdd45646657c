"""The timer: calls in their time and order, cancelled ones, ones that fail, and the end of its thread."""

import sys
import threading

import pytest

from mqstore.store.threads.timer import TimerThread


class Clock:
    """Seconds, turned by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:  # type: ignore[override]
    return Clock()


class StoodTimer(TimerThread):
    """Whose thread does not start: tests call `run_once`."""

    def _start(self) -> None:
        pass


def test_calls_in_their_time(clock: Clock) -> None:
    """Not before it, in the order of their times, and among equals in that of their coming."""
    timer, made = StoodTimer("timer", clock), []
    for name, delay_ms in (("c", 2_000), ("a", 1_000), ("b", 1_000), ("now", 0)):
        timer.call_later(delay_ms, lambda name=name: made.append(name))  # type: ignore[misc]
    timer.run_once()
    assert made == ["now"]
    assert timer.due_s == 101.0
    clock.now_s = 101.0
    timer.run_once()
    assert made == ["now", "a", "b"]
    clock.now_s = 110.0
    timer.run_once()
    assert made == ["now", "a", "b", "c"]


def test_a_cancelled_call_is_not_made(clock: Clock) -> None:
    """Nor does cancelling one that was made do anything."""
    timer, made = StoodTimer("timer", clock), []
    cancel = timer.call_later(0, lambda: made.append(1))
    timer.call_later(0, lambda: made.append(2))()
    timer.run_once()
    cancel()
    assert made == [1]


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_call_that_fails_is_logged(
    clock: Clock, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    """The others are made."""
    timer, made = StoodTimer("timer", clock), []

    def fail() -> None:
        raise error

    timer.call_later(0, fail)
    timer.call_later(0, lambda: made.append(1))
    timer.run_once()
    assert (made, len(caplog.records)) == ([1], 1)


def test_its_thread() -> None:
    """It starts with the first call, makes calls of calls, and ends."""
    timer, made = TimerThread("a timer"), threading.Event()
    assert not [thread for thread in threading.enumerate() if thread.name == "a timer"]
    timer.call_later(3_600_000, lambda: None)
    timer.call_later(1, lambda: timer.call_later(1, made.set))
    assert made.wait(10)
    assert timer.stop(10)
    assert not [thread for thread in threading.enumerate() if thread.name == "a timer"]
    timer.call_later(0, lambda: sys.exit(1))
    assert not [thread for thread in threading.enumerate() if thread.name == "a timer"]


def test_a_call_that_hangs_does_not_hang_the_stop() -> None:
    """The wait is bounded, and says so."""
    timer, entered, left = TimerThread("a timer"), threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        assert left.wait(10)

    timer.call_later(0, hang)
    assert entered.wait(10)
    assert not timer.stop(0.01)
    left.set()
    assert timer.stop(10)


def test_a_call_may_stop_its_timer() -> None:
    """It does not wait for itself."""
    timer, stopped = TimerThread("a timer"), threading.Event()

    def stop() -> None:
        assert timer.stop(10)
        stopped.set()

    timer.call_later(0, stop)
    assert stopped.wait(10)
    assert timer.stop(10)


def test_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """RuntimeError, and the next call tries again."""
    timer = TimerThread("a timer")
    made = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr("mqstore.store.threads.timer.start_thread", lambda thread: False)
        with pytest.raises(RuntimeError, match="'a timer' cannot be started"):
            timer.call_later(0, lambda: None)
    timer.call_later(0, made.set)
    assert made.wait(10)
    assert timer.stop(10)
