"""Results of many puts: goal, that they are what a list of them would be; method, the same asked of both."""

import itertools

import numpy as np
import pytest

from mqstore.store.message.put_result import PutMessageResult, PutMessageResults
from mqstore.store.status import PutMessageStatus

HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])
ROWS = [(1, 7, 1_000, 100), (0, 0, 1_100, 120), (1, 8, 1_220, 90)]
QUEUES = [("orders", 0), ("orders", 3)]
AS_LIST = [
    PutMessageResult(PutMessageStatus.PUT_OK, *QUEUES[group], queue_offset, offset, size, 5, 1_100, HOST)
    for group, queue_offset, offset, size in ROWS
]


def made(status: PutMessageStatus = PutMessageStatus.PUT_OK) -> PutMessageResults:
    groups, queue_offsets, offsets, _ = (np.array(column) for column in zip(*ROWS, strict=True))
    starts = np.array([0, 100, 220, 310])
    return PutMessageResults(status, QUEUES, groups, queue_offsets, offsets, starts, 5, 1_100, HOST)


def test_it_is_the_list() -> None:
    """Length, iteration, and equality in both directions."""
    results = made()
    assert len(results) == 3
    assert list(results) == AS_LIST
    assert (results == AS_LIST, AS_LIST.__eq__(results), results == made()) == (True, NotImplemented, True)
    assert results != AS_LIST[:2]
    assert results != made(PutMessageStatus.FLUSH_DISK_TIMEOUT)
    assert results != tuple(AS_LIST)


@pytest.mark.parametrize("index", [0, 2, -1, -3])
def test_an_index_gives_one(index: int) -> None:
    """From either end, with numbers that are Python's own."""
    result = made()[index]
    assert result == AS_LIST[index]
    assert {type(value) for value in (result.queue_offset, result.physical_offset, result.store_size)} == {
        int
    }


@pytest.mark.parametrize("index", [3, -4])
def test_an_index_out_of_range(index: int) -> None:
    """As a list says it, so that loops by index end."""
    with pytest.raises(IndexError):
        made()[index]


def test_a_slice_gives_a_list() -> None:
    """All slices, with steps."""
    places = [None, *range(-4, 5)]
    for start, stop, step in itertools.product(places, places, [None, 1, 2, -1]):
        assert made()[start:stop:step] == AS_LIST[start:stop:step]


def test_looked_at_twice() -> None:
    """Iterating uses nothing up, and `in`, `index` and `reversed` work."""
    results = made()
    assert [*results] == [*results]
    assert AS_LIST[1] in results
    assert results.index(AS_LIST[2]) == 2
    assert [*reversed(results)] == AS_LIST[::-1]


def test_repr() -> None:
    """Short, however many there are."""
    assert (
        repr(made()) == "PutMessageResults(status=PutMessageStatus.PUT_OK, messages=3, flushed_offset=1100)"
    )
