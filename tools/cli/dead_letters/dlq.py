"""`mqstore dlq`: the dead letters of a consumer group. What only reads is safe on a live store.

    $ mqstore dlq list data billing
    group    offset  letters  died at                  from    failed  resent  tags     keys  body
    billing       0        1  2026-07-18 12:30:00.123  orders      17          created  o-1   {"id": 1}

A message that died more than once, or whose worker was killed, has several letters and one row, with its
newest letter. A placeholder, which a repair put in the place of a lost message, is marked as one. With
--server the letters are those of a running broker. `list`, `show` and `export` are here; `resend` and `purge`
are in files of their name.
"""

import sys
from pathlib import Path

import click

from mqstore.client.dead_letters.dead_letter import Arrival, DeadLetter
from mqstore.client.dead_letters.dead_letter_export import ByteStream
from mqstore.client.dead_letters.dead_letters import DeadLetters
from mqstore.tools.cli.command import Argument, CommandGroup
from mqstore.tools.cli.dead_letters.dead_letter_options import filter_options, group_argument, wanted
from mqstore.tools.cli.dead_letters.letter_place import LetterCommand, letter_store, none_found, open_letters
from mqstore.tools.cli.dead_letters.purge import purge
from mqstore.tools.cli.dead_letters.resend import resend
from mqstore.tools.cli.dead_letters.server_place import ServerPlace, server_options
from mqstore.tools.cli.exit_codes import ToolProblem
from mqstore.tools.cli.messages.message_row import MessageRow, message_row, shortened_body
from mqstore.tools.cli.options import json_option, raw_option
from mqstore.tools.cli.output import Column, Output, json_text
from mqstore.tools.cli.parameter_types import AMOUNT, SHELL_PATH
from mqstore.tools.cli.times import local_time
from mqstore.tools.export.unfinished import unfinished

__all__ = ["dlq"]


class DeadLetterRow(MessageRow):
    """A message, and what its last death left in it.

    letters: the queue offsets of all its letters; not looked for by `show`. is_resent: a copy that is younger
    than the last of them is in the log. is_placeholder: a repair put it in the place of a lost message.
    """

    group: str
    original_topic: str | None
    origin_message_id: str | None
    arrival: Arrival
    resent_message_id: str | None
    is_resent: bool
    is_placeholder: bool
    letters: list[int] | None


def _body(row: DeadLetterRow) -> str:
    return "(placeholder of a lost message)" if row.is_placeholder else shortened_body(row)


_COLUMNS = (
    Column[DeadLetterRow]("group", lambda row: row.group),
    Column[DeadLetterRow]("offset", lambda row: row.queue_offset, "right"),
    Column[DeadLetterRow]("letters", lambda row: len(row.letters or ()), "right"),
    Column[DeadLetterRow]("died at", lambda row: local_time(row.store_timestamp)),
    Column[DeadLetterRow]("from", lambda row: row.original_topic),
    Column[DeadLetterRow]("failed", lambda row: row.reconsume_times, "right"),
    Column[DeadLetterRow]("resent", lambda row: row.is_resent),
    Column[DeadLetterRow]("tags", lambda row: row.tags),
    Column[DeadLetterRow]("keys", lambda row: " ".join(row.keys)),
    Column[DeadLetterRow]("body", _body),
)


@click.group(cls=CommandGroup)
def dlq() -> None:
    """Dead letters: the messages that a consumer group gave up on."""


@dlq.command("list", cls=LetterCommand)
@letter_store
@click.argument(
    "group", cls=Argument, required=False, help="The consumer group; otherwise each that has some."
)
@filter_options
@click.option("--offset", type=int, default=0, help="From this queue offset on.")
@click.option("--count", type=AMOUNT, default=100, help="At most so many messages.")
@server_options
@raw_option
@json_option
def list_letters(
    store: Path | None,
    group: str | None,
    from_topic: str | None,
    since: str | None,
    until: str | None,
    tag: str | None,
    key: str | None,
    offset: int,
    count: int,
    server: str | None,
    access_keys: Path | None,
    tls: bool,
    tls_ca: Path | None,
    tls_cert: Path | None,
    raw: bool,
    json: bool,
) -> None:
    """List the messages that a group gave up, oldest first, each with its newest dead letter.

    Without GROUP those of all groups, one after the other. With --server in place of STORE: at that broker.

    Example: mqstore dlq list data billing --from-topic orders --since 2026-07-18
    """
    output = Output(is_json=json)
    chosen = wanted(from_topic, since, until, tag, key, begin_offset=offset)
    place = ServerPlace(server, access_keys, tls, tls_ca, tls_cert)
    with open_letters(store, place) as opened:
        groups = DeadLetters.groups(opened) if group is None else [group]
        of_groups = (DeadLetters(opened, name) for name in groups)
        found = [(letters, message) for letters in of_groups for message in letters.find_messages(chosen)]
        rows = (
            _row(letters, message.newest, message.places, output, is_raw=raw)
            for letters, message in found[:count]
        )
        if not output.listing(rows, _COLUMNS):
            if group is not None:
                output.note(none_found(DeadLetters(opened, group)))
            else:
                output.note("no group has such a dead letter" if groups else "no dead letters")
        elif len(found) > count:
            output.note(f"there are more than {count}: --count, or --offset")


