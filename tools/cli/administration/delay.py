"""`mqstore delay`: the delayed messages that wait, and cancelling one. Listing is safe on a live store.

    $ mqstore delay list data
    level  due at                   physical  to                cancelled  tags     keys  body
        5  2026-07-18 12:31:00.123     1,204  orders                       created  o-1   {"id": 1}

Cancelling needs the store for itself, and acts only with --apply; a program that has the store open calls
`MessageStore.cancel_waiting_message`.
"""

import itertools
from pathlib import Path

import click

from mqstore.message_store import MessageStore
from mqstore.schedule.delivery.waiting_message import WaitingMessage
from mqstore.store.errors import DelayNotWaiting
from mqstore.store.record.properties_format import ORIGIN_MESSAGE_ID, RETRY_TOPIC
from mqstore.tools.cli.administration.applying import apply_option, end_of, open_to_apply
from mqstore.tools.cli.command import Argument, CommandGroup
from mqstore.tools.cli.messages.message_row import MessageRow, message_row, shortened_body
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import json_option, raw_option, store_argument
from mqstore.tools.cli.output import Column, Output
from mqstore.tools.cli.parameter_types import AMOUNT
from mqstore.tools.cli.times import local_time

__all__ = ["delay"]


class WaitingRow(MessageRow):
    """A message that waits. `real_topic`: where it will be delivered to."""

    level: int
    due_timestamp: int
    real_topic: str | None
    original_topic: str | None
    origin_message_id: str | None
    is_cancelled: bool


_COLUMNS = (
    Column[WaitingRow]("level", lambda row: row.level, "right"),
    Column[WaitingRow]("due at", lambda row: local_time(row.due_timestamp)),
    Column[WaitingRow]("physical", lambda row: row.physical_offset, "right"),
    Column[WaitingRow]("to", lambda row: row.real_topic),
    Column[WaitingRow]("cancelled", lambda row: row.is_cancelled),
    Column[WaitingRow]("tags", lambda row: row.tags),
    Column[WaitingRow]("keys", lambda row: " ".join(row.keys)),
    Column[WaitingRow]("body", shortened_body),
)


@click.group(cls=CommandGroup)
def delay() -> None:
    """Delayed messages that wait for their delivery; retries that wait are among them."""


@delay.command("list")
@store_argument
@click.option("--level", type=click.IntRange(min=1), help="Of this delay level only.")
@click.option("--to", metavar="TOPIC", help="Only those that will go to this topic.")
@click.option("--count", type=AMOUNT, default=100, help="At most so many.")
@raw_option
@json_option
def list_waiting(store: Path, level: int | None, to: str | None, count: int, raw: bool, json: bool) -> None:
    """List the delayed messages that wait, level by level, the next one of each level first.

    Beside a live writer, what it delivered in the last seconds is listed, too.

    Example: mqstore delay list data --level 5
    """
    output = Output(is_json=json)
    with open_for_reading(store) as opened:
        found = (each for each in opened.waiting_messages(level) if to in (None, each.real_topic))
        rows = (_row(each, output, is_raw=raw) for each in itertools.islice(found, count))
        if not output.listing(rows, _COLUMNS):
            output.note("no such message waits")
        elif next(found, None) is not None:
            output.note(f"there are more than {count}: --count, --level or --to")


@delay.command()
@store_argument
@click.argument(
    "physical_offset",
    cls=Argument,
    type=int,
    metavar="PHYSICAL",
    help="Where its record begins, as `list` shows it.",
)
@apply_option
@json_option
def cancel(store: Path, physical_offset: int, apply: bool, json: bool) -> None:
    """Let a delayed message not be delivered. Its record stays, and a RocketMQ broker would deliver it.

    Exit code 1: not applied, or it does not wait.

    Example: mqstore delay cancel data 1204 --apply
    """
    output = Output(is_json=json)
    with open_to_apply(store, output, apply=apply) as opened:
        cancelled = (
            opened.cancel_waiting_message(physical_offset) if apply else _found(opened, physical_offset)
        )
        output.listing([_row(cancelled, output, is_raw=False)], _COLUMNS)
    end_of(output, apply=apply, is_needed=True)


def _found(store: MessageStore, physical_offset: int) -> WaitingMessage:
    for waiting in store.waiting_messages():
        if waiting.message.physical_offset == physical_offset and not waiting.is_cancelled:
            return waiting
    raise DelayNotWaiting(physical_offset, "it does not wait, or is cancelled already")


def _row(waiting: WaitingMessage, output: Output, *, is_raw: bool) -> WaitingRow:
    message = waiting.message
    row = message_row(message, is_raw=is_raw, note=output.note)
    return WaitingRow(
        **{name: getattr(row, name) for name in row.__struct_fields__},
        level=waiting.level,
        due_timestamp=waiting.due_ms,
        real_topic=waiting.real_topic,
        original_topic=message.properties.get(RETRY_TOPIC),
        origin_message_id=message.properties.get(ORIGIN_MESSAGE_ID),
        is_cancelled=waiting.is_cancelled,
    )
