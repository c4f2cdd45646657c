"""`mqstore get`: messages of a topic, from an offset or a time on. Safe on a live store.

    $ mqstore get data orders --queue 0 --offset 0 --count 2
    queue  offset  stored at                tags     keys  retries  body
        0       0  2026-07-18 12:30:00.123  created  o-1         0  {"id": 1}

It commits nothing: no consumer group moves.
"""

import itertools
from pathlib import Path

import click

from mqstore.message_store import MessageStore
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.messages.message_row import MESSAGE_COLUMNS, message_row
from mqstore.tools.cli.messages.queue_reader import queue_ids, read_queue
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import json_option, raw_option, store_argument, tags_option, topic_argument
from mqstore.tools.cli.output import Output
from mqstore.tools.cli.parameter_types import AMOUNT
from mqstore.tools.cli.times import parse_time_ms

__all__ = ["get"]


@click.command(cls=Command)
@store_argument
@topic_argument
@click.option("--queue", type=int, help="One queue; otherwise all in turn.")
@click.option("--offset", type=int, help="From this queue offset on.")
@click.option("--time", help="From this store time on: epoch ms, or 2026-07-18T12:30 local.")
@click.option("--count", type=AMOUNT, default=10, help="At most so many messages.")
@tags_option
@raw_option
@json_option
def get(
    store: Path,
    topic: str,
    queue: int | None,
    offset: int | None,
    time: str | None,
    count: int,
    tags: str,
    raw: bool,
    json: bool,
) -> None:
    """Show messages of a topic, queue by queue, from the oldest, an offset, or a time on.

    Example: mqstore get data orders --queue 0 --offset 100 --count 5
    """
    if offset is not None and time is not None:
        raise click.BadParameter("give --offset or --time, not both")
    time_ms = None if time is None else _time_ms(time)
    with open_for_reading(store) as opened:
        messages = itertools.chain.from_iterable(
            read_queue(opened, topic, queue_id, _start(opened, topic, queue_id, offset, time_ms), count, tags)
            for queue_id in queue_ids(opened, topic, queue)
        )
        output = Output(is_json=json)
        rows = (message_row(each, is_raw=raw, note=output.note) for each in itertools.islice(messages, count))
        if not output.listing(rows, MESSAGE_COLUMNS):
            output.note(f"no message of topic {topic} there")


def _time_ms(text: str) -> int:
    try:
        return parse_time_ms(text)
    except ValueError as error:
        raise click.BadParameter(f"--time {text}: {error}") from error


def _start(store: MessageStore, topic: str, queue_id: int, offset: int | None, time_ms: int | None) -> int:
    if time_ms is not None:
        return store.get_offset_in_queue_by_time(topic, queue_id, time_ms)
    return store.get_min_offset_in_queue(topic, queue_id) if offset is None else offset
