"""A service: its step again and again on a thread of its own, errors kept, an end when asked for."""

import threading

import pytest

from mqstore.store.threads import service as service_module
from mqstore.store.threads.service import Service
from support.disks.interrupts import interrupted_at

LONG_MS = 3_600_000


def test_nothing_runs_before_start() -> None:
    """Making one makes no thread."""
    before = threading.active_count()
    service = Service("test", 1, lambda: pytest.fail("must not run"))
    assert threading.active_count() == before
    service.stop()


def test_it_runs_every_period() -> None:
    """Until it is stopped."""
    ran = threading.Semaphore(0)
    service = Service("test", 1, ran.release)
    service.start()
    for _ in range(3):
        assert ran.acquire(timeout=60)
    service.stop()


def test_waking_runs_it_now() -> None:
    """However long the period; on a daemon thread with the service's name."""
    names: list[tuple[str, bool]] = []
    ran = threading.Semaphore(0)

    def step() -> None:
        names.append((threading.current_thread().name, threading.current_thread().daemon))
        ran.release()

    service = Service("test", LONG_MS, step)
    service.start()
    service.wake()
    assert ran.acquire(timeout=60)
    service.stop()
    assert names == [("mqstore-test", True)]


def test_an_error_is_kept_and_the_next_step_runs() -> None:
    """And is forgotten once a step succeeds."""
    outcomes: list[Exception | None] = [ValueError("first"), None]
    ran = threading.Semaphore(0)

    def step() -> None:
        ran.release()
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    service = Service("test", LONG_MS, step)
    service.start()
    service.wake()
    assert ran.acquire(timeout=60)
    while service.error is None:
        pass
    assert repr(service) == "Service('test', error=ValueError('first'))"
    service.wake()
    assert ran.acquire(timeout=60)
    service.stop()
    assert service.error is None


def test_stop_waits_for_the_running_step() -> None:
    """What it does is finished when `stop` returns."""
    entered, leave = threading.Event(), threading.Event()
    done: list[bool] = []

    def step() -> None:
        entered.set()
        assert leave.wait(60)
        done.append(True)

    service = Service("test", LONG_MS, step)
    service.start()
    service.wake()
    assert entered.wait(60)
    stopper = threading.Thread(target=service.stop)
    stopper.start()
    assert not done
    leave.set()
    stopper.join(60)
    assert done == [True]


def test_a_step_may_stop_its_own_service() -> None:
    """It does not wait for itself."""
    stopped = threading.Event()
    services: list[Service] = []

    def step() -> None:
        services[0].stop()
        stopped.set()

    services.append(Service("test", LONG_MS, step))
    services[0].start()
    services[0].wake()
    assert stopped.wait(60)


def test_it_can_be_stopped_twice() -> None:
    """Before and after its thread has ended."""
    service = Service("test", LONG_MS, lambda: None)
    service.start()
    service.stop()
    service.stop()


def test_a_thread_that_cannot_be_made_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the start is the one that is told."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    service = Service("test", 1, lambda: None)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="cannot be started"):
            service.start()
    service.stop()


def test_ctrl_c_while_it_is_woken_leaves_one_that_can_be_woken_and_stopped() -> None:
    """Between any two lines, those of the standard library among them: no lock may stay taken."""
    line, was_interrupted = 0, True
    while was_interrupted:
        line += 1
        ran = threading.Semaphore(0)
        service = Service("test", LONG_MS, ran.release)
        service.start()
        was_interrupted = interrupted_at(line, (threading, service_module), service.wake)
        again = threading.Thread(target=service.wake, daemon=True)
        again.start()
        assert ran.acquire(timeout=10), line
        stopper = threading.Thread(target=service.stop, daemon=True)
        stopper.start()
        stopper.join(10)
        assert not stopper.is_alive(), line
