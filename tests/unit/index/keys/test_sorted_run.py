"""Sorted runs against plain lists: finding, merging, cutting, and how few there are.

Rows are made up with few different hashes, so that all cases of equal ones occur.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.index.keys.key_index_format import RunHeader
from mqstore.index.keys.sorted_run import MAX_RUN_ENTRIES, SortedRun, merge_count

Row = tuple[int, int, int]


def rows_from(first_offset: int) -> st.SearchStrategy[list[Row]]:
    """Rows in the order of the log, as `key_entries` gives them; repeated keys of a record side by side."""
    steps = st.tuples(st.sampled_from([-(2**63), -1, 0, 5, 2**63 - 1]), st.integers(-9, 9), st.integers(0, 2))

    def add_up(drawn: list[Row]) -> list[Row]:
        rows, offset, time = [], first_offset, 0
        for code, new_time, step in drawn:
            time = time if step == 0 and rows else new_time
            offset += step * 100
            rows.append((code, time, offset))
        return rows

    return st.lists(steps, min_size=1, max_size=30).map(add_up)


def run_of(rows: list[Row]) -> SortedRun:
    return SortedRun.of_rows(np.array(rows, np.int64).reshape(-1, 3))


def listed(run: SortedRun) -> list[Row]:
    return [(int(code), int(time), int(offset)) for code, time, offset in run.rows]


@pytest.mark.slow
@given(rows_from(0), st.integers(-9, 9), st.integers(-9, 9), st.integers(0, 900), st.integers(0, 900))
def test_finds_what_a_look_at_every_row_finds(
    rows: list[Row], begin_ms: int, end_ms: int, least_offset: int, below_offset: int
) -> None:
    """By hash, time and offset; in memory, and as read from LMDB's bytes."""
    run = run_of(rows)
    for each in (run, SortedRun.decode(bytes(run.encode()))):
        for code in (-(2**63), -1, 0, 1, 5, 2**63 - 1):
            expected = {
                offset
                for hashed, time, offset in rows
                if hashed == code and begin_ms <= time <= end_ms and least_offset <= offset < below_offset
            }
            assert each.offsets(code, begin_ms, end_ms, least_offset, below_offset).tolist() == sorted(
                expected
            )


@pytest.mark.slow
@given(rows_from(0), rows_from(10_000), rows_from(20_000))
def test_merging_is_sorting_all_at_once(first: list[Row], second: list[Row], third: list[Row]) -> None:
    """Whatever was merged before."""
    runs = [run_of(rows) for rows in (first, second, third)]
    whole = listed(run_of([*first, *second, *third]))
    assert listed(SortedRun.merged(runs)) == whole
    assert listed(SortedRun.merged([SortedRun.merged(runs[:2]), runs[2]])) == whole
    assert listed(SortedRun.merged(runs[:1])) == listed(runs[0])
    stored = [SortedRun.decode(bytes(runs[0].encode())), *runs[1:]]
    assert SortedRun.merged(stored).encode() == run_of([*first, *second, *third]).encode()


@pytest.mark.slow
@given(rows_from(0), st.integers(0, 900), st.integers(0, 900))
def test_between_keeps_the_rows_of_a_range(rows: list[Row], least_offset: int, below_offset: int) -> None:
    """In their order."""
    run = run_of(rows)
    kept = [row for row in listed(run) if least_offset <= row[2] < below_offset]
    assert listed(run.between(least_offset, below_offset)) == kept


def test_a_repeated_key_of_a_message_is_one_entry() -> None:
    """The same key in another message is another entry."""
    assert listed(run_of([(7, 1, 0), (3, 1, 0), (7, 1, 0), (7, 2, 100)])) == [
        (3, 1, 0),
        (7, 1, 0),
        (7, 2, 100),
    ]


def test_the_header_spans_all_entries() -> None:
    """Times need not ascend."""
    run = run_of([(7, 5, 100), (3, 1, 200), (9, 3, 300)])
    assert (run.header, run.oldest_offset, len(run), repr(run)) == (
        RunHeader(300, 1, 5),
        100,
        3,
        "SortedRun(entries=3)",
    )


@pytest.mark.parametrize("batch_entries", [1, 7, 1_000])
def test_runs_stay_few_and_copies_too(batch_entries: int) -> None:
    """As a binary counter: log2 runs, and each entry copied at most about log2 times."""
    counts: list[int] = []
    copied = 0
    for _ in range(4_096):
        merged = merge_count(reversed(counts), batch_entries)
        joined = batch_entries + sum(counts[len(counts) - merged :])
        counts[len(counts) - merged :] = [joined]
        copied += joined
        assert len(counts) <= 14 + 4_096 * batch_entries // MAX_RUN_ENTRIES * 2
    assert sum(counts) == 4_096 * batch_entries
    assert max(counts) <= MAX_RUN_ENTRIES
    assert copied <= 14 * sum(counts)
