"""`mqstore dlq resend`: dead letters are put again, to the topics that they came from, with --apply.

    $ mqstore dlq resend data billing --all --apply
    offset  to      queue  physical
         0  orders      2    21,310

A message goes once, also if it has several letters, and one that was resent before is left out; so the
command may be given again after a crash. With --server it goes through a running broker, whose store is its
own.
"""

from collections.abc import Iterator
from typing import Annotated

import typer

from mqstore.client.dead_letters.dead_letter import DeadLetter
from mqstore.client.dead_letters.dead_letters import DeadLetters, Resent
from mqstore.store.message.topic_names import retry_topic
from mqstore.tools.cli.administration.applying import ApplyOption, end_of
from mqstore.tools.cli.dead_letters.dead_letter_options import (
    GroupArgument,
    KeyOption,
    OriginOption,
    SinceOption,
    TagOption,
    UntilOption,
    wanted,
)
from mqstore.tools.cli.dead_letters.letter_place import open_letters
from mqstore.tools.cli.dead_letters.server_place import (
    AccessKeysOption,
    ServerOption,
    ServerPlace,
    TlsCaOption,
    TlsCertOption,
    TlsOption,
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


_NAMED = 5
"""So many letters that are left out are named."""

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
    server: ServerOption = None,
    access_keys: AccessKeysOption = None,
    tls: TlsOption = False,
    tls_ca: TlsCaOption = None,
    tls_cert: TlsCertOption = None,
    apply: ApplyOption = False,
    json: JsonOption = False,
) -> None:
    """Put dead letters again, to the topics that they came from. They stay among the dead letters.

    Every group of the topic gets them, unless --only-group. With --server in place of STORE: through that
    broker. Exit code 1: not applied, or one cannot be sent.
    Example: mqstore dlq resend data billing --all --from-topic orders --apply
    """
    output = Output(is_json=json)
    if bool(offsets) == every:
        raise typer.BadParameter("say which: OFFSET..., or --all")
    chosen = wanted(from_topic, since, until, tag, key)
    place = ServerPlace(server, access_keys, tls, tls_ca, tls_cert)
    with open_letters(store, place, output=output, apply=apply) as opened:
        letters = DeadLetters(opened, group)
        found: Iterator[DeadLetter] = (
            (letters.get(offset, queue) for offset in offsets) if offsets else letters.find(chosen)
        )
        if apply:
            resent = letters.resend(found, topic=to_topic, only_group=only_group, again=again)
            rows, skipped = _rows_of(group, resent)
        else:
            rows, skipped = _planned(letters, found, to_topic, only_group=only_group, again=again)
    if not output.listing(rows, _COLUMNS) and not skipped:
        output.note(f"group {group} has no such dead letter")
    if skipped:
        output.note(_left_out(skipped, is_anything_sent=bool(rows), again=again))
    end_of(output, apply=apply, is_needed=bool(rows))


def _left_out(offsets: list[int], *, is_anything_sent: bool, again: bool) -> str:
    """Why these letters are left out."""
    named = ", ".join(map(str, offsets[:_NAMED])) + (", ..." if len(offsets) > _NAMED else "")
    if len(offsets) == 1:
        letters, were = f"letter {named}", "was"
        reason = "its message was resent before, or is sent with another letter"
    else:
        letters, were = f"{len(offsets):,} letters ({named})", "were"
        reason = "their messages were resent before, or are sent with another letter"
    if again:
        return f"{letters} left out: another letter of the same message is sent"
    if not is_anything_sent:
        return f"nothing to send: {letters} {were} resent before (--again sends again)"
    return f"{letters} left out: {reason} (--again sends again)"


def _rows_of(group: str, resent: list[Resent]) -> tuple[list[ResentRow], list[int]]:
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
    return rows, [queue_offset for _, queue_offset, put in resent if put is None]


def _planned(
    letters: DeadLetters, found: Iterator[DeadLetter], to_topic: str | None, *, only_group: bool, again: bool
) -> tuple[list[ResentRow], list[int]]:
    rows: list[ResentRow] = []
    skipped: list[int] = []
    planned: set[str] = set()
    for letter in found:
        if letter.first_message_id in planned or (not again and letters.is_resent(letter, to_topic)):
            skipped.append(letter.queue_offset)
            continue
        planned.add(letter.first_message_id)
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
