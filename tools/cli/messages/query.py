"""`mqstore query`: messages by key, by message id, or by physical offset. Safe on a live store.

    $ mqstore query data orders --key o-1
    $ mqstore query data --id 7F00000100002A9F0000000000000000

Prints what it finds, oldest first; exit code 1 when that is nothing.
"""

from typing import Annotated

import typer

from mqstore.message_store import MessageStore
from mqstore.metadata.topic_hints import nearest_topic
from mqstore.store.clock import END_OF_TIME_MS
from mqstore.store.errors import MessageNotFound
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.message_id import decode_message_id
from mqstore.tools.cli.exit_codes import ExitCode
from mqstore.tools.cli.messages.message_row import FOUND_COLUMNS, message_row
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import JsonOption, RawOption, StoreArgument
from mqstore.tools.cli.output import Output
from mqstore.tools.cli.times import parse_time_ms

__all__ = ["query"]


def query(
    store: StoreArgument,
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The topic, for --key.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="A key, or the producer's unique key.")] = None,
    message_id: Annotated[str | None, typer.Option("--id", help="A message id: 32 or 56 hex digits.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="A physical offset.")] = None,
    begin: Annotated[str, typer.Option("--begin", help="Stored at or after: epoch ms or local time.")] = "0",
    end: Annotated[str | None, typer.Option("--end", help="Stored at or before.")] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="At most so many, the newest.")] = 32,
    raw: RawOption = False,
    json: JsonOption = False,
) -> None:
    """Find messages by key within a topic, or one message by its id or physical offset.

    Exit code 1 when there is none. Example: mqstore query data orders --key o-1
    """
    if sum(given is not None for given in (key, message_id, offset)) != 1:
        raise typer.BadParameter("give one of --key, --id and --offset")
    if (key is None) != (topic is None):
        raise typer.BadParameter("--key needs a TOPIC, and --id and --offset need none")
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
        raise typer.Exit(ExitCode.PROBLEM)


def _time_ms(text: str | None, absent: int) -> int:
    try:
        return absent if text is None else parse_time_ms(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text} is no time: {error}") from error


def _physical_offset(message_id: str | None, offset: int | None) -> int:
    if offset is not None:
        return offset
    try:
        return decode_message_id(message_id or "")[1]
    except ValueError as error:
        raise typer.BadParameter(f"--id: {error}") from error


def _at(store: MessageStore, physical_offset: int) -> StoredMessage:
    message = store.look_message_by_offset(physical_offset)
    if message is None:
        raise MessageNotFound(physical_offset, store.min_offset, store.max_offset)
    return message
