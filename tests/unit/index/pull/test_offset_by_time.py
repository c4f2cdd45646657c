"""The entry at a time, for both boundaries, against a linear look at all store times.

Method: messages are stored with chosen gaps on a clock that the test moves; hypothesis draws gaps, times and
what retention has taken. The spec's own examples stand beside it.
"""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore.index.pull.offset_by_time import Boundary, offset_in_queue_by_time
from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.store.errors import ConfigIllegal
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.manual_clock import ManualClock
from support.stores.filled_queues import FilledQueues

T1, T2, T3 = 1000, 1010, 1020


def stored_at(times: list[int]) -> tuple[FilledQueues, ConsumeQueue]:
    """A queue whose messages were stored at these times, with another queue's messages in between."""
    clock = ManualClock(0)
    filled = FilledQueues(MemoryFileSystem(), Path("/store"), clock=clock)
    for time in times:
        clock.advance(time - clock.now_ms())
        filled.put()
        filled.put(topic="other")
    return filled, filled.queues.find_or_create("orders", 0)


def linear(times: list[int], min_offset: int, timestamp: int, boundary: Boundary) -> int:
    """The definition: first at or after, or last at or before, within the queue."""
    if boundary == "LOWER":
        return next((at for at in range(min_offset, len(times)) if times[at] >= timestamp), len(times))
    return max((at for at in range(min_offset, len(times)) if times[at] <= timestamp), default=min_offset)


@pytest.mark.parametrize(
    ("timestamp", "lower", "upper"),
    [(T1 - 1, 0, 0), (T1, 0, 2), (T2, 3, 2), (T3, 3, 4), (T3 + 1, 5, 4), (2**70, 5, 4), (-(2**70), 0, 0)],
)
def test_the_examples_of_the_spec(timestamp: int, lower: int, upper: int) -> None:
    """Times t1 t1 t1 t3 t3 at entries 0 to 4."""
    filled, queue = stored_at([T1, T1, T1, T3, T3])
    assert offset_in_queue_by_time(queue, filled.log, timestamp) == lower
    assert offset_in_queue_by_time(queue, filled.log, timestamp, "LOWER") == lower
    assert offset_in_queue_by_time(queue, filled.log, timestamp, "UPPER") == upper


def test_an_empty_queue() -> None:
    """Its minimum, which is its end."""
    filled, queue = stored_at([])
    for boundary in ("LOWER", "UPPER"):
        assert offset_in_queue_by_time(queue, filled.log, 5, boundary) == 0  # type: ignore[arg-type]


@given(
    st.lists(st.integers(0, 3), max_size=230),
    st.integers(-2, 700),
    st.integers(0, 240),
    st.sampled_from(["LOWER", "UPPER"]),
)
@settings(deadline=None, max_examples=50)
def test_it_is_what_a_linear_look_finds(
    gaps: list[int], timestamp: int, expired: int, boundary: Boundary
) -> None:
    """Any gaps, equal times, several files, any minimum."""
    times = [sum(gaps[: at + 1]) for at in range(len(gaps))]
    filled, queue = stored_at(times)
    if expired < len(times):
        entry = queue.entry_at(expired)
        assert entry is not None
        filled.queues.delete_expired(entry[0])
    found = offset_in_queue_by_time(queue, filled.log, timestamp, boundary)
    assert found == linear(times, queue.min_offset, timestamp, boundary)


@pytest.mark.parametrize("boundary", ["LOWER", "UPPER"])
def test_times_that_are_one_number_as_floats(boundary: Boundary) -> None:
    """Far beyond any clock, but a record may state them: a guess by an even rate has nothing to divide by."""
    times = [2**62] * 50 + [2**62 + 1] * 49
    filled, queue = stored_at(times)
    for timestamp in (2**62 - 1, 2**62, 2**62 + 1, 2**62 + 2):
        found = offset_in_queue_by_time(queue, filled.log, timestamp, boundary)
        assert found == linear(times, 0, timestamp, boundary)


def test_a_clock_that_was_set_back_gives_an_entry_of_the_queue() -> None:
    """Then the answer is one of several, but always inside the queue."""
    filled, queue = stored_at([50, 60, 10, 20, 70])
    for timestamp in range(0, 80, 5):
        for boundary in ("LOWER", "UPPER"):
            found = offset_in_queue_by_time(queue, filled.log, timestamp, boundary)  # type: ignore[arg-type]
            assert 0 <= found <= 5


def test_records_that_are_gone_count_as_older() -> None:
    """Entries whose segment was deleted a moment ago, before the minimum was corrected."""
    filled, queue = stored_at([at * 10 for at in range(1200)])
    filled.log.files.delete_first()
    first_kept = next(at for at in range(1200) if (queue.entry_at(at) or (0,))[0] >= filled.log.min_offset)
    assert first_kept > 0
    assert offset_in_queue_by_time(queue, filled.log, 0) == first_kept
    assert offset_in_queue_by_time(queue, filled.log, 11_990) == 1199


def test_another_boundary_is_refused() -> None:
    """It names the two that there are."""
    filled, queue = stored_at([T1])
    with pytest.raises(ConfigIllegal, match="boundary is 'MID', but must be 'LOWER' or 'UPPER'"):
        offset_in_queue_by_time(queue, filled.log, T1, "MID")  # type: ignore[arg-type]
