"""`mqstore query`: messages by key, by message id, or by physical offset. Safe on a live store.

    $ mqstore query data orders --key o-1
    $ mqstore query data --id 7F00000100002A9F0000000000000000

Prints what it finds, oldest first; exit code 1 when that is nothing.
"""

from pathlib import Path

import click

from mqstore.message_store import MessageStore
from mqstore.metadata.topic_hints import nearest_topic
from mqstore.store.clock import END_OF_TIME_MS
from mqstore.store.errors import MessageNotFound
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.message_id import decode_message_id
from mqstore.tools.cli.command import Argument, Command
from mqstore.tools.cli.exit_codes import ExitCode
from mqstore.tools.cli.messages.message_row import FOUND_COLUMNS, message_row
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import json_option, raw_option, refuse_given, store_argument
from mqstore.tools.cli.output import Output
from mqstore.tools.cli.parameter_types import AMOUNT
from mqstore.tools.cli.times import parse_time_ms

__all__ = ["query"]


@click.command(cls=Command)
@store_argument
@click.argument("topic", cls=Argument, required=False, help="The topic, for --key.")
@click.option("--key", help="A key, or the producer's unique key.")
@click.option("--id", "message_id", help="A message id: 32 or 56 hex digits.")
@click.option("--offset", type=click.IntRange(min=0), help="A physical offset.")
@click.option("--begin", default="0", help="Stored at or after: epoch ms or local time.")
@click.option("--end", help="Stored at or before.")
@click.option("--count", type=AMOUNT, default=32, help="At most so many, the newest.")
@raw_option
@json_option
def query(
    store: Path,
    topic: str | None,
    key: str | None,
    message_id: str | None,
    offset: int | None,
    begin: str,
    end: str | None,
    count: int,
    raw: bool,
    json: bool,
) -> None:
    """Find messages by key within a topic, or one message by its id or physical offset.

    Exit code 1 when there is none.

    Example: mqstore query data orders --key o-1
    """
    if sum(given is not None for given in (key, message_id, offset)) != 1:
        raise click.BadParameter("give one of --key, --id and --offset")
    if (key is None) != (topic is None):
        raise click.BadParameter("--key needs a TOPIC, and --id and --offset need none")
    if key is None:
        refuse_given("goes with --key: --id and --offset name one message", "begin", "end", "count")
    output = Output(is_json=json)
    with open_for_reading(store) as opened:
        if topic is not None and key is not None:
            found = opened.query_message(topic, key, _time_ms(begin, 0), _time_ms(end, END_OF_TIME_MS), count)
        else:
            found = [_at(opened, _physical_offset(message_id, offset))]
        near = nearest_topic(topic, opened.topics) if topic is not None and not found else None
        output.listing((message_row(each, is_raw=raw, note=output.note) for each in found), FOUND_COLUMNS)
    if not found:
        hint = f"; there is no such topic: did you mean {near!r}?" if near else ""
        output.note(f"no message of topic {topic} has the key {key}{hint}")
        raise click.exceptions.Exit(ExitCode.PROBLEM)


def _time_ms(text: str | None, absent: int) -> int:
    try:
        return absent if text is None else parse_time_ms(text)
    except ValueError as error:
        raise click.BadParameter(f"{text} is no time: {error}") from error


def _physical_offset(message_id: str | None, offset: int | None) -> int:
    if offset is not None:
        return offset
    try:
        return decode_message_id(message_id or "")[1]
    except ValueError as error:
        raise click.BadParameter(f"--id: {error}") from error


def _at(store: MessageStore, physical_offset: int) -> StoredMessage:
    message = store.look_message_by_offset(physical_offset)
    if message is None:
        raise MessageNotFound(physical_offset, store.min_offset, store.max_offset)
    return message
