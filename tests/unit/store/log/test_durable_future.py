"""The durable future: light as long as it can be, an ordinary future for who asks more.

Whatever is asked, and in whichever order, the answers are those that a future of concurrent.futures gives.
Syncs are held up and failed through a watched file system, so threads meet where the test wants them to.
"""

import asyncio
import concurrent.futures
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from pathlib import Path
from queue import SimpleQueue

import pytest

from mqstore.store.errors import StoreFull, StorePoisoned
from mqstore.store.log import durable_future as durable_future_module
from mqstore.store.log import flusher as flusher_module
from mqstore.store.log.durable_future import DurableFuture
from mqstore.store.log.flusher import Flusher
from mqstore.store.threads.service import Service
from support.crash.interrupt_storm import Strike, Struck
from support.disks.interrupts import interrupted_at
from support.disks.watched_file_system import WatchedFileSystem
from support.stores.small_log import SmallLog


@pytest.fixture
def service(flusher: Flusher) -> Iterator[Service]:
    """The owner's service, as a store has it."""
    service = Service("group-commit", 1_000, flusher.commit_group)
    flusher.on_pending = service.wake
    service.start()
    yield service
    service.stop()


def put(small: SmallLog, flusher: Flusher, outcome: int = 7) -> DurableFuture[int]:
    place = small.append()
    return DurableFuture(flusher, place.end_offset, outcome)


def fail_syncs(watched: WatchedFileSystem) -> None:
    def fail(step: str, path: Path) -> None:
        if step == "sync":
            raise OSError(5, "Input/output error")

    watched.before = fail


def end_the_sync_before_a_callback_is_known(flusher: Flusher) -> None:
    add_pending = flusher.add_pending

    def add_too_late(complete: flusher_module.Completion) -> None:
        flusher.flush()
        add_pending(complete)

    flusher.add_pending = add_too_late  # type: ignore[method-assign]  # of this one flusher, for this test


def is_light(future: Future[int]) -> bool:
    return not vars(future)


def test_it_is_done_when_the_log_is_durable_up_to_its_end(small: SmallLog, flusher: Flusher) -> None:
    """Not a moment earlier, and without anybody resolving it."""
    first, second = put(small, flusher, 1), put(small, flusher, 2)
    assert not first.done()
    assert not second.done()
    small.log.flushed_offset = first._end_offset
    assert first.done()
    assert not second.done()
    assert (first.result(0), first.exception(0)) == (1, None)
    flusher.flush()
    assert second.result() == 2
    assert is_light(first)
    assert is_light(second)


def test_one_of_a_put_that_waits_for_nothing_is_done_at_once(small: SmallLog, flusher: Flusher) -> None:
    """Whatever becomes of the log."""
    future = DurableFuture(flusher, 0, 7)
    small.log.poison(OSError(5, "gone"))
    assert future.done()
    assert future.result() == 7


def test_who_waits_without_limit_syncs_himself(
    small: SmallLog, flusher: Flusher, watched: WatchedFileSystem
) -> None:
    """As a put that waits does, where nobody else is at it."""
    first, second = put(small, flusher, 1), put(small, flusher, 2)
    assert first.exception() is None
    assert second.result() == 2
    assert watched.count("sync") == 1
    assert is_light(first)


def test_who_waits_with_a_limit_does_not_sync(
    small: SmallLog, flusher: Flusher, watched: WatchedFileSystem
) -> None:
    """A sync cannot be stopped when time is up."""
    future = put(small, flusher)
    with pytest.raises(TimeoutError):
        future.result(0)
    with pytest.raises(TimeoutError):
        future.exception(timeout=0.001)
    assert watched.count("sync") == 0
    flusher.complete_pending()
    assert future.result(0) == 7


