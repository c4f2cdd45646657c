"""The flusher: one sync for many puts, a failed sync is final, and nobody waits for ever.

Syncs are counted, delayed and failed through a watched file system, so threads meet where the test wants
them to and no time is measured.
"""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from unittest import mock

import pytest

from mqstore.store.errors import StoreError, StorePoisoned
from mqstore.store.files.mapped_file import MappedFile
from mqstore.store.log import flusher as flusher_module
from mqstore.store.log import sync_waiters as sync_waiters_module
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.flusher import Flusher
from support.disks.interrupts import interrupted_at
from support.disks.watched_file_system import WatchedFileSystem
from support.stores.small_log import SEGMENT_BYTES, SmallLog

THREADS = 8


class SlowDisk:
    """Lets the first sync wait until `release` is called; fails it if `error` is set."""

    def __init__(self, watched: WatchedFileSystem) -> None:
        self.started = threading.Event()
        self.error: OSError | None = None
        self._released = threading.Event()
        watched.before = self._before

    def _before(self, step: str, path: Path) -> None:
        if step == "sync" and not self.started.is_set():
            self.started.set()
            assert self._released.wait(60)
            if self.error is not None:
                raise self.error

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def slow_disk(watched: WatchedFileSystem) -> Iterator[SlowDisk]:
    disk = SlowDisk(watched)
    yield disk
    disk.release()


def test_a_sync_within_a_sync_is_not_taken_back(
    small: SmallLog, flusher: Flusher, watched: WatchedFileSystem
) -> None:
    """As a signal handler's that puts while the thread it interrupted leads: what it was told stays true."""
    told: list[int] = []

    def put_within(step: str, path: Path) -> None:
        if step == "sync" and not told:
            told.append(0)
            small.append()
            told[0] = flusher.flush()

    small.append()
    watched.before = put_within
    assert flusher.flush() == told[0] == small.log.max_offset
    assert flusher.flushed_offset == told[0]


def put_behind_a_slow_sync(small: SmallLog, flusher: Flusher, slow_disk: SlowDisk) -> list[Future[bool]]:
    """Eight puts that wait for the disk, seven of them appended while the first one's sync runs.

    True: the put was told that its bytes are durable, and so they are.
    """
    appended = threading.Semaphore(0)

    def put(index: int) -> bool:
        if index:
            slow_disk.started.wait(60)
        place = small.append(b"%d" % index)
        appended.release()
        end = place.end_offset
        return flusher.wait_for(end) and flusher.flushed_offset >= end

    with ThreadPoolExecutor(THREADS) as pool:
        puts = [pool.submit(put, index) for index in range(THREADS)]
        for _ in range(THREADS):
            assert appended.acquire(timeout=60)
        slow_disk.release()
    return puts


def test_flush_makes_everything_written_durable(small: SmallLog, flusher: Flusher) -> None:
    """Up to the end at the call; the newest store time goes with it."""
    small.append()
    small.clock.advance(7)
    small.append()
    assert (flusher.behind_bytes, flusher.flushed_offset) == (small.log.max_offset, 0)
    assert flusher.flush() == small.log.max_offset == flusher.flushed_offset
    assert flusher.flushed_store_timestamp == small.clock.now_ms()
    assert flusher.behind_bytes == 0


def test_nothing_new_is_not_synced(small: SmallLog, flusher: Flusher, watched: WatchedFileSystem) -> None:
    """A second flush costs nothing."""
    small.append()
    flusher.flush()
    before = watched.count("sync")
    flusher.flush()
    assert flusher.wait_for(small.log.max_offset)
    assert watched.count("sync") == before


