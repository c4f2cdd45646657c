"""The compiled search in many runs finds what a look at each finds; in a wheel that is the direct search.

Method: entries of three texts that follow each other in the log, cut into runs of any length, some of them as
LMDB has them; the plain twin is SortedRun.offsets.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mqstore.index.keys.key_index import key_hash
from mqstore.index.keys.run_table import RunTable
from mqstore.index.keys.sorted_run import SortedRun

KEYS = ("a", "b", "no entry has it")
CODES = [key_hash("orders", key) for key in KEYS]
ENTRIES = st.lists(st.tuples(st.integers(0, 1), st.integers(-9, 9)), max_size=300)
CUTS = st.lists(st.integers(0, 300), max_size=4)


def runs_of(entries: list[tuple[int, int]], cuts: list[int]) -> list[SortedRun]:
    """The runs, the oldest first; every second one is big-endian."""
    rows = np.array([(CODES[key], time, 100 * at) for at, (key, time) in enumerate(entries)], np.int64)
    pieces = np.split(rows.reshape(-1, 3), sorted(cuts))
    runs = [SortedRun.of_rows(piece) for piece in pieces if len(piece)]
    return [SortedRun.decode(bytes(run.encode())) if at % 2 else run for at, run in enumerate(runs)]


@given(
    ENTRIES,
    CUTS,
    st.sampled_from(KEYS),
    st.tuples(st.integers(-9, 9), st.integers(-9, 9)),
    st.tuples(st.integers(0, 30_000), st.integers(0, 30_000)),
    st.integers(1, 400),
    st.booleans(),
)
def test_finds_what_a_look_at_each_run_finds(
    entries: list[tuple[int, int]],
    cuts: list[int],
    key: str,
    times: tuple[int, int],
    offsets: tuple[int, int],
    limit: int,
    knows_what_runs_cover: bool,
) -> None:
    """The newest `limit` in any case, and none that is not asked for."""
    runs = runs_of(entries, cuts)
    newest_first = runs[::-1]
    table = (
        RunTable((run.oldest_offset, run.header, run) for run in newest_first)
        if knows_what_runs_cover
        else RunTable.of(newest_first)
    )
    found = table.newest_offsets(f"orders#{key}".encode(), *times, *offsets, limit)
    expected = [
        offset for run in runs for offset in run.offsets(key_hash("orders", key), *times, *offsets).tolist()
    ]
    assert set(found) <= set(expected)
    assert set(found) >= set(sorted(expected)[-limit:])
    assert len(set(found)) == len(found)


def test_a_key_of_many_records() -> None:
    """More than are usual: the room for them grows, and no more are read than are wanted."""
    runs = runs_of([(0, 0)] * 1_000, [300, 600])
    found = RunTable.of(runs[::-1]).newest_offsets(b"orders#a", 0, 0, 0, 1 << 40, 700)
    assert found == [*range(99_900, 29_900, -100)]
    found = RunTable.of(runs[::-1]).newest_offsets(b"orders#a", 0, 0, 0, 80_000, 3)
    assert found == [79_900, 79_800, 79_700]
