"""`mqstore put`: store one message.

    $ mqstore put data orders '{"id": 1}' --tag created --key o-1
    PUT_OK orders queue 0 offset 0, physical offset 0, id 7F00000100002A9F0000000000000000

Opens the store for writing, so not beside a live writer (exit code 3).
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from mqstore.message_store import MessageStore
from mqstore.store.config import StoreConfig
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.record.properties_format import DELAY, KEYS, TAGS
from mqstore.tools.cli.command import Argument, Command
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.open_store import open_for_writing, settings_of
from mqstore.tools.cli.options import (
    config_option,
    json_option,
    refuse_given,
    setting_option,
    store_argument,
    topic_argument,
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


@click.command(cls=Command)
@store_argument
@topic_argument
@click.argument(
    "body", cls=Argument, default="-", help="The body; - for standard input, which is the default."
)
@click.option("--tag", help="The tag that consumers filter by.")
@click.option("--key", multiple=True, help="A key for `query`. Repeatable.")
@click.option("--queue", type=click.IntRange(min=0), default=0, help="Queue of the topic, from 0.")
@click.option(
    "--delay-level",
    type=click.IntRange(min=0),
    default=0,
    help="Deliver later: 1 is 1 s, 3 is 10 s, 18 is 2 h by default.",
)
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A property. Repeatable.")
@config_option
@setting_option
@json_option
def put(
    store: Path,
    topic: str,
    body: str,
    tag: str | None,
    key: tuple[str, ...],
    queue: int,
    delay_level: int,
    properties: tuple[str, ...],
    config: Path | None,
    setting: tuple[str, ...],
    json: bool,
) -> None:
    """Store one message; the store and the topic are created if need be.

    Example: mqstore put data orders '{"id": 1}' --tag created --key o-1
    """
    pairs = _pairs(properties)
    for name, option in ((TAGS, "tag"), (KEYS, "key"), (DELAY, "delay_level")):
        if name in pairs:
            refuse_given(f"and --property {name}=... say the same: give one of them", option)
    message = Message(
        topic,
        sys.stdin.buffer.read() if body == "-" else os.fsencode(body),
        tags=tag,
        keys=key,
        queue_id=queue,
        delay_level=delay_level,
        properties=pairs,
    )
    output = Output(is_json=json)
    if not (store / "commitlog").is_dir():
        _check(message, store, settings_of(store, config, setting))
    with open_for_writing(store, config, setting, output=output) as opened:
        result = opened.put_message(message)
        opened.flush()
    _show(output, result)


def _check(message: Message, path: Path, config: StoreConfig) -> None:
    """Raise what a put into a new store would raise: a message that is refused leaves no directory."""
    with MessageStore.open(path, config, file_system=MemoryFileSystem(), start=False) as trial:
        trial.check_message(message)


def _pairs(properties: Sequence[str]) -> dict[str, str]:
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