def test_a_disk_that_is_slow_for_a_put_is_waited_for(watched: WatchedFileSystem, root: Path) -> None:
    """`sync_flush_timeout` ends the waiting of a put that blocks; a future has the limit it is asked with."""
    small = SmallLog(watched, root, flush_disk_type="SYNC_FLUSH", sync_flush_timeout=1)
    flusher = Flusher(small.log, small.config)
    begun, release = threading.Event(), threading.Event()

    def hang(step: str, path: Path) -> None:
        if step == "sync":
            begun.set()
            assert release.wait(60)

    watched.before = hang
    small.append()
    with ThreadPoolExecutor(2) as pool:
        leader = pool.submit(flusher.flush)
        assert begun.wait(60)
        future = put(small, flusher)
        assert not flusher.wait_for(future._end_offset)
        waiting = pool.submit(future.result)
        assert not waiting.done()
        release.set()
        assert waiting.result(60) == 7
        leader.result(60)


def test_a_failed_sync_is_told(small: SmallLog, flusher: Flusher, watched: WatchedFileSystem) -> None:
    """To those who wait, to those who ask later, and no second sync is tried."""
    fail_syncs(watched)
    waits, asks, looks, calls = (put(small, flusher) for _ in range(4))
    with pytest.raises(StorePoisoned, match="Input/output error"):
        waits.result()
    assert isinstance(asks.exception(), StorePoisoned)
    assert looks.done()
    told: list[BaseException | None] = []
    calls.add_done_callback(lambda done: told.append(done.exception(0)))
    assert isinstance(told[0], StorePoisoned)
    for future in (waits, asks, looks, calls):
        assert future.done()
        assert isinstance(future.exception(0), StorePoisoned)
        with pytest.raises(StorePoisoned):
            future.result(0)
    assert watched.count("sync") == 0


def test_what_was_told_once_stays(small: SmallLog, flusher: Flusher) -> None:
    """A log that is poisoned by an append while a sync is under way becomes durable further all the same."""
    future = put(small, flusher)
    small.log.poison(OSError(5, "gone"))
    assert isinstance(future.exception(0), StorePoisoned)
    small.log.flushed_offset = small.log.max_offset
    assert isinstance(future.exception(0), StorePoisoned)
    with pytest.raises(StorePoisoned):
        future.result()


def test_an_error_that_ends_the_waiting_is_the_outcome(
    small: SmallLog, flusher: Flusher, watched: WatchedFileSystem
) -> None:
    """One that leaves the log in order, too: a future has one outcome."""

    def full(step: str, path: Path) -> None:
        if step == "sync":
            raise StoreFull(path, 0, "Too many open files")

    watched.before = full
    future = put(small, flusher)
    for _ in range(2):
        with pytest.raises(StoreFull):
            future.result()
        watched.before = lambda step, path: None
        flusher.flush()


@pytest.mark.usefixtures("service")
def test_the_standard_library_takes_it(small: SmallLog, flusher: Flusher) -> None:
    """Callbacks, wait, as_completed and asyncio: by the library's own code, beside ordinary futures."""
    futures: list[Future[int]] = [put(small, flusher, index) for index in range(6)]
    assert all(isinstance(future, Future) for future in futures)
    told: SimpleQueue[int] = SimpleQueue()
    futures[0].add_done_callback(lambda done: told.put(done.result(0)))
    assert wait([*futures[1:3], Future()], 60, return_when=FIRST_COMPLETED).done
    assert {future.result(0) for future in as_completed(futures[:4], 60)} == {0, 1, 2, 3}
    # The thread that completes a future wakes those who wait before it calls the callbacks.
    assert (told.get(timeout=60), told.empty()) == (0, True)

    async def awaited() -> int:
        return await asyncio.wait_for(asyncio.wrap_future(futures[4]), 60)

    assert asyncio.run(awaited()) == 4
    assert wait(futures, 60).not_done == set()


def test_it_looks_like_a_future(small: SmallLog, flusher: Flusher) -> None:
    """Its repr, its state, and what it has not."""
    future = put(small, flusher)
    with pytest.raises(AttributeError, match="'DurableFuture' object has no attribute 'colour'"):
        _ = future.colour  # type: ignore[attr-defined]
    assert is_light(future)
    assert "state=pending" in repr(future)
    assert not future.running()
    assert not future.cancelled()
    flusher.complete_pending()
    assert "state=finished returned int" in repr(future)


