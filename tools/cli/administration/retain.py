"""`mqstore retain`: deletes what has expired now, at whatever hour. Acts only with --apply.

    $ mqstore retain data --apply
    deleted 2 segments, 2,147,483,648 bytes; the log begins at 2,147,483,648

A segment has expired `file_reserved_time` hours (72) after its last write; one that holds a delayed message
which is still to be delivered stays. Takes the writer's lock.
"""

from pathlib import Path

import click

from mqstore.message_store import MessageStore
from mqstore.store.config import StoreConfig
from mqstore.tools.cli.administration.applying import apply_option, end_of, open_to_apply
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.options import json_option, store_argument
from mqstore.tools.cli.output import Output, Row

__all__ = ["retain"]

_HOUR_MS = 3_600_000


class RetainRow(Row):
    """What was, or would be, deleted. `queues` are named `topic/queue`; null where it was not asked for."""

    is_applied: bool
    segments: int
    bytes: int
    min_offset: int
    queues: list[str] | None


@click.command(cls=Command)
@store_argument
@click.option(
    "--hours", type=click.IntRange(min=0), help="Keep segments this long, instead of the 72 of RocketMQ."
)
@click.option("--queues", is_flag=True, help="Then delete the queues of which no message is left.")
@apply_option
@json_option
def retain(
    store: Path,
    hours: int | None,
    queues: bool,
    apply: bool,
    json: bool,
) -> None:
    """Delete the log's segments that have expired, whatever the hour; queues and keys follow.

    Exit code 1: not applied.

    Example: mqstore retain data --hours 24 --apply
    """
    output = Output(is_json=json)
    settings = (f"file_reserved_time={StoreConfig().file_reserved_time if hours is None else hours}",)
    with open_to_apply(store, output, apply=apply, settings=settings) as opened:
        look = _applied if apply else _shown
        row = look(opened, queues=queues)
    if output.is_json:
        output.facts(row)
    else:
        _tell(output, row)
    end_of(output, apply=apply, is_needed=bool(row.segments or row.queues))


def _applied(store: MessageStore, *, queues: bool) -> RetainRow:
    before = store.min_offset
    segments = store.delete_expired_files()
    expired = _names(store.delete_expired_queues()) if queues else None
    return RetainRow(
        is_applied=True,
        segments=segments,
        bytes=store.min_offset - before,
        min_offset=store.min_offset,
        queues=expired,
    )


def _shown(store: MessageStore, *, queues: bool) -> RetainRow:
    """What `_applied` would delete."""
    files = store.expired_files()
    end = store.min_offset + len(files) * store.config.mapped_file_size_commit_log
    return RetainRow(
        is_applied=False,
        segments=len(files),
        bytes=end - store.min_offset,
        min_offset=end,
        queues=_names(store.expired_queues()) if queues else None,
    )


def _names(queues: list[tuple[str, int]]) -> list[str]:
    return [f"{topic}/{queue_id}" for topic, queue_id in queues]


def _tell(output: Output, row: RetainRow) -> None:
    done = "deleted" if row.is_applied else "would delete"
    output.text(
        f"{done} {row.segments:,} segments, {row.bytes:,} bytes; the log begins at {row.min_offset:,}"
    )
    if row.queues is not None:
        output.text(f"{done} queues: {', '.join(row.queues) or 'none'}")
