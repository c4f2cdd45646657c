"""The bounded executor: order, the limit, the end. Calls meet the test by events; nothing sleeps."""

import os
import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from mqstore.store.threads import bounded_executor
from mqstore.store.threads.bounded_executor import BoundedExecutor


@pytest.fixture
def executor() -> Iterator[BoundedExecutor]:
    made = BoundedExecutor("test", max_threads=1, capacity=2)
    yield made
    made.close()


class Gate:
    """A call that begins, and ends when the test says so."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.opens = threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.opens.wait(60)


def threads_of(name: str) -> list[str]:
    return sorted(
        thread.name for thread in threading.enumerate() if thread.name.startswith(f"mqstore-{name}-")
    )


def test_calls_run_in_their_order(executor: BoundedExecutor) -> None:
    """One thread takes them one after the other; close waits for all of them."""
    gate, done = Gate(), []
    executor.submit(gate)
    gate.begun.wait(60)
    assert executor.submit(lambda: done.append(1))
    assert executor.submit(lambda: done.append(2))
    gate.opens.set()
    executor.close()
    assert done == [1, 2]


def test_beyond_its_capacity_a_call_is_rejected(executor: BoundedExecutor) -> None:
    """Two may wait; a third is not taken."""
    gate = Gate()
    executor.submit(gate)
    gate.begun.wait(60)
    assert [executor.submit(gate) for _ in range(3)] == [True, True, False]
    assert executor.waiting == 2
    gate.opens.set()


def test_threads_start_as_calls_come() -> None:
    """No thread before the first call; never more than it may have; none after the close."""
    executor = BoundedExecutor("growing", max_threads=2)
    assert threads_of("growing") == []
    gates = [Gate(), Gate(), Gate()]
    executor.submit(gates[0])
    assert threads_of("growing") == ["mqstore-growing-0"]
    executor.submit(gates[1])
    executor.submit(gates[2])
    assert gates[0].begun.wait(60)
    assert gates[1].begun.wait(60)
    assert not gates[2].begun.is_set()
    assert threads_of("growing") == ["mqstore-growing-0", "mqstore-growing-1"]
    for gate in gates:
        gate.opens.set()
    executor.close()
    assert threads_of("growing") == []
    assert gates[2].begun.is_set()


def test_an_idle_thread_is_used_again() -> None:
    """Calls that come one after the other need one thread."""
    executor = BoundedExecutor("idle", max_threads=8)
    done: SimpleQueue[int] = SimpleQueue()
    for number in range(20):
        executor.submit(lambda number=number: done.put(number))  # type: ignore[misc]
        assert done.get(timeout=60) == number
        while not executor._idle:  # it has put the number, and is about to wait
            threading.Event().wait(0.001)
    assert threads_of("idle") == ["mqstore-idle-0"]
    executor.close()


def test_a_call_that_fails_ends_no_thread(
    executor: BoundedExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the next one runs."""
    done = threading.Event()
    executor.submit(lambda: 1 // 0)
    executor.submit(done.set)
    assert done.wait(60)
    executor.close()
    assert "a call of the executor test failed" in caplog.text


def test_a_closed_one_takes_nothing(executor: BoundedExecutor) -> None:
    """Closing it twice is safe, and so is closing one that was never used."""
    executor.close()
    executor.close()
    assert not executor.submit(lambda: None)


def test_one_of_its_threads_may_close_it() -> None:
    """It ends by itself then."""
    executor = BoundedExecutor("closing", max_threads=1)
    closed = threading.Event()

    def close() -> None:
        executor.close()
        closed.set()

    executor.submit(close)
    assert closed.wait(60)
    for thread in threading.enumerate():
        if thread.name == "mqstore-closing-0":
            thread.join(60)
    assert threads_of("closing") == []


def test_without_any_thread_a_call_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none can be started at all; it does not wait for ever."""
    monkeypatch.setattr(bounded_executor, "start_thread", lambda thread: False)
    executor = BoundedExecutor("none", max_threads=1)
    assert not executor.submit(lambda: None)
    assert executor.waiting == 0


def test_a_forked_child_begins_anew(executor: BoundedExecutor) -> None:
    """The parent's threads are not in it, and its calls are the parent's."""
    done = threading.Event()
    executor.submit(done.set)
    assert done.wait(60)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        ran = threading.Event()
        executor.submit(ran.set)
        os.write(writer, b"ran" if ran.wait(60) else b"not")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"ran"
    os.close(reader)
    os.close(writer)
