"""`mqstore stats`: how a store is doing. Safe on a live store.

    $ mqstore stats data
    path                 data
    messages             1
    ...

Then what was put to each topic, the lag of each consumer group, and what waits in each delay level.
`MessageStore.stats` counts what one process has put and got since it opened the store.
"""

from pathlib import Path

import click
import msgspec

from mqstore.message_store import MessageStore
from mqstore.schedule.delivery.level_status import LevelStatus
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import json_option, store_argument
from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.cli.times import local_time

__all__ = ["stats"]


class GroupRow(Row):
    """How far a group has consumed a topic. `lag` counts the messages it has not."""

    group: str
    topic: str
    committed: int
    lag: int


class TopicRow(Row):
    """Messages ever put to a topic, those still there, and the store time of the oldest of these."""

    topic: str
    put: int
    messages: int
    earliest_timestamp: int


class LagRow(Row):
    """How far a group has consumed a queue."""

    group: str
    topic: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    lag: int


class LevelRow(Row):
    """What waits in a delay level."""

    level: int
    next_offset: int
    pending: int
    next_due_timestamp: int | None
    error: str | None


class LogRow(Row):
    """The log and the queues."""

    path: str
    min_offset: int
    max_offset: int
    segments: int
    segment_size: int
    storage_size: int
    topics: int
    queues: int
    messages: int


class StatsRow(LogRow):
    """All figures, for JSON."""

    earliest_timestamp: int
    topic_puts: list[TopicRow]
    groups: list[GroupRow]
    lags: list[LagRow]
    delay_levels: list[LevelRow]


_GROUP_COLUMNS = (
    Column[GroupRow]("group", lambda row: row.group),
    Column[GroupRow]("topic", lambda row: row.topic),
    Column[GroupRow]("committed", lambda row: f"{row.committed:,}", "right"),
    Column[GroupRow]("lag", lambda row: f"{row.lag:,}", "right"),
)
_TOPIC_COLUMNS = (
    Column[TopicRow]("topic", lambda row: row.topic),
    Column[TopicRow]("ever put", lambda row: f"{row.put:,}", "right"),
    Column[TopicRow]("messages", lambda row: f"{row.messages:,}", "right"),
    Column[TopicRow]("oldest", lambda row: local_time(max(0, row.earliest_timestamp))),
)
_LEVEL_COLUMNS = (
    Column[LevelRow]("delay level", lambda row: row.level, "right"),
    Column[LevelRow]("delivered to", lambda row: f"{row.next_offset:,}", "right"),
    Column[LevelRow]("pending", lambda row: f"{row.pending:,}", "right"),
    Column[LevelRow]("next due", lambda row: local_time(row.next_due_timestamp or 0)),
    Column[LevelRow]("error", lambda row: row.error),
)


@click.command(cls=Command)
@store_argument
@json_option
def stats(store: Path, json: bool) -> None:
    """Show the size of the log, the lag of each consumer group, and what waits in each delay level.

    Example: mqstore stats data --json
    """
    output = Output(is_json=json)
    with open_for_reading(store) as opened:
        log, topics, levels = _log(opened), _topics(opened), _levels(opened)
        lags = [LagRow(**msgspec.structs.asdict(lag)) for lag in opened.stats().consumer_lags]
        groups = _groups(lags)
        earliest_timestamp = opened.get_earliest_message_time()
    if json:
        output.facts(
            StatsRow(
                **msgspec.structs.asdict(log),
                earliest_timestamp=earliest_timestamp,
                topic_puts=topics,
                groups=groups,
                lags=lags,
                delay_levels=levels,
            )
        )
        return
    output.facts(log)
    if topics:
        output.listing(topics, _TOPIC_COLUMNS)
    if groups:
        output.listing(groups, _GROUP_COLUMNS)
    if levels:
        output.listing(levels, _LEVEL_COLUMNS)


def _log(store: MessageStore) -> LogRow:
    numbers = store.stats()
    return LogRow(
        path=numbers.path,
        min_offset=numbers.min_offset,
        max_offset=numbers.max_offset,
        segments=numbers.segments,
        segment_size=store.config.mapped_file_size_commit_log,
        storage_size=numbers.storage_size_bytes,
        topics=numbers.topics,
        queues=numbers.queues,
        messages=numbers.messages,
    )


def _topics(store: MessageStore) -> list[TopicRow]:
    """The topics that something was put to."""
    queues: dict[str, list[int]] = {}
    for topic, queue_id in store.consume_queues.queues():
        queues.setdefault(topic, []).append(queue_id)
    return [_topic(store, topic, queue_ids) for topic, queue_ids in queues.items()]


def _topic(store: MessageStore, topic: str, queue_ids: list[int]) -> TopicRow:
    put = sum(store.get_max_offset_in_queue(topic, queue_id) for queue_id in queue_ids)
    gone = sum(store.get_min_offset_in_queue(topic, queue_id) for queue_id in queue_ids)
    return TopicRow(
        topic=topic,
        put=put,
        messages=put - gone,
        earliest_timestamp=store.get_earliest_message_time(topic),
    )


def _groups(lags: list[LagRow]) -> list[GroupRow]:
    rows: dict[tuple[str, str], GroupRow] = {}
    for lag in lags:
        key = lag.group, lag.topic
        before = rows.get(key)
        rows[key] = GroupRow(
            group=lag.group,
            topic=lag.topic,
            committed=max(0, lag.consumer_offset) + (before.committed if before else 0),
            lag=lag.lag + (before.lag if before else 0),
        )
    return [rows[key] for key in sorted(rows)]


def _levels(store: MessageStore) -> list[LevelRow]:
    """The levels that were used. Their delays are a setting, which is not read here."""
    used = (status for status in store.stats().delay_levels if status.next_offset or status.pending)
    return [_level(status) for status in used]


def _level(status: LevelStatus) -> LevelRow:
    return LevelRow(
        level=status.level,
        next_offset=status.next_offset,
        pending=status.pending,
        next_due_timestamp=status.next_due_ms,
        error=status.error,
    )
