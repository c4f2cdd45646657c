"""The partitioned directory: rows in files by topic and date, named as Hive does.

    topic=orders/date=2026-11-22/part-00000.parquet
    topic=%25RETRY%25billing/date=2026-11-23/part-00000.parquet

The date is that of the store time, in UTC; a store time that no calendar has is Hive's null. The files have
no column `topic`, since readers take it from the path. Rows of one file keep the order in which they came.

At most `_MOST_OPEN` files are open: beyond that the one that waited longest for a row is closed, and a later
row of its date begins the next part. At most `_MOST_WAITING_BYTES` wait in memory for their row groups.
Imported when an export begins, since it imports pyarrow.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqstore.tools.export.row_writers import RowWriter

__all__ = ["PartitionedDirectory"]

_MOST_OPEN: Final = 64
_MOST_WAITING_BYTES: Final = 128 << 20
_DAY_MS: Final = 86_400_000
_EPOCH: Final = date(1970, 1, 1)
_FIRST_DAY: Final = (date.min - _EPOCH).days
_LAST_DAY: Final = (date.max - _EPOCH).days
_NO_DAY: Final = _LAST_DAY + 1
_NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"

OpenWriter = Callable[[BinaryIO, pa.RecordBatch], RowWriter]
"""Makes the writer of a new file, whose first rows are given."""


class PartitionedDirectory:
    """Files below `root`, which exists and is empty. After an error call `abandon`, else `close`."""

    def __init__(self, root: Path, suffix: str, open_writer: OpenWriter) -> None:
        self._root = root
        self._suffix = suffix
        self._open_writer = open_writer
        self._open: OrderedDict[Path, tuple[BinaryIO, RowWriter]] = OrderedDict()
        self._parts: Counter[Path] = Counter()

    def write(self, topic: str, batch: pa.RecordBatch, store_times_ms: npt.NDArray[np.int64]) -> None:
        """Add rows of a topic; `store_times_ms` has one time a row."""
        for day, rows in _by_day(batch, store_times_ms):
            folder = self._root / f"topic={quote(topic, safe='')}" / f"date={_date_text(day)}"
            self._writer(folder, rows).write(rows)
        while self._waiting_bytes() > _MOST_WAITING_BYTES:
            self._most_waiting().flush()

    def close(self) -> None:
        """End all files."""
        while self._open:
            self._close_oldest()

    def abandon(self) -> None:
        """Close all files as they are."""
        for file, writer in self._open.values():
            writer.abandon()
            file.close()
        self._open.clear()

    def _writer(self, folder: Path, rows: pa.RecordBatch) -> RowWriter:
        if folder in self._open:
            self._open.move_to_end(folder)
            return self._open[folder][1]
        if len(self._open) == _MOST_OPEN:
            self._close_oldest()
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f"part-{self._parts[folder]:05}{self._suffix}").open("xb")
        self._parts[folder] += 1
        try:
            writer = self._open_writer(file, rows)
        except BaseException:
            file.close()
            raise
        self._open[folder] = file, writer
        return writer

    def _close_oldest(self) -> None:
        folder = next(iter(self._open))
        file, writer = self._open[folder]
        with file:
            writer.close()
        del self._open[folder]

    def _waiting_bytes(self) -> int:
        return sum(writer.waiting_bytes for _, writer in self._open.values())

    def _most_waiting(self) -> RowWriter:
        return max((writer for _, writer in self._open.values()), key=lambda writer: writer.waiting_bytes)


def _by_day(batch: pa.RecordBatch, times_ms: npt.NDArray[np.int64]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each day, in their order; a day is a number of days since 1970, or _NO_DAY."""
    days = times_ms // _DAY_MS
    days[(days < _FIRST_DAY) | (days > _LAST_DAY)] = _NO_DAY
    order = np.argsort(days, kind="stable")
    bounds = np.flatnonzero(np.diff(days[order])) + 1
    if not bounds.size:
        yield int(days[0]), batch
        return
    for rows in np.split(order, bounds):
        yield int(days[rows[0]]), batch.take(pa.array(rows))


def _date_text(day: int) -> str:
    return _NO_DATE if day == _NO_DAY else (_EPOCH + timedelta(days=day)).isoformat()