@dlq.command(cls=LetterCommand)
@letter_store
@group_argument
@click.argument("offset", cls=Argument, type=int, help="Its queue offset, as `list` shows it.")
@click.option("--queue", type=int, default=0, help="Its queue; there is one by default.")
@server_options
@raw_option
@json_option
def show(
    store: Path | None,
    group: str,
    offset: int,
    queue: int,
    server: str | None,
    access_keys: Path | None,
    tls: bool,
    tls_ca: Path | None,
    tls_cert: Path | None,
    raw: bool,
    json: bool,
) -> None:
    """Show all of one dead letter: how often it failed, when it died, where it came from, what it holds.

    Why it failed is in the log of its consumer, not in the store. Exit code 1: there is none.

    Example: mqstore dlq show data billing 0
    """
    output = Output(is_json=json)
    place = ServerPlace(server, access_keys, tls, tls_ca, tls_cert)
    with open_letters(store, place) as opened:
        letters = DeadLetters(opened, group)
        output.facts(_row(letters, letters.get(offset, queue), None, output, is_raw=raw))


@dlq.command(cls=LetterCommand)
@letter_store
@group_argument
@filter_options
@click.option("--to", type=SHELL_PATH, metavar="FILE", help="A new file; otherwise standard output.")
@server_options
@json_option
def export(
    store: Path | None,
    group: str,
    from_topic: str | None,
    since: str | None,
    until: str | None,
    tag: str | None,
    key: str | None,
    to: Path | None,
    server: str | None,
    access_keys: Path | None,
    tls: bool,
    tls_ca: Path | None,
    tls_cert: Path | None,
    json: bool,
) -> None:
    """Write dead letters as JSON, one object a line, nothing shortened.

    Exit code 1: the file exists.

    Example: mqstore dlq export data billing --to dead.jsonl
    """
    chosen = wanted(from_topic, since, until, tag, key)
    place = ServerPlace(server, access_keys, tls, tls_ca, tls_cert)
    with open_letters(store, place) as opened:
        letters = DeadLetters(opened, group)
        if to is None:
            letters.export(_StandardOutput(), chosen)
            sys.stdout.flush()
            return
        if to.exists():
            raise ToolProblem(f"{to} exists: give another name")
        with unfinished(to, is_directory=False, overwrite=False) as path, path.open("xb") as file:
            count = letters.export(file, chosen)
    Output(is_json=json).note(f"wrote {count:,} dead letters to {to}")


class _StandardOutput(ByteStream):
    """Where nothing may reach a terminal as a control sequence."""

    def write(self, data: bytes, /) -> None:
        sys.stdout.write(json_text(data))


def _row(
    letters: DeadLetters,
    letter: DeadLetter,
    places: list[tuple[int, int]] | None,
    output: Output,
    *,
    is_raw: bool,
) -> DeadLetterRow:
    row = message_row(letter.message, is_raw=is_raw, note=output.note)
    return DeadLetterRow(
        **{name: getattr(row, name) for name in row.__struct_fields__},
        group=letter.group,
        original_topic=letter.original_topic,
        origin_message_id=letter.origin_message_id,
        arrival=letter.arrival,
        resent_message_id=letter.resent_message_id,
        is_resent=letters.is_resent(letter),
        is_placeholder=letter.is_placeholder,
        letters=None if places is None else [queue_offset for _, queue_offset in places],
    )


dlq.add_command(resend)
dlq.add_command(purge)
