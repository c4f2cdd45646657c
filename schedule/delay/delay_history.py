"""The delay history: which table of delay levels held for which records of the log.

An entry of SCHEDULE_TOPIC_XXXX holds the time at which its message is due: the store time plus the delay of
its level, by the table that held then. To rebuild or check such an entry, that table is needed. Tables
change when a store is opened, at the physical offset where the log then ends. Immutable, any thread.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.schedule.delay.delay_levels import DelayLevels

__all__ = ["DelayHistory", "DelayTable"]


class DelayTable(NamedTuple):
    """`levels` hold for records from this physical offset on."""

    from_offset: int
    levels: DelayLevels


class DelayHistory:
    """Tables of delays, ascending by the offset from which they hold; the first holds before it, too.

    >>> history = DelayHistory.of(DelayLevels.parse("1s 5s")).changed(4096, DelayLevels.parse("9s"))
    >>> history
    DelayHistory(0: '1s 5s', 4096: '9s')
    >>> history.as_array().tolist()
    [[0, 1000, 5000], [4096, 9000, 9000]]
    """

    __slots__ = ("tables",)

    def __init__(self, tables: tuple[DelayTable, ...]) -> None:
        assert tables, "a history without a table"
        self.tables = tables

    @classmethod
    def of(cls, levels: DelayLevels) -> "DelayHistory":
        """One table for all records."""
        return cls((DelayTable(0, levels),))

    @property
    def newest(self) -> DelayLevels:
        """The table that holds at the end of the log."""
        return self.tables[-1].levels

    def changed(self, end_offset: int, levels: DelayLevels) -> "DelayHistory":
        """The same history, with `levels` for the records from the log's end on.

        Tables from the end on hold for no record and are left out: a crash may have moved the end back.
        """
        tables = [table for table in self.tables if table.from_offset < end_offset]
        if not tables:
            return DelayHistory((DelayTable(0, levels),))
        if tables[-1].levels != levels:
            tables.append(DelayTable(end_offset, levels))
        return DelayHistory(tuple(tables))

    def without_expired(self, min_offset: int) -> "DelayHistory":
        """Without the tables of records that are gone."""
        first = sum(table.from_offset <= min_offset for table in self.tables[1:])
        return DelayHistory(self.tables[first:])

    def as_array(self) -> npt.NDArray[np.int64]:
        """One row a table: the offset from which it holds, then its delays in ms by level.

        Shorter tables are filled up with their last delay, which is what a higher level gets.
        """
        width = 1 + max(len(table.levels) for table in self.tables)
        array = np.empty((len(self.tables), width), np.int64)
        for row, (from_offset, levels) in zip(array, self.tables, strict=True):
            row[: 1 + len(levels)] = levels.as_array()
            row[1 + len(levels) :] = row[len(levels)]
            row[0] = from_offset
        return array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DelayHistory) and self.tables == other.tables

    def __hash__(self) -> int:
        return hash(self.tables)

    def __repr__(self) -> str:
        return f"DelayHistory({', '.join(f'{offset}: {levels.text!r}' for offset, levels in self.tables)})"