def test_only_segments_with_new_bytes_are_synced(
    small: SmallLog, flusher: Flusher, watched: WatchedFileSystem, root: Path
) -> None:
    """Each that has some, in order; the one that was durable before is left alone."""
    small.append()
    flusher.flush()
    small.fill_to(8)
    flusher.flush()
    watched.steps.clear()
    for _ in range(5):
        small.append(bytes(50_000))
    flusher.flush()
    synced = [int(path.name) // SEGMENT_BYTES for step, path in watched.steps if step == "sync"]
    assert synced == [0, 1, 2, 3][len(small.log.files.files) - len(synced) :]
    assert len(synced) == len(small.log.files.files)


def test_one_sync_serves_all_who_wait(
    small: SmallLog, flusher: Flusher, watched: WatchedFileSystem, slow_disk: SlowDisk
) -> None:
    """While the leader's sync runs, seven others append; one more sync then makes all of them durable."""
    assert all(result.result() for result in put_behind_a_slow_sync(small, flusher, slow_disk))
    assert watched.count("sync") == 2


def test_a_failed_sync_is_final(
    small: SmallLog, flusher: Flusher, watched: WatchedFileSystem, slow_disk: SlowDisk
) -> None:
    """Leader and followers all get the error, no second sync is tried, appends are refused, reads go on."""
    durable = small.append(b"durable")
    small.log.flushed_offset = small.log.max_offset
    slow_disk.error = OSError(5, "Input/output error")
    for result in put_behind_a_slow_sync(small, flusher, slow_disk):
        with pytest.raises(StorePoisoned, match="Input/output error"):
            result.result()
    for again in (flusher.flush, small.append, lambda: flusher.wait_for(small.log.max_offset)):
        with pytest.raises(StorePoisoned) as caught:
            again()
        assert isinstance(caught.value.cause, OSError)
    assert watched.count("sync") == 0
    assert flusher.flushed_offset == durable.store_size
    found = small.log.look_message_by_offset(durable.physical_offset)
    assert found is not None
    assert found.body == b"durable"


def test_a_failed_sync_is_final_though_ctrl_c_strikes_at_once(
    small: SmallLog, flusher: Flusher, watched: WatchedFileSystem
) -> None:
    """Pressed while the disk hung, it ends the leader before the log is poisoned: no second sync is tried."""

    def fail(step: str, path: Path) -> None:
        if step == "sync":
            raise OSError(5, "Input/output error")

    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        # Where Python looks for signals: at the beginning of a function.
        if frame.f_code is CommitLog.poison.__code__:
            raise KeyboardInterrupt

    place = small.append()
    watched.before = fail
    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            flusher.flush()
    finally:
        sys.settrace(before)
    watched.before = lambda step, path: None
    for again in (flusher.flush, lambda: flusher.wait_for(place.store_size)):
        with pytest.raises(StorePoisoned, match="Input/output error"):
            again()
    assert (watched.count("sync"), flusher.flushed_offset) == (0, 0)


def test_who_sleeps_long_waits_once(
    small: SmallLog, flusher: Flusher, slow_disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking up in between leaves nothing behind that could be woken to lead in the place of a thread."""
    looks = threading.Semaphore(0)
    monkeypatch.setattr(flusher_module, "_LONGEST_SLEEP_S", 0.001)
    lead = flusher._lead

    def counted_lead(end_offset: int, deadline_s: float) -> bool:
        looks.release()
        return lead(end_offset, deadline_s)

    small.append()
    with ThreadPoolExecutor(2) as pool:
        leader = pool.submit(flusher.flush)
        assert slow_disk.started.wait(60)
        place = small.append()
        monkeypatch.setattr(flusher, "_lead", counted_lead)
        waiting = pool.submit(flusher.wait_for, place.end_offset)
        for _ in range(5):
            assert looks.acquire(timeout=60)
        assert repr(flusher._waiters) == "SyncWaiters(waiting=1)"
        slow_disk.release()
        assert leader.result(60)
        assert waiting.result(60)
    assert repr(flusher._waiters) == "SyncWaiters(waiting=0)"


def test_what_is_durable_is_not_waited_for(small: SmallLog, flusher: Flusher, slow_disk: SlowDisk) -> None:
    """Not even while another sync hangs or after one has failed."""
    place = small.append()
    small.log.flushed_offset = small.log.max_offset
    small.log.poison(OSError(5, "gone"))
    assert flusher.wait_for(place.end_offset)


def test_waiting_ends_after_the_timeout(watched: WatchedFileSystem, root: Path) -> None:
    """The message is stored and the answer is that the disk was slow."""
    small = SmallLog(watched, root, flush_disk_type="SYNC_FLUSH", sync_flush_timeout=1)
    flusher = Flusher(small.log, small.config)
    disk = SlowDisk(watched)
    small.append()
    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(flusher.flush)
        assert disk.started.wait(60)
        place = small.append(b"second")
        end = place.end_offset
        assert not flusher.wait_for(end)
        disk.release()
        leader.result(60)
    assert flusher.flushed_offset == place.physical_offset
    assert flusher.wait_for(end)


def test_without_a_time_limit_a_put_calls_the_sync_itself(watched: WatchedFileSystem, root: Path) -> None:
    """In its own thread, and waits as long as the disk takes; so do those who come meanwhile."""
    small = SmallLog(watched, root, flush_disk_type="SYNC_FLUSH", sync_flush_timeout=None)
    flusher = Flusher(small.log, small.config)
    threads: list[int] = []
    watched.before = lambda step, path: threads.append(threading.get_ident()) if step == "sync" else None
    place = small.append()
    with mock.patch.object(MappedFile, "sync_within", side_effect=AssertionError):
        assert flusher.wait_for(place.end_offset)
        assert threads == [threading.get_ident()]
        assert all(result.result() for result in put_behind_a_slow_sync(small, flusher, SlowDisk(watched)))
    assert flusher.behind_bytes == 0


def test_a_leader_that_wakes_nobody_does_not_leave_the_others_asleep(
    small: SmallLog, flusher: Flusher, slow_disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C may end it between sync and waking: those who sleep look for themselves after a while."""
    monkeypatch.setattr(flusher, "_wake_waiters", lambda: None)
    assert all(result.result() for result in put_behind_a_slow_sync(small, flusher, slow_disk))


def test_ctrl_c_anywhere_in_a_wait_leaves_nobody_asleep(
    small: SmallLog, flusher: Flusher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither who leads, nor who sleeps while another does: those who come next get through."""
    monkeypatch.setattr(flusher_module, "_LONGEST_SLEEP_S", 0.001)
    for is_led in (False, True):
        was_interrupted, at = True, 0
        while was_interrupted:
            at += 1
            place = small.append()
            flusher._waiters.is_led = is_led
            was_interrupted = interrupted_at(
                at,
                (flusher_module, sync_waiters_module),
                lambda: flusher.wait_for(place.end_offset),  # noqa: B023 - called in this round
            )
            place = small.append()
            with ThreadPoolExecutor(2) as pool:
                waits = [pool.submit(flusher.wait_for, place.end_offset) for _ in range(2)]
                assert all(wait.result(60) for wait in waits), at
        flusher.flush()
        assert not flusher._waiters.is_led


def test_async_flush_waits_for_enough_pages_or_for_its_time(
    watched: WatchedFileSystem, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocketMQ's thresholds: 4 dirty pages, or 10 s since the last thorough round."""
    now_s = [1_000.0]
    monkeypatch.setattr(flusher_module.time, "monotonic", lambda: now_s[0])
    small = SmallLog(watched, root)
    flusher = Flusher(small.log, small.config)
    small.append(bytes(3 * 4_096))
    flusher.run_once()
    assert flusher.flushed_offset == 0
    small.append(bytes(4_096))
    flusher.run_once()
    assert flusher.behind_bytes == 0
    small.append()
    flusher.run_once()
    assert flusher.behind_bytes > 0
    now_s[0] += 10
    flusher.run_once()
    assert flusher.behind_bytes == 0
    before = watched.count("sync")
    now_s[0] += 10
    flusher.run_once()
    assert watched.count("sync") == before


class Pending:
    """Something that is to be completed, and what it was told."""

    def __init__(self) -> None:
        self.told: list[StoreError | None] = []

    def __call__(self, failure: StoreError | None) -> None:
        self.told.append(failure)


def pending_behind_puts(small: SmallLog, flusher: Flusher, count: int) -> list[Pending]:
    pending = [Pending() for _ in range(count)]
    for complete in pending:
        place = small.append()
        flusher.add_pending(complete)
        flusher.complete_soon(place.end_offset)
    return pending


def test_what_is_pending_shares_one_sync(
    small: SmallLog, flusher: Flusher, watched: WatchedFileSystem
) -> None:
    """Each is told once, after the sync; the owner is asked once for it, and again after that."""
    asked: list[bool] = []
    flusher.on_pending = lambda: asked.append(True)
    pending = pending_behind_puts(small, flusher, 5)
    assert not any(complete.told for complete in pending)
    assert len(asked) == 1
    flusher.commit_group()
    assert [complete.told for complete in pending] == [[None]] * 5
    assert watched.count("sync") == 1
    assert flusher.complete_pending() == 0
    pending_behind_puts(small, flusher, 2)
    assert len(asked) == 2


def test_a_service_that_cannot_be_woken_is_asked_again(small: SmallLog, flusher: Flusher) -> None:
    """Ctrl-C may come while it is woken: the next put asks once more."""
    asked: list[bool] = []

    def interrupted() -> None:
        asked.append(True)
        raise KeyboardInterrupt

    flusher.on_pending = interrupted
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            flusher.sync_soon()
    assert len(asked) == 2


def test_what_is_pending_is_told_of_a_failed_sync(
    small: SmallLog, flusher: Flusher, watched: WatchedFileSystem
) -> None:
    """All of it, at once where it comes later, and the sync is not repeated."""

    def fail(step: str, path: Path) -> None:
        if step == "sync":
            raise OSError(28, "No space left on device")

    watched.before = fail
    pending = pending_behind_puts(small, flusher, 3)
    flusher.complete_pending()
    late = Pending()
    flusher.add_pending(late)
    flusher.complete_soon(small.log.max_offset)
    for complete in (*pending, late):
        assert len(complete.told) == 1
        assert isinstance(complete.told[0], StorePoisoned)


def test_nothing_is_completed_before_it_is_durable(
    small: SmallLog, flusher: Flusher, slow_disk: SlowDisk
) -> None:
    """Two threads complete at once, and a put comes in between: it waits for a sync that covers it."""
    durable_when_told: list[bool] = []
    (first,) = pending_behind_puts(small, flusher, 1)
    with ThreadPoolExecutor(2) as pool:
        leader = pool.submit(flusher.complete_pending)
        assert slow_disk.started.wait(60)
        place = small.append()
        end = place.end_offset
        flusher.add_pending(lambda failure: durable_when_told.append(flusher.flushed_offset >= end))
        flusher.complete_soon(end)
        follower = pool.submit(flusher.complete_pending)
        slow_disk.release()
        assert leader.result(60) + follower.result(60) == 2
    assert (first.told, durable_when_told) == ([None], [True])


def test_what_is_durable_already_is_completed_at_once(small: SmallLog, flusher: Flusher) -> None:
    """Somebody else's sync may have come first, even the last one before the store was closed."""
    place = small.append()
    flusher.flush()
    complete = Pending()
    flusher.add_pending(complete)
    flusher.complete_soon(place.end_offset)
    assert complete.told == [None]


def test_ctrl_c_anywhere_forgets_nothing_that_is_pending(small: SmallLog, flusher: Flusher) -> None:
    """What was not told before is told when somebody completes again."""
    for at in range(1, 1_000):
        pending = pending_behind_puts(small, flusher, 3)
        was_interrupted = interrupted_at(at, (flusher_module,), flusher.complete_pending)
        flusher.complete_pending()
        assert all(None in complete.told for complete in pending), at
        if not was_interrupted:
            return
    pytest.fail("it never came to an end")


def test_a_put_that_syncs_itself_waits_no_longer_than_it_may(
    small: SmallLog, flusher: Flusher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLUSH_DISK_TIMEOUT then; the sync goes on, somebody is asked to end it, and then all is durable."""
    asked: list[str] = []
    flusher.on_pending = lambda: asked.append("service")
    monkeypatch.setattr(flusher, "_timeout_s", 0.01)
    place = small.append()
    region = small.log.files.files[0].region
    is_slow = True
    limits: list[float] = []

    def sync_within(timeout_s: float) -> bool:
        limits.append(timeout_s)
        return not is_slow

    monkeypatch.setattr(region, "sync_within", sync_within)
    assert not flusher.wait_for(place.end_offset)
    assert limits
    assert all(0 <= limit <= 0.01 for limit in limits)
    assert (asked, flusher.flushed_offset) == (["service"], 0)
    is_slow = False
    flusher.commit_group()
    assert flusher.flushed_offset == place.end_offset
    assert flusher.wait_for(place.end_offset)


def test_a_put_that_is_woken_to_sync_waits_no_longer_than_it_may(
    small: SmallLog, flusher: Flusher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came while another one's sync ran; now the disk hangs. The time it slept counts."""
    started, released = threading.Event(), threading.Event()
    limits: list[float] = []

    def sync_within(timeout_s: float) -> bool:
        limits.append(timeout_s)
        if len(limits) > 1:
            return False
        started.set()
        return released.wait(60)

    asked: list[str] = []
    flusher.on_pending = lambda: asked.append("service")
    place = small.append()
    monkeypatch.setattr(small.log.files.files[0].region, "sync_within", sync_within)
    with ThreadPoolExecutor(2) as pool:
        leader = pool.submit(flusher.wait_for, place.end_offset)
        assert started.wait(60)
        monkeypatch.setattr(flusher, "_timeout_s", 0.5)
        follower = pool.submit(flusher.wait_for, small.append().end_offset)
        while repr(flusher._waiters) != "SyncWaiters(waiting=1)":
            assert not follower.done()
        released.set()
        assert leader.result(60)
        assert not follower.result(60)
    assert all(0 <= limit <= 0.5 for limit in limits[1:])
    assert (asked, flusher.flushed_offset) == (["service"], place.end_offset)
