"""The check of the queues: each entry against its record, and the numbering of the queues.

Method: a small log and its queues, whose entries are changed; then runs of messages written by hand.
"""

from pathlib import Path

import numpy as np
import pytest

from mqstore.index.queue.consume_queue_format import ENTRY_BYTES
from mqstore.index.queue.deleted_topics import DeletedTopics
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.finding import Finding
from mqstore.verify.log_outline import LogScan
from mqstore.verify.log_scan import DamagedRange, Piece
from mqstore.verify.queue_check import QueueCheck, Run
from support.stores.filled_queues import FilledQueues

ROOT = Path("/store")
QUEUES = ROOT / "consumequeue"
QUEUE = QUEUES / "orders" / "0" / f"{0:020d}"
NOTHING_DISPATCHED, ALL_DISPATCHED = 0, 2**62


@pytest.fixture
def filled() -> FilledQueues:
    """Five messages of one queue, dispatched; everything is closed to changes but the files."""
    filled = FilledQueues(MemoryFileSystem(), ROOT)
    for number in range(5):
        filled.put(b"body %d" % number)
    return filled


def check_of(
    filled: FilledQueues, *, dispatched_offset: int = ALL_DISPATCHED, after_crash: bool = False
) -> QueueCheck:
    return QueueCheck(
        filled.file_system,
        QUEUES,
        filled.config.mapped_file_size_consume_queue,
        np.zeros((0, 0), np.int64),
        deleted=DeletedTopics({}),
        dispatched_offset=dispatched_offset,
        after_crash=after_crash,
        without_queues={"kept-by-a-broker"},
    )


def changed(filled: FilledQueues, queue_offset: int, entry: bytes) -> None:
    content = bytearray(filled.file_system.read(QUEUE))
    content[queue_offset * ENTRY_BYTES : (queue_offset + 1) * ENTRY_BYTES] = entry
    filled.file_system.write(QUEUE, bytes(content))


def findings(filled: FilledQueues, check: QueueCheck) -> list[Finding]:
    """All that is found in the whole log and its queues."""
    end = filled.log.max_offset
    data = filled.file_system.read(ROOT / "commitlog" / f"{0:020d}")[:end]
    piece = Piece(0, np.frombuffer(data, np.uint8))
    found = list(check.take(check.digest(piece)))
    return found + check.finish(LogScan(0, end, (), -1))[0]


def kinds(found: list[Finding]) -> list[tuple[str, int, bool]]:
    return [(each.kind, each.position // ENTRY_BYTES, each.is_damage) for each in found]


def test_a_sound_queue_has_no_findings(filled: FilledQueues) -> None:
    """And its next message gets the number behind the last."""
    check = check_of(filled)
    assert findings(filled, check) == []
    assert check.next_queue_offset("orders", 0) == 5


def test_a_wrong_entry_is_damage(filled: FilledQueues) -> None:
    """With the place that it should point to, and the one that it does."""
    changed(filled, 2, b"\x01" * ENTRY_BYTES)
    (found,) = findings(filled, check_of(filled))
    assert (found.kind, found.path, found.position, found.times) == ("queue-entry", QUEUE, 40, 1)
    assert found.is_damage


@pytest.mark.parametrize(
    ("entry", "dispatched_offset", "after_crash", "expected"),
    [
        (bytes(ENTRY_BYTES), ALL_DISPATCHED, False, ("queue-entry-missing", 4, True)),
        (bytes(ENTRY_BYTES), NOTHING_DISPATCHED, False, ("queue-entry-missing", 4, False)),
        (b"\x01" * ENTRY_BYTES, NOTHING_DISPATCHED, False, ("queue-entry", 4, True)),
        (b"\x01" * ENTRY_BYTES, NOTHING_DISPATCHED, True, ("queue-entry", 4, False)),
        (b"\x01" * ENTRY_BYTES, ALL_DISPATCHED, True, ("queue-entry", 4, True)),
    ],
)
def test_behind_what_is_dispatched_entries_may_be_missing(
    filled: FilledQueues,
    entry: bytes,
    dispatched_offset: int,
    after_crash: bool,
    expected: tuple[str, int, bool],
) -> None:
    """After a crash they may be torn, too; before that offset both are damage."""
    changed(filled, 4, entry)
    check = check_of(filled, dispatched_offset=dispatched_offset, after_crash=after_crash)
    assert kinds(findings(filled, check)) == [expected]


def run(first: int, messages: int, at: int, topic: str = "t", queue_id: int = 0) -> Run:
    """Messages of 100 bytes from physical offset `at` on."""
    return Run(topic, queue_id, first, messages, at, at + 100 * messages, ())


def test_a_queue_that_starts_again_was_deleted_and_created() -> None:
    """No finding; its end is that of the new one."""
    check = check_of(FilledQueues(MemoryFileSystem(), ROOT))
    assert list(check.take([run(0, 3, 0), run(0, 2, 300)])) == []
    assert check.next_queue_offset("t", 0) == 2


@pytest.mark.parametrize(
    ("runs", "kind"),
    [
        ([run(0, 3, 0), run(2, 2, 300)], "queue-offset"),
        ([run(-1, 1, 0)], "queue-offset"),
        ([run(2**40, 1, 0)], "queue-offset"),
        ([run(0, 1, 0, topic="a/b")], "queue-name"),
        ([run(0, 1, 0, queue_id=-1)], "queue-name"),
    ],
    ids=[
        "given twice",
        "below 0",
        "more than the log has room for",
        "topic no directory",
        "queue no directory",
    ],
)
def test_records_that_fit_no_queue_are_damage(runs: list[Run], kind: str) -> None:
    """At the physical offset of the first one."""
    check = check_of(FilledQueues(MemoryFileSystem(), ROOT))
    (found,) = check.take(runs)
    assert (found.kind, found.position) == (kind, runs[-1].start_offset)
    assert found.is_damage


def test_queues_that_a_broker_keeps_are_not_checked() -> None:
    """Nor is there a bound for what their consumers have read."""
    check = check_of(FilledQueues(MemoryFileSystem(), ROOT))
    assert list(check.take([run(-5, 1, 0, topic="kept-by-a-broker")])) == []
    assert check.next_queue_offset("kept-by-a-broker", 0) == 2**63 - 1


def test_a_hole_in_the_numbering_is_a_lost_message_if_something_is_damaged_there() -> None:
    """Else it is damage of its own."""
    hole = [run(0, 1, 0), run(2, 1, 400)]
    check = check_of(FilledQueues(MemoryFileSystem(), ROOT))
    assert list(check.take(hole)) == []
    found, lost = check.finish(LogScan(0, 500, (DamagedRange(100, 400, "a record", "none"),), -1))
    assert found == []
    assert [(each.queue_offset, each.after_offset, each.before_offset) for each in lost] == [(1, 100, 400)]
    check = check_of(FilledQueues(MemoryFileSystem(), ROOT))
    assert list(check.take(hole)) == []
    (found,), lost = check.finish(LogScan(0, 500, (), -1))
    assert (found.kind, found.times, lost) == ("queue-hole", 1, [])