def test_one_that_was_given_up_does_not_hold_up_the_others(small: SmallLog, flusher: Flusher) -> None:
    """Its message is stored all the same; who waits for several is told."""
    given_up, other = put(small, flusher), put(small, flusher)
    told: list[int] = []
    other.add_done_callback(lambda done: told.append(done.result(0)))
    assert given_up.cancel()
    assert given_up.cancelled()
    assert given_up.done()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait, [given_up], 60)
        while flusher.complete_pending():
            pass
        assert waiting.result(60).done == {given_up}
    assert told == [7]
    for ask in (given_up.result, given_up.exception):
        with pytest.raises(CancelledError):
            ask()
    given_up.complete(None)


def test_what_is_done_cannot_be_given_up(small: SmallLog, flusher: Flusher) -> None:
    """As with any future."""
    future = put(small, flusher)
    flusher.flush()
    assert not future.cancel()
    assert future.result(0) == 7


def test_the_log_may_become_durable_while_a_callback_is_added(small: SmallLog, flusher: Flusher) -> None:
    """After the last sync of a store that is closed nobody comes to complete it: who adds it does."""
    future = put(small, flusher)
    end_the_sync_before_a_callback_is_known(flusher)
    told: list[int] = []
    future.add_done_callback(lambda done: told.append(done.result(0)))
    assert told == [7]


def test_a_light_one_tells_when_it_is_done(small: SmallLog, flusher: Flusher) -> None:
    """After the sync; and at once if it is done. It stays light."""
    calls: list[str] = []
    asked: list[None] = []
    flusher.on_pending = lambda: asked.append(None)
    future = put(small, flusher)
    future.when_done(lambda: calls.append("synced"))
    assert calls == []
    assert len(asked) == 1
    flusher.commit_group()
    assert calls == ["synced"]
    future.when_done(lambda: calls.append("at once"))
    assert calls == ["synced", "at once"]
    assert is_light(future)


def test_a_light_one_tells_of_a_failed_sync(
    small: SmallLog, flusher: Flusher, watched: WatchedFileSystem
) -> None:
    """It is done then, with the error."""
    failures: list[BaseException | None] = []
    future = put(small, flusher)
    future.when_done(lambda: failures.append(future.exception(0)))
    fail_syncs(watched)
    flusher.commit_group()
    future.when_done(lambda: failures.append(future.exception(0)))
    assert [type(failure) for failure in failures] == [StorePoisoned, StorePoisoned]


def test_the_log_may_become_durable_while_a_light_one_is_asked_to_tell(
    small: SmallLog, flusher: Flusher
) -> None:
    """A sync that ends before the callback is known: it is called all the same."""
    future = put(small, flusher)
    end_the_sync_before_a_callback_is_known(flusher)
    told: list[int] = []
    future.when_done(lambda: told.append(future.result(0)))
    assert told == [7]


@pytest.mark.usefixtures("service")
def test_many_threads_ask_one_at_once(small: SmallLog, flusher: Flusher) -> None:
    """In every way there is, while it becomes durable; each callback is called once."""
    asking: tuple[Callable[[DurableFuture[int]], object], ...] = (
        lambda future: future.result(),
        lambda future: future.result(60),
        lambda future: future.exception() or 7,
        lambda future: (future.done() and future.result(0)) or future.result(60),
        lambda future: next(as_completed([future], 60)).result(0),
    )
    with ThreadPoolExecutor(10) as pool:
        for _ in range(100):
            told: SimpleQueue[int] = SimpleQueue()
            begin = threading.Barrier(10)
            future = put(small, flusher)

            def ask(number: int) -> object:
                begin.wait(60)  # noqa: B023 - all of a round are waited for in it
                if number >= 5:
                    future.add_done_callback(lambda done: told.put(done.result(0)))  # noqa: B023 - as above
                    number -= 5
                return asking[number](future)  # noqa: B023

            asked = [pool.submit(ask, number) for number in range(10)]
            assert [answer.result(60) for answer in asked] == [7] * 10
            assert [told.get(timeout=60) for _ in range(5)] == [7] * 5
            assert told.empty()


