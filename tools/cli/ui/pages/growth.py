"""The page of growth: bars of messages and bytes over the time that the log goes back, of a topic or all."""

from typing import Any, NamedTuple

import numpy as np

from mqstore.message_store import MessageStore
from mqstore.tools.cli.administration.topics import queue_rows
from mqstore.tools.cli.ui.pages.asked import Asked, PageProblem
from mqstore.tools.cli.ui.pages.growth_samples import Numbers, QueueGrowth, sampled

__all__ = ["BARS", "Bar", "Period", "bars_of", "growth"]

BARS = 24
"""Bars of a chart."""
CHART_WIDTH, CHART_HEIGHT = 720, 160
_MOST_QUEUES = 20
_MOST_SAMPLES = 64


class Period(NamedTuple):
    """What was put from begin_ms on, up to the next period. Both numbers are rounded."""

    begin_ms: int
    messages: int
    size_bytes: int


class Bar(NamedTuple):
    """A rectangle of a chart, as attributes of SVG."""

    x: str
    y: str
    width: str
    height: str
    period: Period


def growth(store: MessageStore, asked: Asked) -> dict[str, Any]:
    """What the template needs. `topic`: of this one only. Raises PageProblem for one that is not there."""
    topic = asked.text("topic")
    rows = [row for row in queue_rows(store) if topic in ("", row.topic)]
    if topic and not rows and topic not in store.topics:
        raise PageProblem(f"there is no topic {topic!r}")
    rows = sorted((row for row in rows if row.messages), key=lambda row: -row.messages)
    read = rows[:_MOST_QUEUES]
    each = max(3, _MOST_SAMPLES // max(1, len(read)))
    grown = [found for row in read if (found := sampled(store, row.topic, row.queue_id, each)) is not None]
    periods, end_ms = _periods(grown)
    return {
        "topic": topic,
        "periods": periods,
        "end_ms": end_ms,
        "size": (CHART_WIDTH, CHART_HEIGHT),
        "charts": [
            ("Messages", bars_of(periods, [period.messages for period in periods])),
            ("Bytes", bars_of(periods, [period.size_bytes for period in periods])),
        ],
        "most_messages": max((period.messages for period in periods), default=0),
        "most_bytes": max((period.size_bytes for period in periods), default=0),
        "queues_left_out": len(rows) - len(read),
        "messages_left_out": sum(row.messages for row in rows[_MOST_QUEUES:]),
    }


def _periods(grown: list[QueueGrowth]) -> tuple[list[Period], int]:
    """The periods, all of one length, and the end of the last one."""
    if not grown:
        return [], 0
    begin_ms = min(float(each.times_ms[0]) for each in grown)
    end_ms = max(float(each.times_ms[-1]) for each in grown)
    # Shorter than a millisecond no period can be.
    count = int(min(BARS, max(1.0, end_ms - begin_ms)))
    edges_ms: Numbers = np.linspace(begin_ms, end_ms, count + 1)
    messages, size_bytes = np.zeros(count), np.zeros(count)
    for each in grown:
        put, put_bytes = each.put_between(edges_ms)
        messages += put
        size_bytes += put_bytes
    rounded = zip(edges_ms.tolist(), messages.tolist(), size_bytes.tolist(), strict=False)
    return [Period(int(begin), round(put), round(size)) for begin, put, size in rounded], int(end_ms)


def bars_of(periods: list[Period], values: list[int]) -> list[Bar]:
    """One bar for each period, the highest as high as the chart."""
    most = max(values, default=0)
    width = CHART_WIDTH / max(1, len(periods))
    bars = []
    for number, (period, value) in enumerate(zip(periods, values, strict=True)):
        height = CHART_HEIGHT * value / most if most else 0.0
        bars.append(
            Bar(
                x=f"{number * width:.2f}",
                y=f"{CHART_HEIGHT - height:.2f}",
                width=f"{max(1.0, width - 1):.2f}",
                height=f"{height:.2f}",
                period=period,
            )
        )
    return bars
