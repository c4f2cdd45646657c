"""`mqstore put`: store one message.

    $ mqstore put data orders '{"id": 1}' --tag created --key o-1
    PUT_OK orders queue 0 offset 0, physical offset 0, id 7F00000100002A9F0000000000000000

Opens the store for writing, so not beside a live writer (exit code 3).
"""

import os
import sys
from typing import Annotated

import typer

from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.open_store import open_for_writing
from mqstore.tools.cli.options import (
    ConfigFileOption,
    JsonOption,
    SettingOption,
    StoreArgument,
    TopicArgument,
)
from mqstore.tools.cli.output import Output, Row

__all__ = ["put"]


class PutRow(Row):
    """The result of a put."""

    status: str
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int
    store_timestamp: int
    durable: bool
    msg_id: str


def put(
    store: StoreArgument,
    topic: TopicArgument,
    body: Annotated[str, typer.Argument(metavar="BODY", help="The body; - for standard input.")] = "-",
    tag: Annotated[str | None, typer.Option("--tag", help="The tag that consumers filter by.")] = None,
    key: Annotated[list[str] | None, typer.Option("--key", help="A key for `query`. Repeatable.")] = None,
    queue: Annotated[int, typer.Option("--queue", help="Queue of the topic, from 0.")] = 0,
    delay_level: Annotated[
        int, typer.Option("--delay-level", help="Deliver later: 1 is 1 s, 3 is 10 s, 18 is 2 h by default.")
    ] = 0,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property. Repeatable.")
    ] = None,
    config: ConfigFileOption = None,
    settings: SettingOption = None,
    json: JsonOption = False,
) -> None:
    """Store one message; the store and the topic are created if need be.

    Example: mqstore put data orders '{"id": 1}' --tag created --key o-1
    """
    message = Message(
        topic,
        sys.stdin.buffer.read() if body == "-" else os.fsencode(body),
        tags=tag,
        keys=tuple(key or ()),
        queue_id=queue,
        delay_level=delay_level,
        properties=_pairs(properties or []),
    )
    output = Output(is_json=json)
    with open_for_writing(store, config, settings or (), output=output) as opened:
        result = opened.put_message(message)
        opened.flush()
    _show(output, result)


def _pairs(properties: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in properties]
    for name, separator, value in pairs:
        if not separator:
            raise ToolProblem(f"--property {name}{value}: give NAME=VALUE", ExitCode.USAGE)
    return {name: value for name, _, value in pairs}


def _show(output: Output, result: PutMessageResult) -> None:
    if not output.is_json:
        output.text(
            f"{result.status.value} {result.topic} queue {result.queue_id} offset {result.queue_offset}, "
            f"physical offset {result.physical_offset}, id {result.msg_id}"
        )
        return
    row = PutRow(
        status=result.status.value,
        topic=result.topic,
        queue_id=result.queue_id,
        queue_offset=result.queue_offset,
        physical_offset=result.physical_offset,
        store_size=result.store_size,
        store_timestamp=result.store_timestamp,
        # The store was flushed and closed since.
        durable=True,
        msg_id=result.msg_id,
    )
    output.facts(row)