def test_ctrl_c_anywhere_leaves_a_future_that_can_be_asked(small: SmallLog, flusher: Flusher) -> None:
    """Interrupted while it is given a callback or waited for, it still is done once its bytes are durable."""
    modules = (durable_future_module, flusher_module)
    ways: tuple[Callable[[DurableFuture[int]], object], ...] = (
        lambda future: future.add_done_callback(lambda _: None),
        lambda future: future.result(),
        lambda future: flusher.complete_pending(),
    )
    for way in ways:
        was_interrupted, at = True, 0
        while was_interrupted:
            at += 1
            future = put(small, flusher)
            if way is ways[2]:
                future.add_done_callback(lambda _: None)
            was_interrupted = interrupted_at(at, modules, lambda: way(future))  # noqa: B023
            told: list[int] = []
            future.add_done_callback(lambda done: told.append(done.result(0)))  # noqa: B023
            flusher.complete_pending()
            assert (told, future.result(0)) == ([7], 7), at


def test_ctrl_c_in_the_standard_library_holds_up_nobody_else(
    small: SmallLog, flusher: Flusher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock of one future that stayed taken would stop the thread that completes all of them."""
    monkeypatch.setattr(durable_future_module, "_LONG_S", 0.001)
    modules = (threading, concurrent.futures._base)
    ways: tuple[Callable[[DurableFuture[int]], object], ...] = (
        lambda future: future.add_done_callback(lambda _: None),
        lambda future: future.cancel(),
        lambda future: future.done(),
        lambda future: future.complete(None),
    )
    for way in ways:
        was_interrupted, line = True, 0
        while was_interrupted:
            line += 1
            asked, other = put(small, flusher), put(small, flusher)
            told: list[int] = []
            other.add_done_callback(lambda done: told.append(done.result(0)))  # noqa: B023
            assert not asked.running()
            was_interrupted = interrupted_at(line, modules, lambda: way(asked))  # noqa: B023
            completing = threading.Thread(target=flusher.complete_pending, daemon=True)
            completing.start()
            completing.join(10)
            assert (completing.is_alive(), told) == (False, [7]), line
            # Whoever was interrupted may ask again.
            flusher.complete_pending()
            assert asked.done(), line


@pytest.mark.parametrize("ask", [DurableFuture.result, DurableFuture.exception])
def test_an_interrupt_of_a_wait_with_a_limit_is_no_other_error(
    small: SmallLog, flusher: Flusher, ask: Callable[[DurableFuture[int], float], object]
) -> None:
    """At every place of it: the library's lock may be released when the handler raises."""
    for place in itertools.count(1):
        strike = Strike(place)
        future = put(small, flusher)
        try:
            with strike:
                ask(future, 0.001)
        except (Struck, TimeoutError):
            pass
        flusher.flush()
        flusher.complete_pending()
        assert future.result(10) == 7, strike.where
        if not strike.has_struck:
            break
    assert place > 20


def test_one_whose_lock_stays_taken_does_not_hold_up_the_others(small: SmallLog, flusher: Flusher) -> None:
    """It is completed when the lock is given back, with what became of its own bytes."""
    asked, other = put(small, flusher), put(small, flusher)
    assert not asked.running()
    assert not other.running()
    with asked._condition, ThreadPoolExecutor(1) as pool:
        pool.submit(flusher.complete_pending).result(60)
        assert other.done()
        assert not asked.done()
        small.append()
        small.log.poison(OSError(5, "gone"))
    flusher.complete_pending()
    assert asked.result(0) == 7


def test_a_lock_that_stays_taken_is_waited_for_once(small: SmallLog, flusher: Flusher) -> None:
    """However often what is kept is completed: a hundred such futures must not cost seconds each time."""

    class TakenCondition:
        def __init__(self) -> None:
            self.waited_s: list[float] = []

        def acquire(self, timeout: float) -> bool:
            self.waited_s.append(timeout)
            return False

        def release(self) -> None:
            raise RuntimeError("not ours")

    future = put(small, flusher)
    assert not future.running()
    condition, taken = future._condition, TakenCondition()
    future._condition = taken  # type: ignore[assignment]
    for _ in range(3):
        flusher.complete_pending()
    assert taken.waited_s == [durable_future_module._LONG_S, 0, 0]
    future._condition = condition
    flusher.complete_pending()
    assert future.result(0) == 7
