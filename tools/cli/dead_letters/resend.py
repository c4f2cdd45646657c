"""`mqstore dlq resend`: dead letters are put again, to the topics that they came from, with --apply.

    $ mqstore dlq resend data billing --all --apply
    offset  to      queue  physical
         0  orders      2    21,310

A message goes once, also if it has several letters, and one that was resent before is left out; so the
command may be given again after a crash. A letter that cannot be sent is told with the reason, and does not
stop the others. Placeholders, which a repair put in the place of lost messages, are left out. With --server
it goes through a running broker, whose store is its own.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from mqstore.client.dead_letters.dead_letter import DeadLetter, DeadLetterNotSendable, Resent
from mqstore.client.dead_letters.dead_letter_filter import DeadLetterFilter
from mqstore.client.dead_letters.dead_letters import DeadLetters
from mqstore.tools.cli.administration.applying import apply_option, end_of
from mqstore.tools.cli.command import Argument
from mqstore.tools.cli.dead_letters.dead_letter_options import filter_options, group_argument, wanted
from mqstore.tools.cli.dead_letters.letter_place import LetterCommand, letter_store, none_found, open_letters
from mqstore.tools.cli.dead_letters.server_place import ServerPlace, server_options
from mqstore.tools.cli.exit_codes import ExitCode
from mqstore.tools.cli.options import json_option
from mqstore.tools.cli.output import Column, Output, Row

__all__ = ["resend"]


class ResentRow(Row):
    """One dead letter, and where its copy goes; without --apply the queue and the offsets are missing."""

    group: str
    queue_id: int
    queue_offset: int
    to_topic: str
    to_queue_id: int | None
    to_queue_offset: int | None
    physical_offset: int | None
    is_applied: bool


_NAMED = 5
"""So many letters that are left out are named."""

_COLUMNS = (
    Column[ResentRow]("offset", lambda row: row.queue_offset, "right"),
    Column[ResentRow]("to", lambda row: row.to_topic),
    Column[ResentRow]("queue", lambda row: row.to_queue_id, "right"),
    Column[ResentRow]("physical", lambda row: row.physical_offset, "right"),
)


@click.command(cls=LetterCommand)
@letter_store
@group_argument
@click.argument(
    "offsets",
    cls=Argument,
    type=int,
    nargs=-1,
    metavar="[OFFSET]...",
    help="Their queue offsets, as `list` shows them.",
)
@click.option("--all", "every", is_flag=True, help="All that the other options accept.")
@click.option("--queue", type=int, help="The queue of OFFSET; 0 if not given.")
@filter_options
@click.option("--to-topic", metavar="TOPIC", help="To this topic, not to the original one.")
@click.option("--only-group", is_flag=True, help="To this group alone, not to all groups of the topic.")
@click.option("--again", is_flag=True, help="Also those that were resent before.")
@server_options
@apply_option
@json_option
def resend(
    store: Path | None,
    group: str,
    offsets: tuple[int, ...],
    every: bool,
    queue: int | None,
    from_topic: str | None,
    since: str | None,
    until: str | None,
    tag: str | None,
    key: str | None,
    to_topic: str | None,
    only_group: bool,
    again: bool,
    server: str | None,
    access_keys: Path | None,
    tls: bool,
    tls_ca: Path | None,
    tls_cert: Path | None,
    apply: bool,
    json: bool,
) -> None:
    """Put dead letters again, to the topics that they came from. They stay among the dead letters.

    Every group of the topic gets them, unless --only-group. With --server in place of STORE: through that
    broker. One that cannot be sent does not stop the others. Exit code 1: not applied, or one was not sent.

    Example: mqstore dlq resend data billing --all --from-topic orders --apply
    """
    output = Output(is_json=json)
    if bool(offsets) == every:
        raise click.BadParameter("say which: OFFSET..., or --all")
    chosen = wanted(from_topic, since, until, tag, key)
    if offsets and chosen != DeadLetterFilter():
        raise click.BadParameter("OFFSET says which: filters go with --all")
    if every and queue is not None:
        raise click.BadParameter("--queue goes with OFFSET")
    if to_topic == "":
        raise click.BadParameter("--to-topic is empty: leave it out for the original topics")
    place = ServerPlace(server, access_keys, tls, tls_ca, tls_cert)
    with open_letters(store, place, output=output, apply=apply) as opened:
        letters = DeadLetters(opened, group)
        found: Iterable[DeadLetter] = (
            [letters.get(offset, queue or 0) for offset in offsets] if offsets else letters.find(chosen)
        )
        resend = letters.resend_each if apply else letters.planned
        outcomes: list[Resent] = []
        try:
            outcomes += resend(found, topic=to_topic, only_group=only_group, again=again)
        finally:
            # What was sent is shown, also when the others cannot be.
            rows = [_row(group, each) for each in outcomes if each.topic is not None]
            output.listing(rows, _COLUMNS)
        if not outcomes:
            output.note(none_found(letters))
    are_all_sent = _tell(outcomes, output, again=again, are_named=bool(offsets))
    end_of(output, apply=apply, is_needed=bool(rows))
    if not are_all_sent:
        raise click.exceptions.Exit(ExitCode.PROBLEM)


def _row(group: str, outcome: Resent) -> ResentRow:
    put = outcome.put
    return ResentRow(
        group=group,
        queue_id=outcome.queue_id,
        queue_offset=outcome.queue_offset,
        to_topic=(outcome.topic or "") if put is None else put.topic,
        to_queue_id=None if put is None else put.queue_id,
        to_queue_offset=None if put is None else put.queue_offset,
        physical_offset=None if put is None else put.physical_offset,
        is_applied=put is not None,
    )


def _tell(outcomes: Sequence[Resent], output: Output, *, again: bool, are_named: bool) -> bool:
    """Say what was not sent, and why. Whether all were that should be: of those named, placeholders, too."""
    skipped = [each.queue_offset for each in outcomes if each.topic is None and each.problem is None]
    if skipped:
        is_anything_sent = any(each.topic is not None for each in outcomes)
        output.note(_left_out(skipped, is_anything_sent=is_anything_sent, again=again))
    problems = [each.problem for each in outcomes if each.problem is not None]
    placeholders = [] if are_named else [each for each in problems if each.letter.is_placeholder]
    _tell_by_reason("left out", placeholders, output)
    refused = [each for each in problems if each not in placeholders]
    _tell_by_reason("not sent", refused, output)
    return not refused


def _tell_by_reason(what: str, problems: Sequence[DeadLetterNotSendable], output: Output) -> None:
    offsets: dict[str, list[int]] = {}
    for problem in problems:
        offsets.setdefault(problem.reason, []).append(problem.letter.queue_offset)
    for reason, those in offsets.items():
        output.note(f"{_letters(those)} {what}: {reason}")


def _letters(offsets: Sequence[int]) -> str:
    named = ", ".join(map(str, offsets[:_NAMED])) + (", ..." if len(offsets) > _NAMED else "")
    return f"letter {named}" if len(offsets) == 1 else f"{len(offsets):,} letters ({named})"


def _left_out(offsets: Sequence[int], *, is_anything_sent: bool, again: bool) -> str:
    """Why these letters are left out."""
    letters = _letters(offsets)
    if len(offsets) == 1:
        were, reason = "was", "its message was resent before, or is sent with another letter"
    else:
        were, reason = "were", "their messages were resent before, or are sent with another letter"
    if again:
        return f"{letters} left out: another letter of the same message is sent"
    if not is_anything_sent:
        return f"nothing to send: {letters} {were} resent before (--again sends again)"
    return f"{letters} left out: {reason} (--again sends again)"
