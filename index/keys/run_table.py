"""A table of sorted runs, for the compiled search: where each run lies in memory, and what it covers.

One search in all runs is one call of a loop. The table keeps the memory of its runs alive; where that is
LMDB's map, it is valid as long as the transaction. Threads: immutable.

The search is that of direct_search.py where it was built with the package, else that of run_kernels.py.
"""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from mqstore.index.keys.key_index_format import RunHeader
from mqstore.index.keys.run_row import COLUMNS, HEADER
from mqstore.index.keys.sorted_run import SortedRun
from mqstore.store.clock import END_OF_TIME_MS
from mqstore.store.log.log_offsets import END_OF_LOG
from mqstore.store.loops.extension_module import module_beside

__all__ = ["DIRECT_SEARCH", "RunTable"]

_ANY: Final = RunHeader(END_OF_LOG, -END_OF_TIME_MS, END_OF_TIME_MS)
# A key seldom has more records.
_FEW: Final = 64
DIRECT_SEARCH: Final = module_beside(
    __file__, __package__, "search_machine_code", switch="MQSTORE_DIRECT_READ", what="key searches"
)
"""The extension module of direct_search.py; None if it was not built."""


class RunTable:
    """Some sorted runs, the newest first."""

    __slots__ = ("_address", "_direct", "_runs", "_search", "_table")

    def __init__(self, runs: Iterable[tuple[int, RunHeader, SortedRun]]) -> None:
        """runs: with the offset of the oldest record of each, and what its entries cover."""
        # Bound here: an import statement takes as long as the search.
        self._direct: Callable[..., list[int]] | None = None
        self._search: Callable[..., int] | None = None
        if DIRECT_SEARCH is not None:
            self._direct = DIRECT_SEARCH.newest_offsets
        else:
            from mqstore.index.keys.run_kernels import newest_offsets

            self._search = newest_offsets
        self._runs = tuple(runs)
        self._table = np.empty((len(self._runs), COLUMNS), np.int64)
        self._address = self._table.ctypes.data
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
        text: bytes,
        begin_ms: int,
        end_ms: int,
        least_offset: int,
        below_offset: int,
        limit: int,
    ) -> list[int]:
        """Offsets of records that may have a key, in no order; the newest `limit` of them are there.

        text: UTF-8 of `topic#key`. Times both included, of 64 bits; offsets from the least to the one below.
        """
        if self._direct is not None:
            return self._direct(
                self._address, len(self._runs), text, begin_ms, end_ms, least_offset, below_offset, limit
            )
        assert self._search is not None
        data, found = np.frombuffer(text, np.uint8), np.empty(_FEW, np.int64)
        while True:
            count = self._search(
                self._table, data, begin_ms, end_ms, least_offset, below_offset, limit, found
            )
            if count >= 0:
                offsets: list[int] = found[:count].tolist()
                return offsets
            found = np.empty(-count, np.int64)

    def __repr__(self) -> str:
        return f"RunTable(runs={len(self)})"
