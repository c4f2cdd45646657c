"""Rebuilding queues from the log: byte-identical, from every state in which an opening may find them.

Method: a log is filled and dispatched while it grows; the files that result are the measure. They are then
deleted, cut, torn or put out of step, and brought up to date. The golden directories, written by Apache
RocketMQ 5.3.3, are rebuilt as well.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.index.queue.queue_recovery import bring_up_to_date, rebuild_consume_queues
from mqstore.schedule.delay.delay_history import DelayHistory
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.store.clock import SystemClock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreFull
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.recovery import recover
from support.golden.manifest import GOLDEN_NAMES
from support.stores.filled_queues import FilledQueues
from support.stores.small_log import SEGMENT_BYTES


@pytest.fixture
def filled(file_system: FileSystem, root: Path) -> FilledQueues:
    """Three segments, six queues, several files in some of them; the recovery point is in the middle."""
    filled = FilledQueues(file_system, root)
    at = 0
    while filled.log.max_offset < 2.5 * SEGMENT_BYTES:
        filled.put(b"x" * (at * 37 % 300), topic="aab"[at % 3], queue_id=at % 2, tags=f"t{at % 5}")
        at += 1
    return filled


def middle_of(filled: FilledQueues) -> int:
    """Where some record begins, in the middle of the log."""
    queue = filled.queues.find("b", 0)
    assert queue is not None
    entry = queue.entry_at(queue.max_offset // 2)
    assert entry is not None
    return entry[0]


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_broker_s_queues_are_rebuilt_byte_for_byte(
    golden_directory: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    """Same files, same names, same bytes as RocketMQ wrote: 1,949 entries in 29 queues."""
    golden = golden_directory(name)
    config = StoreConfig(
        mapped_file_size_commit_log=1_048_576, mapped_file_size_consume_queue=6_000, max_message_size=900_000
    )
    log = CommitLog(OsFileSystem(), golden / "commitlog", config, SystemClock(), read_only=True)
    log.load()
    recover(log, 0, None, read_only=True)
    levels = DelayHistory.of(DelayLevels.parse(config.message_delay_level)).as_array()
    queues = ConsumeQueueStore(OsFileSystem(), tmp_path / "consumequeue", config, levels)
    queues.load(0)
    rebuild_consume_queues(log, queues)
    assert sum(queues.next_queue_offset(*queue) for queue in queues.queues()) == 1_949
    expected, found = (
        {path.relative_to(top): path.read_bytes() for path in top.rglob("*") if path.is_file()}
        for top in (golden / "consumequeue", tmp_path / "consumequeue")
    )
    assert found == expected


def test_queues_that_are_gone_are_rebuilt(filled: FilledQueues) -> None:
    """No directory at all, cleanly closed or not: the same files again, and the caller is told first."""
    before = filled.files()
    assert len(before) > 6
    filled.queues.destroy()
    told: list[str] = []
    queues = filled.open_queues()
    dispatcher = bring_up_to_date(
        filled.log,
        queues,
        filled.log.max_offset,
        after_crash=False,
        on_rebuild=lambda: told.append("rebuild"),
    )
    assert filled.files() == before
    assert told == ["rebuild"]
    assert dispatcher.dispatched_offset == filled.log.max_offset
    assert queues.follow_log is False


def test_complete_queues_are_left_alone(filled: FilledQueues) -> None:
    """A clean stop: nothing is rebuilt, and the dispatcher stands at the end."""
    before = filled.files()
    queues = filled.open_queues()
    dispatcher = bring_up_to_date(
        filled.log, queues, filled.log.max_offset, after_crash=False, on_rebuild=pytest.fail
    )
    assert filled.files() == before
    assert dispatcher.run_once() == 0


def test_queues_that_are_behind_catch_up(filled: FilledQueues) -> None:
    """What was appended and never dispatched gets its entries."""
    start = filled.log.max_offset
    for _ in range(200):
        filled.append(topic="c")
    bring_up_to_date(filled.log, filled.open_queues(), start, after_crash=True, on_rebuild=pytest.fail)
    assert filled.open_queues().next_queue_offset("c", 0) == 200


@pytest.mark.parametrize("torn", [0, 1, 50])
def test_torn_queues_are_cut_and_filled_again(filled: FilledQueues, torn: int) -> None:
    """Pages behind the durable offset lost or kept at will: the same files in the end."""
    before = filled.files()
    start = middle_of(filled)
    for topic, queue_id in filled.queues.queues():
        queue = filled.queues.find(topic, queue_id)
        assert queue is not None
        durable = queue.end_below(start)
        for lost in range(durable, queue.max_offset, max(1, torn)):
            path = filled.directory / topic / str(queue_id) / f"{lost // 100 * 2000:020d}"
            filled.file_system.map(path, 2000).write(lost % 100 * 20 + 4, bytes(12))
            if torn == 0:
                break
    bring_up_to_date(filled.log, filled.open_queues(), start, after_crash=True, on_rebuild=pytest.fail)
    assert filled.files() == before


def test_queues_ahead_of_the_log_are_cut(filled: FilledQueues) -> None:
    """The log lost its tail, the queues did not: no entry points behind the log's end."""
    end = middle_of(filled)
    filled.log.set_end(end, 0)
    queues = filled.open_queues()
    bring_up_to_date(filled.log, queues, end, after_crash=True, on_rebuild=pytest.fail)
    assert queues.max_physical_offset <= end
    assert sum(queues.next_queue_offset(*queue) for queue in queues.queues()) > 0


