"""`mqstore group clone`: a group goes on from where another one is in a topic, as mqadmin's cloneGroupOffset.

    $ mqstore group clone data billing reports orders --apply
    group    topic   queue  before  after
    reports  orders      0      -1      2

The other group's offsets stay. Acts only with --apply.
"""

from pathlib import Path

import click

from mqstore.message_store import MessageStore
from mqstore.store.message.topic_names import check_group
from mqstore.tools.cli.administration.applying import apply_option, end_of, no_topic, open_to_apply
from mqstore.tools.cli.administration.offsets import MOVED_COLUMNS, MovedRow, target_offset
from mqstore.tools.cli.command import Argument, Command
from mqstore.tools.cli.exit_codes import ToolProblem
from mqstore.tools.cli.options import json_option, store_argument
from mqstore.tools.cli.output import Output

__all__ = ["clone"]


@click.command(cls=Command)
@store_argument
@click.argument("source", cls=Argument, metavar="FROM", help="The group whose offsets are taken.")
@click.argument("target", cls=Argument, metavar="TO", help="The group that goes on from there.")
@click.argument("topic", cls=Argument, help="In this topic.")
@apply_option
@json_option
def clone(store: Path, source: str, target: str, topic: str, apply: bool, json: bool) -> None:
    """Have a group go on from where another one is in a topic. A group that does not exist is created.

    Exit code 1: not applied, or FROM has no offset in it.

    Example: mqstore group clone data billing reports orders --apply
    """
    check_group(target)
    output = Output(is_json=json)
    with open_to_apply(store, output, apply=apply) as opened:
        config = opened.topics.get(topic)
        if config is None:
            raise no_topic(store, topic)
        rows = _rows(opened, source, target, topic, is_applied=apply)
        if not rows:
            raise ToolProblem(f"group {source} has no offset in topic {topic}")
        left_out = [row.queue_id for row in rows if row.queue_id >= config.read_queue_nums]
        rows = [row for row in rows if row.queue_id < config.read_queue_nums]
        if left_out:
            output.note(f"left out, for topic {topic} has no such queue any more: {left_out}")
        if apply:
            if target not in opened.subscription_groups:
                opened.subscription_groups.create(target)
            for row in rows:
                opened.reset_offset(target, topic, row.queue_id, offset=row.after)
    output.listing(rows, MOVED_COLUMNS)
    end_of(output, apply=apply, is_needed=any(row.before != row.after for row in rows))


def _rows(store: MessageStore, source: str, target: str, topic: str, *, is_applied: bool) -> list[MovedRow]:
    """One for each offset of the source, moved into what its queue still has."""
    return [
        MovedRow(
            group=target,
            topic=topic,
            queue_id=row.queue_id,
            before=store.consumer_offsets.query(target, topic, row.queue_id),
            after=target_offset(store, topic, row.queue_id, row.offset, None),
            is_applied=is_applied,
        )
        for row in store.consumer_offsets
        if (row.group, row.topic) == (source, topic)
    ]
