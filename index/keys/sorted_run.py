"""A sorted run: the keys of one range of the log, sorted so that a key is found by bisection.

Rows are (hash of topic#key, store timestamp, physical offset), ascending by hash, then by offset; a message
that has a key twice has it once here. A run never changes: runs that follow each other in the log are
merged into a new one, by the rule of a binary counter (`merge_count`), so that there are few of them and
each entry is copied a number of times that grows with the logarithm only.

It does not know where its rows are: in memory (key_buffer.py) or in LMDB's map (lmdb_key_index.py). A merged
run is made as the bytes that LMDB keeps, in one pass (run_kernels.py): the largest has 24 MiB, and each copy
more would be memory of the process. Bytes: key_index_format.py. Threads: immutable.
"""

import sys
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mqstore.index.keys.key_index_format import (
    ENTRY_BYTES,
    HASH,
    PHYSICAL_OFFSET,
    RUN_HEADER_BYTES,
    STORE_TIMESTAMP,
    Entries,
    RunHeader,
    decode_entries,
    encode_run,
    encode_run_header,
)
from mqstore.index.keys.run_row import COLUMNS, OLDEST_OFFSET

__all__ = ["MAX_RUN_ENTRIES", "SortedRun", "merge_count"]

MAX_RUN_ENTRIES = 1 << 20
"""Runs are not merged beyond this (24 MiB): each further merge copies more and saves fewer searches."""


class SortedRun:
    """Sorted entries of one range of the log. `rows` may be big-endian, and a view into LMDB's map."""

    def __init__(self, rows: Entries, encoded: bytearray | None = None) -> None:
        """encoded: what LMDB keeps, if `rows` lie in it; its header need not be there."""
        self.rows = rows
        self._encoded = encoded

    @classmethod
    def of_rows(cls, rows: Entries) -> "SortedRun":
        """Sort rows that come in the order of the log. Copies them."""
        # Stable, so that equal hashes stay in the order of the log.
        rows = rows[np.argsort(rows[:, HASH], kind="stable")].astype(np.int64, copy=False)
        hashes, offsets = rows[:, HASH], rows[:, PHYSICAL_OFFSET]
        repeated = (hashes[1:] == hashes[:-1]) & (offsets[1:] == offsets[:-1])
        if repeated.any():
            rows = rows[np.concatenate(([True], ~repeated))]
        return cls(rows)

    @classmethod
    def merged(cls, runs: Sequence["SortedRun"]) -> "SortedRun":
        """One run of all entries of `runs`, which follow each other in the log. Copies them."""
        from mqstore.index.keys.run_kernels import merge

        table = np.zeros((len(runs), COLUMNS), np.int64)
        for row, run in zip(table, runs, strict=True):
            row[:OLDEST_OFFSET] = run.address, len(run), run.is_big_endian
        value = bytearray(RUN_HEADER_BYTES + ENTRY_BYTES * sum(map(len, runs)))
        heads, hashes = np.empty(len(runs), np.int64), np.empty(len(runs), np.int64)
        merge(table, heads, hashes, np.frombuffer(value, np.uint8, offset=RUN_HEADER_BYTES))
        return cls(decode_entries(value), value)

    @classmethod
    def decode(cls, value: bytes | memoryview) -> "SortedRun":
        """The run that LMDB keeps as `value`, as a view."""
        return cls(decode_entries(value))

    def encode(self) -> bytearray:
        """The bytes that LMDB keeps; nobody may change them."""
        if self._encoded is None:
            return encode_run(self.header, self.rows)
        encode_run_header(self._encoded, self.header)
        return self._encoded

    @property
    def header(self) -> RunHeader:
        """Newest offset, least and greatest store time. Looks at all entries."""
        times = self.rows[:, STORE_TIMESTAMP]
        return RunHeader(int(self.rows[:, PHYSICAL_OFFSET].max()), int(times.min()), int(times.max()))

    @property
    def oldest_offset(self) -> int:
        """Physical offset of the oldest record. Looks at all entries."""
        return int(self.rows[:, PHYSICAL_OFFSET].min())

    def __len__(self) -> int:
        return len(self.rows)

    def offsets(
        self, code: int, begin_ms: int, end_ms: int, least_offset: int, below_offset: int
    ) -> npt.NDArray[np.int64]:
        """Offsets of the records with this hash in the ranges of time and of offset, ascending. Copies.

        The plain twin of the search of run_kernels.py.
        """
        hashes = self.rows[:, HASH]
        rows = self.rows[np.searchsorted(hashes, code) : np.searchsorted(hashes, code, side="right")]
        times, offsets = rows[:, STORE_TIMESTAMP], rows[:, PHYSICAL_OFFSET]
        wanted = (
            (times >= begin_ms) & (times <= end_ms) & (offsets >= least_offset) & (offsets < below_offset)
        )
        return offsets[wanted].astype(np.int64)

    @property
    def address(self) -> int:
        """Where the rows lie in memory, one behind the other."""
        assert self.rows.flags.c_contiguous
        return self.rows.ctypes.data

    @property
    def is_big_endian(self) -> bool:
        """Whether the rows are as LMDB has them."""
        return self.rows.dtype.byteorder == ">" or (self.rows.dtype.isnative and sys.byteorder == "big")

    def between(self, least_offset: int, below_offset: int) -> "SortedRun":
        """The entries whose records begin in a range of the log. Copies."""
        offsets = self.rows[:, PHYSICAL_OFFSET]
        return SortedRun(self.rows[(offsets >= least_offset) & (offsets < below_offset)].astype(np.int64))

    def __repr__(self) -> str:
        return f"SortedRun(entries={len(self)})"


def merge_count(older_counts: Iterable[int], entry_count: int) -> int:
    """How many of the older runs, given from the newest on, a new run of `entry_count` is merged with.

    A run joins while the next older one is less than twice as long as what has been gathered.

    >>> merge_count([4, 8, 64], 4), merge_count([8, 64], 4)
    (2, 0)
    """
    count = 0
    for older_count in older_counts:
        if older_count >= 2 * entry_count or older_count + entry_count > MAX_RUN_ENTRIES:
            break
        entry_count += older_count
        count += 1
    return count
