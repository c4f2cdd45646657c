"""A tick of `mqstore top` for people: lines about the store, and tables of topics, groups and delay levels.

    data  2026-07-18 12:30:00.123
    puts  1,200/s  1.5 MiB/s
    log   0 to 64,400,362, durable to 64,000,000 (391.0 KiB less)
    disk  41 % used, 118.2 GiB free
    topic   puts/s    bytes/s  messages
    orders   1,200    1.5 MiB   402,786

A screen has fewer lines than a store may have topics: the tables are cut so that each shows something, and
a last line says how many rows are not shown.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

from rich.console import Group, RenderableType
from rich.text import Text

from mqstore.tools.cli.monitoring.top_row import GroupLagRow, LevelWaitRow, TopicRateRow, TopRow
from mqstore.tools.cli.output import Column, Output, Row, printable, table_of
from mqstore.tools.cli.times import duration_text, local_time

__all__ = ["screen", "size_text", "write_plain"]

RowT = TypeVar("RowT", bound=Row)

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_LEAST_ROWS = 2
_LINES_OF_A_TABLE = 4
"""Beside its rows: a blank line, the header with its rule, and how many are not shown."""


def size_text(size_bytes: float) -> str:
    """In the largest unit of 1024 that leaves a whole.

    >>> size_text(512), size_text(1_572_864)
    ('512 B', '1.5 MiB')
    """
    if size_bytes < 1024:
        return f"{size_bytes:,.0f} B"
    power = min(int(math.log2(size_bytes)) // 10, len(_UNITS))
    return f"{size_bytes / 1024**power:,.1f} {_UNITS[power - 1]}"


def _rate_text(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:,.1f}"


def _bytes_text(rate: float | None) -> str:
    return "" if rate is None else size_text(rate)


_TOPIC_COLUMNS = (
    Column[TopicRateRow]("topic", lambda row: row.topic),
    Column[TopicRateRow]("puts/s", lambda row: _rate_text(row.put_tps), "right"),
    Column[TopicRateRow]("bytes/s", lambda row: _bytes_text(row.put_bytes_per_second), "right"),
    Column[TopicRateRow]("messages", lambda row: f"{row.messages:,}", "right"),
)
_GROUP_COLUMNS = (
    Column[GroupLagRow]("group", lambda row: row.group),
    Column[GroupLagRow]("topic", lambda row: row.topic),
    Column[GroupLagRow]("lag", lambda row: f"{row.lag:,}", "right"),
)
_LEVEL_COLUMNS = (
    Column[LevelWaitRow]("delay level", lambda row: row.level, "right"),
    Column[LevelWaitRow]("delay", lambda row: duration_text(row.delay_ms) if row.delay_ms else "", "right"),
    Column[LevelWaitRow]("pending", lambda row: f"{row.pending:,}", "right"),
    Column[LevelWaitRow]("next due", lambda row: local_time(row.next_due_timestamp or 0)),
)


def write_plain(output: Output, row: TopRow) -> None:
    """Write all of a tick as text, for a file or a pipe."""
    for line in _lines(row):
        output.text(line)
    if row.topics:
        output.listing(row.topics, _TOPIC_COLUMNS)
    if row.groups:
        output.listing(row.groups, _GROUP_COLUMNS)
    if row.delay_levels:
        output.listing(row.delay_levels, _LEVEL_COLUMNS)
    output.text()


def screen(row: TopRow, height: int) -> RenderableType:
    """What fits a terminal of `height` lines."""
    lines = _lines(row)
    sizes = [len(row.topics), len(row.groups), len(row.delay_levels)]
    topics, groups, levels = _shares(sizes, height - len(lines))
    return Group(
        *(Text(printable(line), no_wrap=True, overflow="ellipsis") for line in lines),
        *_cut(row.topics, _TOPIC_COLUMNS, topics),
        *_cut(row.groups, _GROUP_COLUMNS, groups),
        *_cut(row.delay_levels, _LEVEL_COLUMNS, levels),
    )


def _lines(row: TopRow) -> list[str]:
    if row.flushed_offset is None:
        durable = "how far it is durable is not told"
    elif row.flushed_offset == row.max_offset:
        durable = "all durable"
    else:
        behind = size_text(row.max_offset - row.flushed_offset)
        durable = f"durable to {row.flushed_offset:,} ({behind} less)"
    puts = "counting"
    if row.put_tps is not None:
        puts = f"{_rate_text(row.put_tps)}/s  {_bytes_text(row.put_bytes_per_second)}/s"
    return [
        f"{row.path}  {local_time(row.timestamp)}",
        f"puts  {puts}",
        f"log   {row.min_offset:,} to {row.max_offset:,}, {durable}",
        f"disk  {row.disk_used_percent} % used, {size_text(row.disk_free)} free",
    ]


def _shares(sizes: Sequence[int], lines: int) -> list[int]:
    """How many rows of each table are shown: a fair share, and to the first what the others leave."""
    room = lines - _LINES_OF_A_TABLE * sum(size > 0 for size in sizes)
    fair = max(_LEAST_ROWS, room // max(1, sum(size > 0 for size in sizes)))
    others = [min(size, fair) for size in sizes[1:]]
    return [min(sizes[0], max(_LEAST_ROWS, room - sum(others))), *others]


def _cut(rows: Sequence[RowT], columns: Sequence[Column[RowT]], count: int) -> list[RenderableType]:
    if not rows:
        return []
    rest = len(rows) - count
    cut: list[RenderableType] = [Text(), table_of(rows[:count], columns)]
    return [*cut, Text(f"and {rest:,} more")] if rest else cut
