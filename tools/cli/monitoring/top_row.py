"""The difference of two looks as rates: what one tick of `mqstore top` writes.

    {"timestamp":1784370600123,"intervalMs":1000,"putTps":1200.0,...,"topics":[{"topic":"orders",...}],...}

Topics and groups are in the order of their weight: most bytes a second, largest lag. Pure functions.
"""

from collections.abc import Mapping

from mqstore.store_stats import ConsumerLag
from mqstore.tools.cli.monitoring.store_look import Puts, StoreLook
from mqstore.tools.cli.output import Row

__all__ = ["GroupLagRow", "LevelWaitRow", "TopRow", "TopicRateRow", "top_row"]

_NONE = Puts(0, 0)


class TopicRateRow(Row):
    """What is put to a topic: messages and bytes of records a second. messages: in its queues.

    Rates are null in a first look, which no other is before.
    """

    topic: str
    put_tps: float | None
    put_bytes_per_second: float | None
    messages: int


class GroupLagRow(Row):
    """Messages of a topic that a group has not consumed."""

    group: str
    topic: str
    lag: int


class LevelWaitRow(Row):
    """What waits in a delay level. delay_ms: null when it left the table."""

    level: int
    delay_ms: int | None
    pending: int
    next_due_timestamp: int | None


class TopRow(Row):
    """A store at one moment. interval_ms: since the look that the rates are counted from.

    flushed_offset: up to where the writer last said that the log is durable; null where it never did.
    disk_free: bytes that an unprivileged writer may use; disk_used_percent: rounded up, as RocketMQ does.
    """

    path: str
    timestamp: int
    interval_ms: int | None
    put_tps: float | None
    put_bytes_per_second: float | None
    min_offset: int
    max_offset: int
    flushed_offset: int | None
    disk_total: int
    disk_free: int
    disk_used_percent: int
    topics: list[TopicRateRow]
    groups: list[GroupLagRow]
    delay_levels: list[LevelWaitRow]


def top_row(before: StoreLook | None, after: StoreLook, puts: Mapping[str, Puts]) -> TopRow:
    """`after` with the rates of `puts`, which came since `before`; without rates where that is None."""
    seconds = None if before is None else max(after.at_s - before.at_s, 1e-3)
    topics = [
        TopicRateRow(
            topic=topic,
            put_tps=_rate(puts.get(topic, _NONE).messages, seconds),
            put_bytes_per_second=_rate(puts.get(topic, _NONE).size_bytes, seconds),
            messages=messages,
        )
        for topic, messages in after.messages.items()
    ]
    return TopRow(
        path=after.path,
        timestamp=after.time_ms,
        interval_ms=None if seconds is None else round(seconds * 1000),
        put_tps=_rate(sum(each.messages for each in puts.values()), seconds),
        put_bytes_per_second=_rate(sum(each.size_bytes for each in puts.values()), seconds),
        min_offset=after.min_offset,
        max_offset=after.max_offset,
        flushed_offset=after.flushed_offset,
        disk_total=after.disk.total_bytes,
        disk_free=after.disk.free_bytes,
        disk_used_percent=after.disk.used_percent,
        topics=sorted(topics, key=_weight),
        groups=_group_rows(after.lags),
        delay_levels=[
            LevelWaitRow(
                level=level.level,
                delay_ms=level.delay_ms,
                pending=level.pending,
                next_due_timestamp=level.next_due_ms,
            )
            for level in after.levels
        ],
    )


def _rate(number: int, seconds: float | None) -> float | None:
    return None if seconds is None else round(number / seconds, 1)


def _weight(row: TopicRateRow) -> tuple[float, float, int, str]:
    """Most bytes a second first, then most messages a second, then most messages, then by name."""
    return -(row.put_bytes_per_second or 0), -(row.put_tps or 0), -row.messages, row.topic


def _group_rows(lags: tuple[ConsumerLag, ...]) -> list[GroupLagRow]:
    """Over the queues of each topic, the largest lag first."""
    sums: dict[tuple[str, str], int] = {}
    for each in lags:
        key = each.group, each.topic
        sums[key] = sums.get(key, 0) + each.lag
    rows = [GroupLagRow(group=group, topic=topic, lag=lag) for (group, topic), lag in sums.items()]
    return sorted(rows, key=lambda row: (-row.lag, row.group, row.topic))
