"""Ticks: rates of two looks, and the order of what is shown."""

import dataclasses

from mqstore.schedule.delivery.level_status import LevelStatus
from mqstore.store.files.file_system import DiskUsage
from mqstore.store_stats import ConsumerLag
from mqstore.tools.cli.monitoring.store_look import Puts, StoreLook
from mqstore.tools.cli.monitoring.top_row import top_row


def lag(group: str, topic: str, queue_id: int, count: int) -> ConsumerLag:
    return ConsumerLag(
        group=group, topic=topic, queue_id=queue_id, broker_offset=count, consumer_offset=0, lag=count
    )


LOOK = StoreLook(
    path="data",
    time_ms=1_000,
    at_s=10.0,
    min_offset=0,
    max_offset=500,
    flushed_offset=400,
    queue_ends={},
    messages={"a": 5, "b": 9, "c": 1, "d": 1},
    lags=(lag("slow", "a", 0, 3), lag("quick", "a", 0, 1), lag("slow", "a", 1, 4), lag("quick", "b", 0, 0)),
    levels=(LevelStatus(3, 10_000, 2, 7, 99, 0, 0, 0, None, None),),
    disk=DiskUsage(1000, 590),
)


def test_rates_are_differences() -> None:
    """Over the seconds between the looks, the largest first, then the fullest."""
    after = dataclasses.replace(LOOK, at_s=12.0, time_ms=3_000)
    row = top_row(LOOK, after, {"c": Puts(10, 1_000), "d": Puts(5, 3_001)})
    assert (row.interval_ms, row.put_tps, row.put_bytes_per_second) == (2_000, 7.5, 2_000.5)
    assert [(each.topic, each.put_tps, each.put_bytes_per_second) for each in row.topics] == [
        ("d", 2.5, 1_500.5),
        ("c", 5.0, 500.0),
        ("b", 0.0, 0.0),
        ("a", 0.0, 0.0),
    ]


def test_a_first_look_has_no_rates() -> None:
    """All else is there: groups by their lag, what waits, the disk as RocketMQ rounds it."""
    row = top_row(None, LOOK, {})
    assert (row.interval_ms, row.put_tps, row.topics[0].put_tps) == (None, None, None)
    assert [(each.group, each.topic, each.lag) for each in row.groups] == [
        ("slow", "a", 7),
        ("quick", "a", 1),
        ("quick", "b", 0),
    ]
    (level,) = row.delay_levels
    assert (level.level, level.delay_ms, level.pending, level.next_due_timestamp) == (3, 10_000, 7, 99)
    assert (row.max_offset, row.flushed_offset, row.disk_used_percent) == (500, 400, 41)


def test_two_looks_at_the_same_moment() -> None:
    """A clock that stands still is no reason to divide by zero."""
    assert top_row(LOOK, LOOK, {"a": Puts(1, 1)}).interval_ms == 1
