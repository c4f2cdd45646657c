"""The compiled loops of the bulk put against their plain twins."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.bulk import encode_kernels
from mqstore.store.bulk.text_column import TextColumn, read_texts
from support.twins.plain_rows import plain_groups, plain_join, plain_values

TEXTS = st.text("ab\x01\x02", max_size=5).map(str.encode)
PAIRS = st.tuples(st.one_of(TEXTS, st.just(b"name")), st.one_of(TEXTS, st.just(b"value")))


def texts(values: Sequence[bytes]) -> TextColumn:
    return read_texts("text", values)


@given(
    st.lists(st.text("ab\x01\x02", max_size=20).map(str.encode), max_size=8), st.sampled_from([b"a", b"ab"])
)
def test_values_are_found_as_in_plain_python(rows: list[bytes], name: bytes) -> None:
    """In strings that are no properties as well; where there is none, the place is empty."""
    count = len(rows)
    starts, stops = np.empty(count, np.int64), np.empty(count, np.int64)
    stored = texts(rows)
    found = encode_kernels.find_values(*stored, np.frombuffer(name, np.uint8), starts, stops)
    values = [stored.data[start:stop].tobytes() for start, stop in zip(starts, stops, strict=True)]
    assert values == plain_values(rows, name)
    assert found == sum(map(bool, values))


@pytest.mark.slow
@given(st.lists(st.lists(PAIRS, max_size=3), max_size=5))
def test_pairs_are_joined_as_in_plain_python(rows: list[list[tuple[bytes, bytes]]]) -> None:
    """Or the same row is named for its illegal pair."""
    pairs = [pair for row in rows for pair in row]
    names, values = texts([name for name, _ in pairs]), texts([value for _, value in pairs])
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    target = np.empty(names.total_bytes + values.total_bytes + 2 * len(pairs), np.uint8)
    starts = np.empty(len(rows) + 1, np.int64)
    illegal = encode_kernels.join_pairs(ends[:-1], ends[1:], *names, *values, target, starts)
    joined = [target[starts[row] : starts[row + 1]].tobytes() for row in range(len(rows))]
    expected = plain_join(rows)
    assert (joined if illegal < 0 else illegal) == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 2, 2**31 - 1])), max_size=50))
def test_queues_are_numbered_as_in_plain_python(queues: list[tuple[int, int]]) -> None:
    """In the order in which they come."""
    check_groups(queues)


def test_thousands_of_queues_are_numbered() -> None:
    """The table of slots grows."""
    check_groups([(at % 7, at % 1_001) for at in range(20_000)])


def check_groups(queues: list[tuple[int, int]]) -> None:
    topics = np.array([topic for topic, _ in queues], np.int32)
    queue_ids = np.array([queue_id for _, queue_id in queues], np.int32)
    groups, first_rows = np.empty(len(queues), np.int32), np.empty(len(queues), np.int64)
    count = encode_kernels.group_rows(topics, queue_ids, groups, first_rows)
    assert (groups.tolist(), first_rows[:count].tolist()) == plain_groups(queues)
