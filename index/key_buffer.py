"""The key buffer: keys that were read from the log and are not stored yet.

New keys are put into one fixed array by the kernel, unsorted: that is all the work done behind each put.
They are sorted into runs (key_run.py) when somebody asks for them, or when the array is full.

It stores nothing and answers no query (key_index.py). Threads: its owner calls it under a lock; the runs
that it hands out are immutable and may be used without.
"""

from typing import NamedTuple

import numpy as np

from mqstore.index.key_index_format import PHYSICAL_OFFSET
from mqstore.index.key_run import KeyRun, merge_count
from mqstore.store.commit_log import LogChunk

__all__ = ["KeyBuffer", "Taken"]

_ROWS = 1 << 16
# One record can have 32,767 bytes of properties, hence fewer keys than this; see `key_entries`.
_MAX_ROWS_OF_A_RECORD = 1 << 14
assert _ROWS > _MAX_ROWS_OF_A_RECORD > 32_767 // 2


class Taken(NamedTuple):
    """What became of a chunk: bytes used up, and the last record in them (-1, -1 when there was none)."""

    consumed_bytes: int
    last_offset: int
    last_store_timestamp: int


class KeyBuffer:
    """Entries in the order of the log, the newest of them unsorted."""

    def __init__(self) -> None:
        self._runs: list[KeyRun] = []
        self._rows = np.empty((_ROWS, 3), np.int64)
        # Rows in use.
        self._count = 0

    @property
    def entry_count(self) -> int:
        """Entries held; a key that a message has twice may count twice."""
        return self._count + sum(len(run) for run in self._runs)

    def take(self, chunk: LogChunk, least_offset: int) -> Taken:
        """Take in the keys of the whole records of `chunk` that begin at or above `least_offset`."""
        from mqstore.index.keys import kernels

        consumed, last_offset, last_store_timestamp = 0, -1, -1
        while True:
            used, count, last_at, last_time, ending = kernels.key_entries(
                chunk.data[consumed:], chunk.base_offset + consumed, self._rows, self._count
            )
            if last_at >= 0:
                last_offset, last_store_timestamp = chunk.base_offset + consumed + last_at, last_time
            self._keep(count, least_offset)
            consumed += used
            if ending != kernels.ENDING_NO_ROOM:
                break
            self._settle()
        if ending == kernels.ENDING_BLANK:
            consumed = chunk.segment_end - chunk.base_offset
        return Taken(consumed, last_offset, last_store_timestamp)

    def _keep(self, count: int, least_offset: int) -> None:
        """Count rows up to `count` as in use, but for those of records below `least_offset`."""
        new = self._rows[self._count : count]
        if len(new) and new[0, PHYSICAL_OFFSET] < least_offset:
            kept = new[new[:, PHYSICAL_OFFSET] >= least_offset]
            count = self._count + len(kept)
            self._rows[self._count : count] = kept
        self._count = count

    def _settle(self) -> None:
        """Sort the unsorted rows into a run."""
        if not self._count:
            return
        run = KeyRun.of_rows(self._rows[: self._count])
        self._count = 0
        merged = merge_count(map(len, reversed(self._runs)), len(run))
        if merged:
            run = KeyRun.merged([*self._runs[-merged:], run])
            del self._runs[-merged:]
        self._runs.append(run)

    def runs(self) -> tuple[KeyRun, ...]:
        """All entries, sorted into runs, the oldest first."""
        self._settle()
        return tuple(self._runs)

    def keep_between(self, least_offset: int, below_offset: int) -> None:
        """Drop the entries of records outside a range of the log."""
        self._settle()
        kept = [run.between(least_offset, below_offset) for run in self._runs]
        self._runs = [run for run in kept if len(run)]

    def clear(self) -> None:
        """Drop everything."""
        self._runs.clear()
        self._count = 0

    def __repr__(self) -> str:
        return f"KeyBuffer(entries={self.entry_count})"
