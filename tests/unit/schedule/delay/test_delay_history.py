"""The delay history: which table holds for which records, through changes, crashes and retention."""

import pytest

from mqstore.schedule.delay.delay_history import DelayHistory, DelayTable
from mqstore.schedule.delay.delay_levels import DelayLevels

OLD, NEW, NEWEST = DelayLevels.parse("1s 5s"), DelayLevels.parse("2s"), DelayLevels.parse("3s 6s 9s")


def test_a_changed_table_holds_from_the_end_of_the_log_on() -> None:
    """The records before it keep the table that they were stored under."""
    history = DelayHistory.of(OLD).changed(4_096, NEW)
    assert history.tables == (DelayTable(0, OLD), DelayTable(4_096, NEW))
    assert history.newest is NEW


def test_the_same_table_adds_nothing() -> None:
    """As at each opening with the settings of before."""
    history = DelayHistory.of(OLD).changed(4_096, NEW)
    assert history.changed(8_192, DelayLevels.parse("2s")) == history


@pytest.mark.parametrize("end_offset", [0, 4_095, 4_096])
def test_a_table_that_no_record_has_met_is_left_out(end_offset: int) -> None:
    """A crash has moved the end of the log back to where it began to hold, or before."""
    history = DelayHistory.of(OLD).changed(4_096, NEW).changed(end_offset, NEWEST)
    expected = (
        DelayHistory.of(NEWEST) if end_offset == 0 else DelayHistory.of(OLD).changed(end_offset, NEWEST)
    )
    assert history == expected


def test_tables_of_expired_records_go() -> None:
    """The one that holds at the first record stays, though it began before it."""
    history = DelayHistory.of(OLD).changed(4_096, NEW).changed(8_192, NEWEST)
    assert history.without_expired(4_095) == history
    assert history.without_expired(4_096).tables[0] == DelayTable(4_096, NEW)
    assert history.without_expired(9_000).tables == (DelayTable(8_192, NEWEST),)


def test_shorter_tables_are_filled_up_with_their_last_delay() -> None:
    """A level above a table's gets its highest, so a compiled loop needs no lengths."""
    history = DelayHistory.of(OLD).changed(4_096, NEWEST)
    assert history.as_array().tolist() == [[0, 1_000, 5_000, 5_000], [4_096, 3_000, 6_000, 9_000]]


def test_equal_histories_are_equal_and_show_their_tables() -> None:
    """By value, as settings are compared."""
    history = DelayHistory.of(OLD).changed(7, NEW)
    assert hash(history) == hash(DelayHistory.of(DelayLevels.parse("1s 5s")).changed(7, NEW))
    assert repr(history) == "DelayHistory(0: '1s 5s', 7: '2s')"
