"""`mqstore group`: what an operator asks about a consumer group. Reading is safe on a live store.

    $ mqstore group progress data billing
    group    topic   queue  offset  min offset  max offset  lag
    billing  orders      0       2           0           5    3
    $ mqstore group reset data billing orders --to-time 2026-07-18T12:30 --apply

The work is done as by the commands that go from a store: groups.py, group_settings.py, offsets.py; `clone` is
in group_clone.py.
"""

from pathlib import Path

import click

from mqstore.tools.cli.administration.applying import apply_option
from mqstore.tools.cli.administration.group_clone import clone
from mqstore.tools.cli.administration.group_settings import create_group, update_group
from mqstore.tools.cli.administration.groups import delete_group, show_groups
from mqstore.tools.cli.administration.offsets import move_offsets, show_offsets
from mqstore.tools.cli.command import Argument, CommandGroup
from mqstore.tools.cli.options import json_option, store_argument
from mqstore.tools.cli.output import Output

__all__ = ["group"]

group_argument = click.argument("group", cls=Argument, help="Name of the consumer group.")
topic_argument = click.argument("topic", cls=Argument, help="Topic in which to move it.")
queue_option = click.option("--queue", type=click.IntRange(min=0), help="In this queue only.")


@click.group(cls=CommandGroup)
def group() -> None:
    """A consumer group: settings, how far it has come, moving it."""


@group.command("list")
@store_argument
@json_option
def list_groups(store: Path, json: bool) -> None:
    """List the consumer groups. As: mqstore groups.

    Example: mqstore group list data
    """
    show_groups(Output(is_json=json), store)


@group.command()
@store_argument
@click.argument("group", cls=Argument, required=False, help="Name of the group; without it, all groups.")
@click.option("--topic", help="In this topic only.")
@queue_option
@json_option
def progress(store: Path, group: str | None, topic: str | None, queue: int | None, json: bool) -> None:
    """Show how far a group has come, queue by queue. As: mqstore offsets.

    Example: mqstore group progress data billing --topic orders
    """
    show_offsets(Output(is_json=json), store, group, topic, queue)


@group.command()
@store_argument
@group_argument
@topic_argument
@queue_option
@click.option("--to", metavar="PLACE", help="A queue offset, 'end', or 'start'.")
@click.option("--to-time", metavar="TIME", help="A store time: epoch ms, or local.")
@apply_option
@json_option
def reset(
    store: Path,
    group: str,
    topic: str,
    queue: int | None,
    to: str | None,
    to_time: str | None,
    apply: bool,
    json: bool,
) -> None:
    """Move a group to an offset or a time. As: mqstore offsets with --to or --to-time.

    Exit code 1: not applied.

    Example: mqstore group reset data billing orders --to start --apply
    """
    if (to is None) == (to_time is None):
        raise click.BadParameter("say where to move: --to or --to-time")
    move_offsets(Output(is_json=json), store, group, topic, queue, to, to_time, apply=apply)


@group.command()
@store_argument
@group_argument
@click.option("--clean-offset", is_flag=True, help="Its offsets as well.")
@apply_option
@json_option
def delete(store: Path, group: str, clean_offset: bool, apply: bool, json: bool) -> None:
    """Delete a group: its settings, and with --clean-offset how far it has come. As: mqstore groups --delete.

    Exit code 1: not applied, or no such group.

    Example: mqstore group delete data billing --apply
    """
    delete_group(Output(is_json=json), store, group, clean_offset=clean_offset, apply=apply)


group.add_command(create_group, "create")
group.add_command(update_group, "update")
group.add_command(clone)
