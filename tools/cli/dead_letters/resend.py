"""`mqstore dlq resend`: dead letters are put again, to the topics that they came from, with --apply.

    $ mqstore dlq resend data billing --all --apply
    offset  to      queue  physical
         0  orders      2    21,310

A dead letter that was resent before is left out; so the command may be given again after a crash.
"""

from collections.abc import Iterator
from typing import Annotated

import typer

from mqstore.client.dead_letters.dead_letter import DeadLetter
from mqstore.client.dead_letters.dead_letters import DeadLetters, Resent
from mqstore.store.message.topic_names import retry_topic
from mqstore.tools.cli.administration.applying import ApplyOption, end_of, open_to_apply
from mqstore.tools.cli.dead_letters.dead_letter_options import (
    GroupArgument,
    KeyOption,
    OriginOption,
    SinceOption,
    TagOption,
    UntilOption,
    wanted,
)
from mqstore.tools.cli.options import JsonOption, StoreArgument
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


_COLUMNS = (
    Column[ResentRow]("offset", lambda row: row.queue_offset, "right"),
    Column[ResentRow]("to", lambda row: row.to_topic),
    Column[ResentRow]("queue", lambda row: row.to_queue_id, "right"),
    Column[ResentRow]("physical", lambda row: row.physical_offset, "right"),
)


def resend(
    store: StoreArgument,
    group: GroupArgument,
    offsets: Annotated[
        list[int] | None,
        typer.Argument(metavar="OFFSET...", help="Their queue offsets, as `list` shows them."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All that the other options accept.")] = False,
    queue: Annotated[int, typer.Option("--queue", help="The queue of OFFSET.")] = 0,
    from_topic: OriginOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    tag: TagOption = None,
    key: KeyOption = None,
    to_topic: Annotated[
        str | None,
        typer.Option("--to-topic", metavar="TOPIC", help="To this topic, not to the original one."),
    ] = None,
    only_group: Annotated[
        bool, typer.Option("--only-group", help="To this group alone, not to all groups of the topic.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Also those that were resent before.")] = False,
    apply: ApplyOption = False,
    json: JsonOption = False,
) -> None:
    """Put dead letters again, to the topics that they came from. They stay among the dead letters.

    Every group of the topic gets them, unless --only-group. Exit code 1: not applied, or one cannot be sent.
    Example: mqstore dlq resend data billing --all --from-topic orders --apply
    """
    output = Output(is_json=json)
    if bool(offsets) == every:
        raise typer.BadParameter("say which: OFFSET..., or --all")
    chosen = wanted(from_topic, since, until, tag, key)
    with open_to_apply(store, output, apply=apply) as opened:
        letters = DeadLetters(opened, group)
        found: Iterator[DeadLetter] = (
            (letters.get(offset, queue) for offset in offsets) if offsets else letters.find(chosen)
        )
        if apply:
            resent = letters.resend(found, topic=to_topic, only_group=only_group, again=again)
            rows, skipped = _rows_of(group, resent)
        else:
            rows, skipped = _planned(letters, found, to_topic, only_group=only_group, again=again)
    if not output.listing(rows, _COLUMNS):
        output.note(f"group {group} has no dead letter to resend")
    if skipped:
        output.note(f"resent before and left out: {skipped:,} (--again takes them, too)")
    end_of(output, apply=apply, is_needed=bool(rows))


def _rows_of(group: str, resent: list[Resent]) -> tuple[list[ResentRow], int]:
    rows = [
        ResentRow(
            group=group,
            queue_id=queue_id,
            queue_offset=queue_offset,
            to_topic=put.topic,
            to_queue_id=put.queue_id,
            to_queue_offset=put.queue_offset,
            physical_offset=put.physical_offset,
            is_applied=True,
        )
        for queue_id, queue_offset, put in resent
        if put is not None
    ]
    return rows, len(resent) - len(rows)


def _planned(
    letters: DeadLetters, found: Iterator[DeadLetter], to_topic: str | None, *, only_group: bool, again: bool
) -> tuple[list[ResentRow], int]:
    rows, skipped = [], 0
    for letter in found:
        if not again and letters.is_resent(letter, to_topic):
            skipped += 1
            continue
        target = letters.target_of(letter, to_topic)
        rows.append(
            ResentRow(
                group=letter.group,
                queue_id=letter.queue_id,
                queue_offset=letter.queue_offset,
                to_topic=retry_topic(letter.group) if only_group else target,
                to_queue_id=None,
                to_queue_offset=None,
                physical_offset=None,
                is_applied=False,
            )
        )
    return rows, skipped
