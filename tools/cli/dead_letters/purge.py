"""`mqstore dlq purge`: a group's dead-letter topic is deleted, with --apply.

    $ mqstore dlq purge data billing --apply
    deleted topic %DLQ%billing: 12 dead letters, 2 of them not resent

All of them go: a log is only appended to, so there is no purging of some. The records expire with the log.
"""

from pathlib import Path

import click

from mqstore.client.dead_letters.dead_letters import DeadLetters
from mqstore.tools.cli.administration.applying import apply_option, end_of, open_to_apply
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.dead_letters.dead_letter_options import group_argument
from mqstore.tools.cli.dead_letters.letter_place import none_found
from mqstore.tools.cli.options import json_option, store_argument
from mqstore.tools.cli.output import Output, Row

__all__ = ["purge"]


class PurgedRow(Row):
    """What a purge takes."""

    group: str
    topic: str
    messages: int
    not_resent: int
    is_applied: bool


@click.command(cls=Command)
@store_argument
@group_argument
@apply_option
@json_option
def purge(store: Path, group: str, apply: bool, json: bool) -> None:
    """Delete all dead letters of a group, resent or not: its dead-letter topic, with the offsets in it.

    Their records stay in the log until they expire. Exit code 1: not applied.

    Example: mqstore dlq purge data billing --apply
    """
    output = Output(is_json=json)
    with open_to_apply(store, output, apply=apply) as opened:
        letters = DeadLetters(opened, group)
        not_resent = sum(not (letter.is_placeholder or letters.is_resent(letter)) for letter in letters)
        is_there = bool(len(letters)) or letters.topic in opened.topics
        none = "" if is_there else none_found(letters)
        count = letters.purge() if apply and is_there else len(letters)
    row = PurgedRow(
        group=group, topic=letters.topic, messages=count, not_resent=not_resent, is_applied=apply and is_there
    )
    if output.is_json:
        output.facts(row)
    elif not is_there:
        output.text(none)
    else:
        done = "deleted" if apply else "would delete"
        output.text(f"{done} topic {row.topic}: {count:,} dead letters, {not_resent:,} of them not resent")
    end_of(output, apply=apply, is_needed=is_there)
