"""The key buffer: keys that were read from the log and are not stored yet.

The kernel puts new keys into one fixed array, unsorted: each put costs no more work than that. They are
sorted into runs (sorted_run.py) when a caller asks for runs, or when the array is full.

It stores nothing and answers no query (lmdb_key_index.py). Threads: its owner calls it under a lock; the runs
that it returns are immutable and may be used without it.
"""

from typing import NamedTuple

import numpy as np

from mqstore.index.keys.key_index_format import PHYSICAL_OFFSET, KeyIndexState
from mqstore.index.keys.sorted_run import SortedRun, merge_count
from mqstore.store.log.log_reader import LogChunk

__all__ = ["KeyBuffer"]

_ROWS = 1 << 16
# One record can have 32,767 bytes of properties, hence fewer keys than this; see `key_entries`.
_MAX_ROWS_OF_A_RECORD = 1 << 14
assert _ROWS > _MAX_ROWS_OF_A_RECORD > 32_767 // 2


class KeyBuffer:
    """Entries in the order of the log, the newest of them unsorted, and how far in the log they reach."""

    def __init__(self, state: KeyIndexState) -> None:
        """state: where the stored entries end."""
        self._rows = np.empty((_ROWS, 3), np.int64)
        # Replaced as a whole by each change: an interrupt (Ctrl-C) at any place leaves the state before it or
        # the state after it. Rows that are not in use may hold anything.
        self._held = _Held((), 0, state)

    @property
    def state(self) -> KeyIndexState:
        """How far the entries reach, stored ones included."""
        return self._held.state

    @property
    def entry_count(self) -> int:
        """Entries held; a key that a message has twice may count twice."""
        held = self._held
        return held.row_count + sum(len(run) for run in held.runs)

    def take(self, chunk: LogChunk) -> int:
        """Add the keys of the whole records of `chunk`, from where the entries end; bytes used up."""
        from mqstore.index.keys import key_kernels

        consumed, ending = 0, key_kernels.ENDING_NO_ROOM
        while ending == key_kernels.ENDING_NO_ROOM:
            held = self._held
            offset = chunk.base_offset + consumed
            used, row_count, last_at, last_timestamp, ending = key_kernels.key_entries(
                chunk.data[consumed:], offset, self._rows, held.row_count
            )
            consumed += used
            if ending == key_kernels.ENDING_BLANK:
                consumed = chunk.segment_end - chunk.base_offset
            state = held.state
            if consumed and chunk.base_offset + consumed > state.dispatched_offset:
                last_offset = offset + last_at if last_at >= 0 else -1
                state = state.advanced(chunk.base_offset + consumed, last_offset, last_timestamp)
            row_count = self._without_known(held, row_count)
            self._held = _Held(held.runs, row_count, state)
            if ending == key_kernels.ENDING_NO_ROOM:
                self._sort_new_rows()
        return consumed

    def _without_known(self, held: "_Held", row_count: int) -> int:
        """Drop those of the new rows that were taken before; returns how many rows are in use."""
        least_offset = held.state.dispatched_offset
        new = self._rows[held.row_count : row_count]
        if len(new) and new[0, PHYSICAL_OFFSET] < least_offset:
            kept = new[new[:, PHYSICAL_OFFSET] >= least_offset]
            row_count = held.row_count + len(kept)
            self._rows[held.row_count : row_count] = kept
        return row_count

    def _sort_new_rows(self) -> None:
        """Sort the unsorted rows into a run."""
        held = self._held
        if not held.row_count:
            return
        run, runs = SortedRun.of_rows(self._rows[: held.row_count]), held.runs
        merged = merge_count(map(len, reversed(runs)), len(run))
        if merged:
            run, runs = SortedRun.merged([*runs[-merged:], run]), runs[:-merged]
        self._held = _Held((*runs, run), 0, held.state)

    def runs(self) -> tuple[SortedRun, ...]:
        """All entries, sorted into runs, the oldest first."""
        self._sort_new_rows()
        return self._held.runs

    def keep_between(self, least_offset: int, below_offset: int, state: KeyIndexState) -> None:
        """Drop the entries of records outside a range of the log; the rest reach to `state`."""
        self._sort_new_rows()
        kept = (run.between(least_offset, below_offset) for run in self._held.runs)
        self._held = _Held(tuple(run for run in kept if len(run)), 0, state)

    def clear(self) -> None:
        """Drop all entries: they are stored."""
        self._held = _Held((), 0, self._held.state)

    def __repr__(self) -> str:
        return f"KeyBuffer(entries={self.entry_count})"


class _Held(NamedTuple):
    """What a buffer holds: sorted runs, the number of rows in use behind them, and how far they reach."""

    runs: tuple[SortedRun, ...]
    row_count: int
    state: KeyIndexState
