"""The stored runs: what is read and written inside a transaction of the key index.

Plain functions; they return copies, unless the docstring says otherwise. Those that read take the pairs of a
snapshot (lmdb_values.py), so that only what is looked at comes from the disk; those that write take an LMDB
transaction, and read the newest runs only. A function that writes may be run again from the start, for
example after the map was too small. Bytes: key_index_format.py. Opening, commits and locks:
lmdb_key_index.py and lmdb_environment.py.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from mqstore.index.keys.key_index_format import (
    ENTRY_BYTES,
    RUN_HEADER_BYTES,
    STATE_KEY,
    KeyIndexState,
    decode_run_header,
    decode_state,
    encode_run_key,
    encode_state,
    is_run_key,
    run_key_offset,
)
from mqstore.index.keys.run_table import RunTable
from mqstore.index.keys.sorted_run import MAX_RUN_ENTRIES, SortedRun, merge_count
from mqstore.index.lmdb_files.lmdb_environment import Contents
from mqstore.index.lmdb_files.lmdb_values import Pairs
from mqstore.store.log.log_offsets import END_OF_LOG

if TYPE_CHECKING:
    from mqstore.index.lmdb_files.lmdb_environment import Transaction

__all__ = [
    "CONTENTS",
    "count_entries",
    "cut",
    "drop_runs",
    "is_usable",
    "lend_runs",
    "oldest_run_ends",
    "read_state",
    "rows_between",
    "store",
]


def is_usable(pairs: Pairs) -> bool:
    """Whether the state is of this version and all else are runs, or nothing has been stored at all.

    Only lengths are checked, so that no read leaves a value; a wrong entry shows by its record.
    """
    if not pairs:
        return True
    (first_key, state), *runs = pairs
    if first_key != STATE_KEY or decode_state(state) is None:
        return False
    return all(_is_run(key, value) for key, value in runs)


def _is_run(key: bytes | memoryview, value: memoryview) -> bool:
    entries_bytes = len(value) - RUN_HEADER_BYTES
    return is_run_key(key) and entries_bytes > 0 and entries_bytes % ENTRY_BYTES == 0


CONTENTS: Final = Contents(is_usable, max_commit_bytes=2 * ENTRY_BYTES * MAX_RUN_ENTRIES)
"""Sorted runs, and how far they reach. A commit writes a run of the greatest length at most."""


def read_state(transaction: "Transaction") -> KeyIndexState:
    """How far the stored runs reach; the beginning of the log when nothing is stored."""
    value = transaction.get(STATE_KEY)
    return (decode_state(value) if value is not None else None) or KeyIndexState(0)


def _stored_runs(pairs: Pairs) -> Iterator[tuple[int, memoryview]]:
    """Oldest offset and value of each run, the newest first; valid until the transaction ends."""
    return ((run_key_offset(key), value) for key, value in reversed(pairs) if is_run_key(key))


def count_entries(pairs: Pairs) -> int:
    """Entries of all stored runs."""
    return sum(len(SortedRun.decode(value)) for _, value in _stored_runs(pairs))


def rows_between(pairs: Pairs, least_offset: int, below_offset: int) -> SortedRun:
    """All stored entries of records in a range of the log."""
    pieces = [SortedRun(np.empty((0, 3), np.int64))]
    for oldest_offset, value in _stored_runs(pairs):
        if oldest_offset < below_offset:
            pieces.append(SortedRun.decode(value).between(least_offset, below_offset))
        if decode_run_header(value).newest_offset < least_offset:
            break
    return SortedRun.merged(pieces[::-1])


def lend_runs(pairs: Pairs) -> RunTable:
    """The runs; valid until the transaction ends."""
    return RunTable(
        (oldest_offset, decode_run_header(value), SortedRun.decode(value))
        for oldest_offset, value in _stored_runs(pairs)
    )


def store(transaction: "Transaction", runs: Sequence[SortedRun], state: KeyIndexState) -> None:
    """Add runs, and the state that includes them. Entries that are stored already are skipped."""
    reached = read_state(transaction).dispatched_offset
    if runs and runs[0].oldest_offset < reached:
        kept = (run.between(reached, END_OF_LOG) for run in runs)
        runs = [run for run in kept if len(run)]
    if runs and sum(map(len, runs)) <= MAX_RUN_ENTRIES:
        runs = [SortedRun.merged(runs)]
    for run in runs:
        _store_run(transaction, run)
    transaction.put(STATE_KEY, encode_state(state))


def _newest_runs(transaction: "Transaction") -> Iterator[tuple[memoryview, memoryview]]:
    """Key and value of each run, the newest first; valid until the transaction ends or writes.

    py-lmdb reads through each value: the caller stops as soon as it can.
    """
    cursor = transaction.cursor()
    if cursor.last():
        for key, value in cursor.iterprev():
            if not is_run_key(key):
                return
            yield key, value


def _store_run(transaction: "Transaction", run: SortedRun) -> None:
    """Add the newest run, merged with older ones by the rule of `merge_count`."""
    looked_at: list[tuple[bytes, SortedRun]] = []

    def lengths() -> Iterator[int]:
        for key, value in _newest_runs(transaction):
            looked_at.append((bytes(key), SortedRun.decode(value)))
            yield len(looked_at[-1][1])

    joining = looked_at[: merge_count(lengths(), len(run))]
    merged = SortedRun.merged([*(older for _, older in reversed(joining)), run])
    for key, _ in joining:
        transaction.delete(key)
    transaction.put(encode_run_key(merged.oldest_offset), merged.encode())


def cut(transaction: "Transaction", state: KeyIndexState) -> None:
    """Drop the entries of all records at or above the offset of `state`."""
    end_offset = state.dispatched_offset
    kept: SortedRun | None = None
    doomed: list[bytes] = []
    for run_key, value in _newest_runs(transaction):
        if decode_run_header(value).newest_offset < end_offset:
            break
        doomed.append(bytes(run_key))
        # Only the oldest of the runs that reach beyond can have entries below.
        kept = SortedRun.decode(value).between(0, end_offset)
    for doomed_key in doomed:
        transaction.delete(doomed_key)
    if kept is not None and len(kept):
        transaction.put(encode_run_key(kept.oldest_offset), kept.encode())
    transaction.put(STATE_KEY, encode_state(state))


def oldest_run_ends(transaction: "Transaction") -> int:
    """Physical offset of the newest record in the oldest run."""
    cursor = transaction.cursor()
    if not cursor.set_range(encode_run_key(0)):
        return END_OF_LOG
    return decode_run_header(cursor.value()).newest_offset


def drop_runs(transaction: "Transaction", min_physical_offset: int) -> None:
    """Remove the runs all of whose records lie below `min_physical_offset`."""
    cursor = transaction.cursor()
    while (
        cursor.set_range(encode_run_key(0))
        and decode_run_header(cursor.value()).newest_offset < min_physical_offset
    ):
        cursor.delete()
