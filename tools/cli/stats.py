"""`mqstore stats`: how a store is doing. Safe on a live store.

    $ mqstore stats data
    path                 data
    messages             1
    ...

Then the lag of each consumer group and what waits in each delay level.
"""

import msgspec

from mqstore.message_store import MessageStore
from mqstore.schedule.delivery_service import LevelStatus
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import JsonOption, StoreArgument
from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.cli.times import local_time

__all__ = ["stats"]


class GroupRow(Row):
    """How far a group has consumed a topic. `lag` counts the messages it has not."""

    group: str
    topic: str
    committed: int
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
    """All of it, for JSON."""

    groups: list[GroupRow]
    delay_levels: list[LevelRow]


_GROUP_COLUMNS = (
    Column[GroupRow]("group", lambda row: row.group),
    Column[GroupRow]("topic", lambda row: row.topic),
    Column[GroupRow]("committed", lambda row: f"{row.committed:,}", "right"),
    Column[GroupRow]("lag", lambda row: f"{row.lag:,}", "right"),
)
_LEVEL_COLUMNS = (
    Column[LevelRow]("delay level", lambda row: row.level, "right"),
    Column[LevelRow]("delivered to", lambda row: f"{row.next_offset:,}", "right"),
    Column[LevelRow]("pending", lambda row: f"{row.pending:,}", "right"),
    Column[LevelRow]("next due", lambda row: local_time(row.next_due_timestamp or 0)),
    Column[LevelRow]("error", lambda row: row.error),
)


def stats(store: StoreArgument, json: JsonOption = False) -> None:
    """Show the size of the log, the lag of each consumer group, and what waits in each delay level.

    Example: mqstore stats data --json
    """
    output = Output(is_json=json)
    with open_for_reading(store) as opened:
        log, groups, levels = _log(opened), _groups(opened), _levels(opened)
    if json:
        output.facts(StatsRow(**msgspec.structs.asdict(log), groups=groups, delay_levels=levels))
        return
    output.facts(log)
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


def _groups(store: MessageStore) -> list[GroupRow]:
    rows: dict[tuple[str, str], GroupRow] = {}
    for offset in store.consumer_offsets:
        key = offset.group, offset.topic
        end_offset = store.get_max_offset_in_queue(offset.topic, offset.queue_id)
        before = rows.get(key)
        rows[key] = GroupRow(
            group=offset.group,
            topic=offset.topic,
            committed=offset.offset + (before.committed if before else 0),
            lag=max(0, end_offset - offset.offset) + (before.lag if before else 0),
        )
    return [rows[key] for key in sorted(rows)]


def _levels(store: MessageStore) -> list[LevelRow]:
    """The levels that were used. How long they wait is a setting, and not in the directory."""
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
