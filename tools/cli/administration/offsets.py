"""`mqstore offsets`: how far groups have come, queue by queue. Listing is safe on a live store.

    $ mqstore offsets data --group billing
    group    topic   queue  offset  min offset  max offset  lag
    billing  orders      0       2           0           5    3

Moving and deleting act only with --apply.
"""

from collections.abc import Iterator
from pathlib import Path

import click

from mqstore.message_store import MessageStore
from mqstore.metadata.consumer_offsets import ConsumerOffset
from mqstore.metadata.pull_permission import refuse_queue
from mqstore.tools.cli.administration.applying import apply_option, end_of, no_group, no_topic, open_to_apply
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import json_option, refuse_given, store_argument
from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.cli.times import parse_time_ms

__all__ = ["MOVED_COLUMNS", "MovedRow", "move_offsets", "offsets", "show_offsets", "target_offset"]


class OffsetRow(Row):
    """How far a group has come in a queue. offset: -1 for none. lag: the messages behind it."""

    group: str
    topic: str
    queue_id: int
    offset: int
    min_offset: int
    max_offset: int
    lag: int


class MovedRow(Row):
    """An offset before and after; -1 is none."""

    group: str
    topic: str
    queue_id: int
    before: int
    after: int
    is_applied: bool


_COLUMNS = (
    Column[OffsetRow]("group", lambda row: row.group),
    Column[OffsetRow]("topic", lambda row: row.topic),
    Column[OffsetRow]("queue", lambda row: row.queue_id, "right"),
    Column[OffsetRow]("offset", lambda row: row.offset, "right"),
    Column[OffsetRow]("min offset", lambda row: row.min_offset, "right"),
    Column[OffsetRow]("max offset", lambda row: row.max_offset, "right"),
    Column[OffsetRow]("lag", lambda row: f"{row.lag:,}", "right"),
)
MOVED_COLUMNS = (
    Column[MovedRow]("group", lambda row: row.group),
    Column[MovedRow]("topic", lambda row: row.topic),
    Column[MovedRow]("queue", lambda row: row.queue_id, "right"),
    Column[MovedRow]("before", lambda row: row.before, "right"),
    Column[MovedRow]("after", lambda row: row.after, "right"),
)


@click.command(cls=Command)
@store_argument
@click.option("--group", help="Of this group only.")
@click.option("--topic", help="In this topic only.")
@click.option("--queue", type=click.IntRange(min=0), help="In this queue only.")
@click.option("--to", metavar="PLACE", help="Move to a queue offset, to 'end', or to 'start'.")
@click.option("--to-time", metavar="TIME", help="Move to a store time: epoch ms, or local.")
@click.option("--delete", is_flag=True, help="Forget them.")
@apply_option
@json_option
def offsets(
    store: Path,
    group: str | None,
    topic: str | None,
    queue: int | None,
    to: str | None,
    to_time: str | None,
    delete: bool,
    apply: bool,
    json: bool,
) -> None:
    """List the offsets of consumer groups, move them, or delete them. To move, give --group and --topic.

    Exit code 1: not applied.

    Example: mqstore offsets data --group billing --topic orders --to start --apply
    """
    output = Output(is_json=json)
    if sum((to is not None, to_time is not None, delete)) > 1:
        raise click.BadParameter("give one of --to, --to-time and --delete")
    if to is None and to_time is None and not delete:
        refuse_given("goes with --to, --to-time or --delete", "apply")
        show_offsets(output, store, group, topic, queue)
        return
    if group is None or (topic is None and not delete):
        raise click.BadParameter("say whose offsets: --group, and to move them --topic")
    if delete:
        _show_moved(output, _deleted(store, output, group, topic, queue, apply=apply), apply=apply)
    else:
        move_offsets(output, store, group, topic or "", queue, to, to_time, apply=apply)


def show_offsets(output: Output, path: Path, group: str | None, topic: str | None, queue: int | None) -> None:
    """List how far groups have come."""
    with open_for_reading(path) as opened:
        output.listing(_progress(opened, group, topic, queue), _COLUMNS)


