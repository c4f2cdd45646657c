"""A table of sorted runs, for the compiled search: where each run lies in memory, and what it covers.

One search in all runs is one call of a loop. The table keeps the memory of its runs alive; where that is
LMDB's map, it is valid as long as the transaction. Threads: immutable.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from mqstore.index.keys.key_index_format import RunHeader
from mqstore.index.keys.run_row import COLUMNS, HEADER
from mqstore.index.keys.sorted_run import SortedRun
from mqstore.store.clock import END_OF_TIME_MS
from mqstore.store.log.log_offsets import END_OF_LOG

__all__ = ["RunTable"]

_ANY: Final = RunHeader(END_OF_LOG, -END_OF_TIME_MS, END_OF_TIME_MS)
# A key seldom has more records.
_FEW: Final = 64


class RunTable:
    """Some sorted runs, the newest first."""

    __slots__ = ("_runs", "_search", "_table")

    def __init__(self, runs: Iterable[tuple[int, RunHeader, SortedRun]]) -> None:
        """runs: with the offset of the oldest record of each, and what its entries cover."""
        from mqstore.index.keys.run_kernels import newest_offsets

        # Bound here: an import statement takes as long as the search.
        self._search = newest_offsets
        self._runs = tuple(runs)
        self._table = np.empty((len(self._runs), COLUMNS), np.int64)
        for row, (oldest_offset, header, run) in zip(self._table, self._runs, strict=True):
            row[:HEADER] = run.address, len(run), run.is_big_endian, oldest_offset
            row[HEADER:] = header

    @classmethod
    def of(cls, runs: Iterable[SortedRun]) -> "RunTable":
        """Of runs of which it is not known what they cover, the newest first."""
        return cls((0, _ANY, run) for run in runs)

    def __len__(self) -> int:
        return len(self._runs)

    def newest_offsets(
        self,
        text: npt.NDArray[np.uint8],
        begin_ms: int,
        end_ms: int,
        least_offset: int,
        below_offset: int,
        limit: int,
    ) -> npt.NDArray[np.int64]:
        """Offsets of records that may have a key, in no order; the newest `limit` of them are there.

        text: UTF-8 of `topic#key`. Times both included, of 64 bits; offsets from the least to the one below.
        """
        found = np.empty(_FEW, np.int64)
        while True:
            count = self._search(
                self._table, text, begin_ms, end_ms, least_offset, below_offset, limit, found
            )
            if count >= 0:
                return found[:count]
            found = np.empty(-count, np.int64)

    def __repr__(self) -> str:
        return f"RunTable(runs={len(self)})"
