"""Queue entries without a record: expired, lost, ahead or damage, by the place that they point to.

Method: the entries of one queue written by hand, beside a log of which only the outline is given.
"""

from pathlib import Path

import numpy as np
import pytest

from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY, ENTRY_BYTES
from mqstore.index.queue.raw_queue import QueueEntries
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.verify.log_outline import LogScan
from mqstore.verify.log_scan import DamagedRange
from mqstore.verify.unclaimed_entries import Gap, LoggedQueue, UnclaimedEntries, runs_above_0

DIRECTORY = Path("/store/consumequeue/t/0")
FILE_ENTRIES = 10
# The log holds 1,000 to 9,000; 4,000 to 5,000 is damaged.
SCAN = LogScan(1_000, 9_000, (DamagedRange(4_000, 5_000, "a record", "none"),), -1)


def unclaimed(*places: tuple[int, int], deleted_to: int = 0, after_crash: bool = False) -> UnclaimedEntries:
    """A queue whose entries point to these (physical offset, size); none of them has a record."""
    data = b"".join(ENTRY.pack(offset, size, 0) for offset, size in places)
    file_system = MemoryFileSystem()
    file_system.make_directories(DIRECTORY)
    file_system.write(DIRECTORY / f"{0:020d}", data.ljust(FILE_ENTRIES * ENTRY_BYTES, b"\0"))
    entries = QueueEntries(file_system, DIRECTORY, FILE_ENTRIES * ENTRY_BYTES)
    judged = UnclaimedEntries("t", 0, entries, SCAN, deleted_to, after_crash=after_crash)
    judged.run(None)
    return judged


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ((500, 100), None),
        ((0, BLANK_SIZE), None),
        ((9_000, 100), "queue-entry-ahead"),
        ((8_950, 100), "queue-entry-ahead"),
        ((2_000, 100), "queue-entry"),
        ((3_950, 100), "queue-entry"),
        ((4_950, 100), "queue-entry"),
    ],
    ids=["expired", "pre-blank", "ahead", "ends ahead", "elsewhere", "begins before", "ends behind"],
)
def test_an_entry_is_judged_by_its_place(place: tuple[int, int], kind: str | None) -> None:
    """Damage after a shutdown; what a crash leaves is a note."""
    for after_crash in (False, True):
        judged = unclaimed(place, after_crash=after_crash)
        expected = [] if kind is None else [(kind, not after_crash)]
        assert [(each.kind, each.is_damage) for each in judged.findings] == expected
        assert judged.lost == []


def test_an_entry_that_points_into_a_damaged_range_is_a_lost_message() -> None:
    """Of which all but the content is known; a size that no record has is damage."""
    judged = unclaimed((4_000, 500), (4_500, 500), (4_100, 10))
    lost = [(each.queue_offset, each.physical_offset, each.size_bytes) for each in judged.lost]
    assert lost == [(0, 4_000, 500), (1, 4_500, 500)]
    assert [(each.kind, each.position) for each in judged.findings] == [("queue-entry", 2 * ENTRY_BYTES)]


def test_entries_of_a_deleted_topic_may_be_left() -> None:
    """Those that point before the offset of the deletion."""
    assert unclaimed((2_000, 100), deleted_to=3_000).findings == []
    assert len(unclaimed((2_000, 100), (3_000, 100), deleted_to=3_000).findings) == 1


def test_a_run_of_wrong_entries_is_one_finding() -> None:
    """With how many they are."""
    judged = unclaimed((2_000, 100), (2_100, 100), (9_000, 100))
    assert [(each.kind, each.times) for each in judged.findings] == [
        ("queue-entry", 2),
        ("queue-entry-ahead", 1),
    ]


@pytest.mark.parametrize(
    ("gap", "lost", "holes"),
    [
        (Gap(1, 3, 4_000, 5_000), [1, 2], 0),
        (Gap(1, 3, 2_000, 3_000), [], 1),
        (Gap(1, 3, 4_100, 5_000), [], 1),
        (Gap(1, 200, 4_000, 5_000), [], 1),
    ],
    ids=["over the damage", "elsewhere", "in a part of it", "more than the range had room for"],
)
def test_a_gap_in_the_numbering(gap: Gap, lost: list[int], holes: int) -> None:
    """Lost messages if the damage between its neighbours had room for all of them."""
    judged = unclaimed()
    queue = LoggedQueue(0, 1_000)
    queue.gaps.append(gap)
    queue.next_offset = gap.stop + 1
    judged.run(queue)
    assert [each.queue_offset for each in judged.lost] == lost
    assert all(each.physical_offset == -1 for each in judged.lost)
    assert [each.kind for each in judged.findings] == ["queue-hole"] * holes


def test_runs_of_equal_kinds() -> None:
    """Zeros are none."""
    assert list(runs_above_0(np.array([0, 1, 1, 2, 0, 0, 2]))) == [(1, 3), (3, 4), (6, 7)]
    assert list(runs_above_0(np.array([], np.int64))) == []