def move_offsets(
    output: Output,
    path: Path,
    group: str,
    topic: str,
    queue: int | None,
    to: str | None,
    to_time: str | None,
    *,
    apply: bool,
) -> None:
    """Move a group to a place or a time, or show what that would change. Exit code 1: not applied."""
    _show_moved(output, _moved(path, output, group, topic, queue, to, to_time, apply=apply), apply=apply)


def _show_moved(output: Output, rows: list[MovedRow], *, apply: bool) -> None:
    output.listing(rows, MOVED_COLUMNS)
    end_of(output, apply=apply, is_needed=any(row.before != row.after for row in rows))


def _chosen(
    store: MessageStore, group: str | None, topic: str | None, queue: int | None
) -> Iterator[ConsumerOffset]:
    for row in store.consumer_offsets:
        if group in (None, row.group) and topic in (None, row.topic) and queue in (None, row.queue_id):
            yield row


def _progress(
    store: MessageStore, group: str | None, topic: str | None, queue: int | None
) -> list[OffsetRow]:
    """All queues of the topics in which a group has an offset."""
    return [
        OffsetRow(
            group=lag.group,
            topic=lag.topic,
            queue_id=lag.queue_id,
            offset=lag.consumer_offset,
            min_offset=store.get_min_offset_in_queue(lag.topic, lag.queue_id),
            max_offset=lag.broker_offset,
            lag=lag.lag,
        )
        for lag in store.stats().consumer_lags
        if group in (None, lag.group) and topic in (None, lag.topic) and queue in (None, lag.queue_id)
    ]


def _deleted(
    path: Path, output: Output, group: str, topic: str | None, queue: int | None, *, apply: bool
) -> list[MovedRow]:
    with open_to_apply(path, output, apply=apply) as store:
        gone = list(_chosen(store, group, topic, queue))
        if apply:
            store.consumer_offsets.delete(group, topic, queue)
    return [
        MovedRow(
            group=row.group,
            topic=row.topic,
            queue_id=row.queue_id,
            before=row.offset,
            after=-1,
            is_applied=apply,
        )
        for row in gone
    ]


def _moved(
    path: Path,
    output: Output,
    group: str,
    topic: str,
    queue: int | None,
    to: str | None,
    to_time: str | None,
    *,
    apply: bool,
) -> list[MovedRow]:
    place, time_ms = _place(to), _time_ms(to_time)
    with open_to_apply(path, output, apply=apply) as store:
        config = store.topics.get(topic)
        if config is None:
            raise no_topic(path, topic)
        if group not in store.subscription_groups:
            raise no_group(path, group)
        if queue is not None:
            refuse_queue(config, queue)
        rows = []
        for queue_id in range(config.read_queue_nums) if queue is None else [queue]:
            after = target_offset(store, topic, queue_id, place, time_ms)
            before = store.consumer_offsets.query(group, topic, queue_id)
            if apply:
                store.reset_offset(group, topic, queue_id, offset=after)
            rows.append(
                MovedRow(
                    group=group, topic=topic, queue_id=queue_id, before=before, after=after, is_applied=apply
                )
            )
    return rows


def _place(text: str | None) -> int | str | None:
    if text is None or text in ("start", "end"):
        return text
    if not (text.isascii() and text.isdigit()):
        raise click.BadParameter(f"--to {text}: give a queue offset, 'start' or 'end'")
    return int(text)


def _time_ms(text: str | None) -> int | None:
    try:
        return None if text is None else parse_time_ms(text)
    except ValueError as error:
        raise click.BadParameter(f"--to-time {text}: {error}") from error


def target_offset(
    store: MessageStore, topic: str, queue_id: int, place: int | str | None, time_ms: int | None
) -> int:
    """The offset in this queue; a number is clamped to the offsets that the queue has."""
    least = store.get_min_offset_in_queue(topic, queue_id)
    end = store.get_max_offset_in_queue(topic, queue_id)
    if time_ms is not None:
        return store.get_offset_in_queue_by_time(topic, queue_id, time_ms)
    if isinstance(place, int):
        return min(max(place, least), end)
    return least if place == "start" else end
