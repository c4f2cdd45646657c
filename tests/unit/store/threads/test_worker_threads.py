"""Worker threads: all items are run, by several threads at a time, whatever they raise; and the end."""

import asyncio
import threading

import pytest

from mqstore.store.threads.worker_threads import WorkerThreads


def test_all_items_are_run() -> None:
    """However they are added, and by as many threads as there may be."""
    lock, seen, done = threading.Lock(), [], threading.Event()

    def run(item: int) -> None:
        with lock:
            seen.append(item)
            if len(seen) == 3_000:
                done.set()

    workers = WorkerThreads("worker", run, 4)

    def add(first: int) -> None:
        for item in range(first, first + 1_000):
            workers.add(item)
            if item % 7 == 0:
                assert workers.wake()
        assert workers.wake()

    adding = [threading.Thread(target=add, args=[first]) for first in (0, 1_000, 2_000)]
    for thread in adding:
        thread.start()
    for thread in adding:
        thread.join()
    assert done.wait(10)
    assert sorted(seen) == list(range(3_000))
    assert workers.stop(10) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("worker-")]


def test_several_at_a_time_and_no_more() -> None:
    """Four begin although none has ended; a fifth item waits for one of them."""
    begun, left = threading.Semaphore(0), threading.Event()

    def run(item: int) -> None:
        begun.release()
        assert left.wait(10)

    workers = WorkerThreads("worker", run, 4)
    for item in range(5):
        workers.add(item)
    workers.wake()
    for _ in range(4):
        assert begun.acquire(timeout=10)
    assert len(workers) == 1
    left.set()
    assert begun.acquire(timeout=10)
    assert workers.stop(10) == []


@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError])
def test_what_an_item_raises_is_logged(caplog: pytest.LogCaptureFixture, error: type[BaseException]) -> None:
    """The thread goes on, SystemExit or not."""
    done = threading.Event()

    def run(item: str) -> None:
        if item == "bad":
            raise error
        done.set()

    workers = WorkerThreads("worker", run, 1)
    for item in ("bad", "good"):
        workers.add(item)
    workers.wake()
    assert done.wait(10)
    assert workers.stop(10) == []
    assert "worker-1 failed on 'bad'" in caplog.text


def test_nothing_starts_without_work() -> None:
    """Neither with a wake-up nor with an item alone."""
    workers = WorkerThreads("worker", print, 4)
    assert workers.wake()
    workers.add("x")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("worker-")]
    assert workers.take_all() == ["x"]


def test_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """`wake` says so, and the items can be taken back; with one thread there is no reason to."""
    monkeypatch.setattr("mqstore.store.threads.worker_threads.start_thread", lambda thread: False)
    workers = WorkerThreads("worker", print, 4)
    workers.add("x")
    assert not workers.wake()
    assert workers.take_all() == ["x"]


def test_one_thread_is_started_for_items_that_it_has_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may need milliseconds until it runs, and many items may be added meanwhile."""
    started: list[threading.Thread] = []

    def start_later(thread: threading.Thread) -> bool:
        started.append(thread)
        return True

    monkeypatch.setattr("mqstore.store.threads.worker_threads.start_thread", start_later)
    workers = WorkerThreads("worker", print, 4)
    for item in range(3):
        workers.add(item)
        assert workers.wake()
    assert len(started) == 1
    # Who looks some time later finds that they wait still.
    assert workers.needs_wake
    assert workers.wake_all()
    assert len(started) == 2


def test_quick_items_are_run_by_one_thread_until_one_is_slow() -> None:
    """Whoever looks wakes others for what waits behind it: none of three slow items waits for another."""
    begun, left, quick = threading.Semaphore(0), threading.Event(), threading.Event()

    def run(item: str) -> None:
        if item == "quick":
            quick.set()
        else:
            begun.release()
            assert left.wait(10)

    workers = WorkerThreads("worker", run, 4)
    assert not workers.needs_wake
    workers.add("quick")
    assert workers.needs_wake
    workers.wake()
    assert quick.wait(10)
    for _ in range(3):
        workers.add("slow")
    workers.wake()
    assert begun.acquire(timeout=10)
    # Whether the quick item counted as such is up to the machine: two may have begun by now.
    workers.wake_all()
    for _ in range(2):
        assert begun.acquire(timeout=10)
    assert not workers.needs_wake
    left.set()
    assert workers.stop(10) == []


def test_an_item_that_hangs_is_named() -> None:
    """The wait is bounded; what waits behind it is dropped."""
    entered, left, seen = threading.Event(), threading.Event(), []

    def run(item: str) -> None:
        seen.append(item)
        entered.set()
        assert left.wait(10)

    workers = WorkerThreads("worker", run, 1)
    for item in ("first", "second"):
        workers.add(item)
    workers.wake()
    assert entered.wait(10)
    ((thread, item),) = workers.stop(0.01)
    assert (thread.name, item) == ("worker-1", "first")
    left.set()
    assert workers.stop(10) == []
    assert seen == ["first"]


def test_an_item_may_stop_its_workers() -> None:
    """It does not wait for itself."""
    stopped = threading.Event()

    def run(item: str) -> None:
        assert workers.is_own_thread
        assert workers.stop(10) == []
        stopped.set()

    workers = WorkerThreads("worker", run, 2)
    assert not workers.is_own_thread
    workers.add("x")
    workers.wake()
    assert stopped.wait(10)
    assert workers.stop(10) == []
