"""Growth: counts by time from samples add up to what the queues hold, and bars fit their chart."""

from pathlib import Path

import pytest

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from mqstore.tools.cli.ui.pages.asked import Asked, PageProblem
from mqstore.tools.cli.ui.pages.growth import BARS, CHART_HEIGHT, growth
from support.manual_clock import ManualClock


def store_of(path: Path, clock: ManualClock) -> MessageStore:
    return MessageStore.open(path / "store", clock=clock, start=False)


def test_periods_add_up(tmp_path: Path) -> None:
    """To all messages of a topic, and about to the bytes of their records; the log is not read as a whole."""
    clock = ManualClock()
    with store_of(tmp_path, clock) as store:
        for number in range(900):
            store.put_message(Message("orders", b"x" * 100, queue_id=number % 3))
            clock.advance(1_000 if number < 450 else 100)
        written_bytes = store.max_offset
        store.put_message(Message("others", b"y"))
        store.flush()
        found = growth(store, Asked({"topic": "orders"}))
        everything = growth(store, Asked({}))
    periods = found["periods"]
    assert len(periods) == BARS
    assert sum(period.messages for period in periods) == pytest.approx(900, abs=BARS)
    size_bytes = sum(period.size_bytes for period in periods)
    assert size_bytes == pytest.approx(written_bytes, rel=0.05)
    # 450 messages in 450 s, then 450 in 45 s: the last tenth of the time has half of them.
    late = sum(period.messages for period in periods[-2:])
    assert 350 < late < 500
    assert sum(period.messages for period in everything["periods"]) == pytest.approx(901, abs=BARS)
    heights = [float(bar.height) for _, bars in found["charts"] for bar in bars]
    assert max(heights) == CHART_HEIGHT
    assert min(heights) >= 0


@pytest.mark.parametrize("count", [1, 2, 5])
def test_messages_of_one_moment_are_one_bar(tmp_path: Path, count: int) -> None:
    """All in the same millisecond: there is no time to spread them over."""
    with store_of(tmp_path, ManualClock()) as store:
        for _ in range(count):
            store.put_message(Message("orders", b"x", queue_id=0))
        store.flush()
        (period,) = growth(store, Asked({}))["periods"]
    assert period.messages == count


def test_a_clock_that_was_set_back_makes_no_negative_bar(tmp_path: Path) -> None:
    """An entry counts at the time of those before it, at the earliest."""
    clock = ManualClock()
    with store_of(tmp_path, clock) as store:
        for number in range(100):
            store.put_message(Message("orders", b"x", queue_id=0))
            clock.advance(-60_000 if number == 50 else 1_000)
        store.flush()
        periods = growth(store, Asked({}))["periods"]
    assert all(period.messages >= 0 for period in periods)
    assert sum(period.messages for period in periods) == pytest.approx(100, abs=BARS)


def test_nothing_has_no_bars(tmp_path: Path) -> None:
    """An empty store has a page, and a topic that is not there has none."""
    with store_of(tmp_path, ManualClock()) as store:
        assert growth(store, Asked({}))["periods"] == []
        with pytest.raises(PageProblem):
            growth(store, Asked({"topic": "none"}))