def test_a_queue_that_lost_its_files_is_noticed(filled: FilledQueues) -> None:
    """One queue deleted by hand: its next message does not fit, so all queues are rebuilt."""
    before = filled.files()
    filled.queues.find_or_create("a", 1).destroy()
    told: list[str] = []
    bring_up_to_date(
        filled.log,
        filled.open_queues(),
        middle_of(filled),
        after_crash=True,
        on_rebuild=lambda: told.append("x"),
    )
    assert told == ["x"]
    assert filled.files() == before


@pytest.mark.parametrize("after_crash", [True, False])
def test_queues_without_a_log_are_deleted(file_system: FileSystem, root: Path, *, after_crash: bool) -> None:
    """The log's directory was deleted: nothing is left to point to, and numbers begin at 0 again."""
    FilledQueues(file_system, root / "old").put()
    filled = FilledQueues(file_system, root / "new")
    queues = filled.open_queues(root / "old" / "consumequeue")
    assert queues.next_queue_offset("orders", 0) == 1
    told: list[str] = []
    dispatcher = bring_up_to_date(
        filled.log, queues, 0, after_crash=after_crash, on_rebuild=lambda: told.append("x")
    )
    assert told == ["x"]
    assert queues.queues() == []
    assert queues.next_queue_offset("orders", 0) == 0
    assert filled.files(root / "old" / "consumequeue") == {}
    filled.append()
    assert dispatcher.run_once() > 0
    assert queues.next_queue_offset("orders", 0) == 1


def test_a_log_that_lost_its_first_segments(filled: FilledQueues) -> None:
    """Queues begin above 0 with pre-blank entries, and every message that is kept is found."""
    old = {
        queue: (
            filled.queues.find_or_create(*queue).end_below(SEGMENT_BYTES),
            filled.queues.next_queue_offset(*queue),
        )
        for queue in filled.queues.queues()
    }
    filled.log.files.delete_first()
    queues = filled.open_queues()
    rebuild_consume_queues(filled.log, queues)
    for queue, expected in old.items():
        rebuilt = queues.find(*queue)
        assert rebuilt is not None
        assert (rebuilt.min_offset, rebuilt.max_offset) == expected
    again = filled.open_queues()
    assert {queue: again.find_or_create(*queue).min_offset for queue in again.queues()} == {
        queue: first for queue, (first, _) in old.items()
    }


def test_an_interrupted_rebuild_can_be_repeated() -> None:
    """A full disk in the middle: an error; run again with room, the result is whole."""
    file_system = MemoryFileSystem()
    filled = FilledQueues(file_system, Path("/store"))
    for at in range(1000):
        filled.put(topic=f"topic-{at % 3}")
    before = filled.files()
    file_system.free_bytes = 5_000
    queues = filled.open_queues()
    with pytest.raises(StoreFull):
        rebuild_consume_queues(filled.log, queues)
    assert queues.follow_log is False
    file_system.free_bytes = 2**30
    rebuild_consume_queues(filled.log, queues)
    assert filled.files() == before


def test_progress_is_told(filled: FilledQueues) -> None:
    """Bytes dispatched, up to all that the log holds."""
    seen: list[tuple[str, int, int]] = []
    rebuild_consume_queues(
        filled.log, filled.open_queues(), on_progress=lambda *progress: seen.append(progress)
    )
    assert seen == sorted(seen)
    log_bytes = filled.log.max_offset - filled.log.min_offset
    assert seen[-1] == ("dispatch", log_bytes, log_bytes)
