"""Delivery progress: the durable offset follows the flush and never leads it."""

from hypothesis import given
from hypothesis import strategies as st

from mqstore.schedule.delivery.delivery_progress import DeliveryProgress


def test_the_durable_offset_waits_for_the_copies() -> None:
    """A step settles when the last byte it depends on is flushed, and not a byte earlier."""
    progress = DeliveryProgress(7)
    progress.advance(9, 500)
    progress.advance(12, 900)
    assert [progress.settle(flushed) for flushed in (0, 499, 500, 899, 900)] == [7, 7, 9, 9, 12]


def test_a_step_settles_only_after_those_before_it() -> None:
    """A step that depends on less, such as a passed-over entry, does not overtake."""
    progress = DeliveryProgress()
    progress.advance(1, 500)
    progress.advance(2, 100)
    assert progress.settle(499) == 0
    assert progress.settle(500) == 2


def test_a_restart_forgets_the_steps() -> None:
    """They were about another queue, so to speak."""
    progress = DeliveryProgress()
    progress.advance(5, 100)
    progress.restart(3)
    assert progress.settle(10**9) == 3


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), max_size=30), st.integers(0, 3000))
def test_no_step_below_the_durable_offset_depends_on_unflushed_bytes(
    steps: list[tuple[int, int]], flushed_offset: int
) -> None:
    """The rule that keeps messages from being skipped, for any steps and any flush."""
    progress = DeliveryProgress()
    offset = 0
    noted = []
    for count, end_physical_offset in steps:
        offset += count
        progress.advance(offset, end_physical_offset)
        noted.append((offset, end_physical_offset))
    durable = progress.settle(flushed_offset)
    assert all(end <= flushed_offset for next_offset, end in noted if next_offset <= durable)
