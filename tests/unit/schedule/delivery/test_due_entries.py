"""Due entries: the prefix that is due, and the guard against clocks that were set back.

Entries are made by hand; store times come from a dictionary.
"""

import numpy as np
import pytest

from mqstore.index.queue.consume_queue_format import ENTRY_DTYPE
from mqstore.schedule.delivery.due_entries import DueEntries, Entries, due_prefix

DELAY_MS = 10_000


def entries(*deliver_ms: int) -> Entries:
    """Entries at physical offsets 0, 1, 2, ... with these deliver times."""
    return np.array([(at, 100, due) for at, due in enumerate(deliver_ms)], dtype=ENTRY_DTYPE)


@pytest.mark.parametrize(
    ("deliver_ms", "now_ms", "expected"),
    [([], 5, 0), ([5], 4, 0), ([5], 5, 1), ([5], 6, 1), ([1, 2, 3], 2, 2), ([1, 9, 3], 5, 1), ([9, 1], 5, 0)],
)
def test_the_due_entries_are_a_prefix(deliver_ms: list[int], now_ms: int, expected: int) -> None:
    """Due at the very millisecond and not before; one that is not due holds those behind it."""
    assert due_prefix(np.array(deliver_ms, dtype=np.int64), now_ms) == expected
    due = DueEntries(DELAY_MS, lambda physical_offset: 0)
    assert due.count(entries(*deliver_ms), 0, len(deliver_ms), now_ms) == expected


def test_a_shorter_level_table_makes_old_entries_due_at_once() -> None:
    """Stored at or before now, but further away than the level's delay: as RocketMQ does."""
    due = DueEntries(DELAY_MS, lambda physical_offset: 1000)
    waiting = entries(1000 + 7_200_000, 1000 + 7_200_000, 1000 + DELAY_MS)
    assert due.count(waiting, 0, 3, now_ms=1000) == 2


def test_exactly_one_delay_away_is_not_too_far() -> None:
    """The guard is strict."""
    due = DueEntries(DELAY_MS, lambda physical_offset: 0)
    assert due.count(entries(DELAY_MS), 0, 1, now_ms=0) == 0


def test_a_clock_set_back_far_makes_nothing_early() -> None:
    """What was stored in the future waits one delay from when it was first seen so, and all of it at once."""
    stored_ms = 10_000_000
    due = DueEntries(DELAY_MS, lambda physical_offset: stored_ms)
    waiting = entries(*[stored_ms + DELAY_MS] * 3)
    seen_ms = stored_ms - 3_600_000
    assert due.count(waiting, 50, 53, seen_ms) == 0
    assert due.count(waiting, 50, 53, seen_ms + DELAY_MS - 1) == 0
    assert due.count(waiting, 50, 53, seen_ms + DELAY_MS) == 3
    assert due.count(waiting[1:], 51, 53, seen_ms + DELAY_MS) == 2


@pytest.mark.parametrize("step_back_ms", [1, 5, DELAY_MS - 1])
def test_a_clock_set_back_a_little_changes_nothing(step_back_ms: int) -> None:
    """The entry is due at its time; RocketMQ would deliver it at once, early by almost a delay."""
    stored_ms = 10_000_000
    due = DueEntries(DELAY_MS, lambda physical_offset: stored_ms)
    waiting = entries(stored_ms + DELAY_MS)
    looks = range(stored_ms - step_back_ms, stored_ms + DELAY_MS, 100)
    assert not any(due.count(waiting, 0, 1, now_ms) for now_ms in (*looks, stored_ms + DELAY_MS - 1))
    assert due.count(waiting, 0, 1, stored_ms + DELAY_MS) == 1


def test_an_entry_that_comes_later_is_held_from_when_it_comes() -> None:
    """The hold covers what was in the queue when it began."""
    stored_ms = 10_000_000
    due = DueEntries(DELAY_MS, lambda physical_offset: stored_ms)
    waiting = entries(stored_ms + DELAY_MS, stored_ms + DELAY_MS)
    assert due.count(waiting[:1], 0, 1, now_ms=0) == 0
    assert due.count(waiting, 0, 2, now_ms=DELAY_MS) == 1
    assert due.count(waiting[1:], 1, 2, now_ms=2 * DELAY_MS) == 1


def test_a_clock_set_back_twice_shortens_the_hold() -> None:
    """An entry never waits longer than one delay after the last step."""
    due = DueEntries(DELAY_MS, lambda physical_offset: 10**9)
    waiting = entries(10**9 + DELAY_MS)
    assert due.count(waiting, 0, 1, now_ms=500_000) == 0
    assert due.count(waiting, 0, 1, now_ms=0) == 0
    assert due.count(waiting, 0, 1, now_ms=DELAY_MS) == 1


def test_the_hold_ends_when_the_clock_comes_right() -> None:
    """Then the deliver time counts, as ever."""
    due = DueEntries(DELAY_MS, lambda physical_offset: 1_000)
    waiting = entries(1_000 + DELAY_MS)
    assert due.count(waiting, 0, 1, now_ms=0) == 0
    assert due.count(waiting, 0, 1, now_ms=1_000) == 0
    assert due.count(waiting, 0, 1, now_ms=1_000 + DELAY_MS) == 1


def test_a_level_outside_the_table_keeps_its_times() -> None:
    """There is no delay to measure it by."""
    due = DueEntries(None, lambda physical_offset: 0)
    assert due.count(entries(7_200_000), 0, 1, now_ms=7_199_999) == 0
    assert due.count(entries(7_200_000), 0, 1, now_ms=7_200_000) == 1


def test_an_unreadable_record_is_called_due() -> None:
    """So that the delivery tries it and shows the error."""
    due = DueEntries(DELAY_MS, lambda physical_offset: -1)
    assert due.count(entries(10**9), 0, 1, now_ms=0) == 1
