"""`mqstore group`: what an operator asks about a consumer group. Reading is safe on a live store.

    $ mqstore group progress data billing
    group    topic   queue  offset  min offset  max offset  lag
    billing  orders      0       2           0           5    3
    $ mqstore group reset data billing orders --to-time 2026-07-18T12:30 --apply

The work is done by the commands that go from a store: groups.py, group_settings.py, offsets.py; `clone` is in
group_clone.py.
"""

from typing import Annotated

import typer

from mqstore.tools.cli.administration import groups as groups_command
from mqstore.tools.cli.administration import offsets as offsets_command
from mqstore.tools.cli.administration.applying import ApplyOption
from mqstore.tools.cli.administration.group_clone import clone
from mqstore.tools.cli.administration.group_settings import create_group, update_group
from mqstore.tools.cli.options import JsonOption, StoreArgument

__all__ = ["group"]

group = typer.Typer(no_args_is_help=True, help="A consumer group: settings, how far it has come, moving it.")

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the consumer group.")]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Topic in which to move it.")]
QueueOption = Annotated[int | None, typer.Option("--queue", help="In this queue only.")]


@group.command("list")
def list_groups(store: StoreArgument, json: JsonOption = False) -> None:
    """List the consumer groups. As: mqstore groups.

    Example: mqstore group list data
    """
    groups_command.groups(store, json=json)


@group.command("progress")
def progress(
    store: StoreArgument,
    group: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="Name of the group; without it, all groups.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="In this topic only.")] = None,
    queue: QueueOption = None,
    json: JsonOption = False,
) -> None:
    """Show how far a group has come, queue by queue. As: mqstore offsets.

    Example: mqstore group progress data billing --topic orders
    """
    offsets_command.offsets(store, group=group, topic=topic, queue=queue, json=json)


@group.command("reset")
def reset(
    store: StoreArgument,
    group: GroupArgument,
    topic: TopicArgument,
    queue: QueueOption = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="PLACE", help="A queue offset, 'end', or 'start'.")
    ] = None,
    to_time: Annotated[
        str | None, typer.Option("--to-time", metavar="TIME", help="A store time: epoch ms, or local.")
    ] = None,
    apply: ApplyOption = False,
    json: JsonOption = False,
) -> None:
    """Move a group to an offset or a time. As: mqstore offsets with --to or --to-time.

    Exit code 1: not applied. Example: mqstore group reset data billing orders --to start --apply
    """
    if to is None and to_time is None:
        raise typer.BadParameter("say where to move: --to or --to-time")
    offsets_command.offsets(
        store, group=group, topic=topic, queue=queue, to=to, to_time=to_time, apply=apply, json=json
    )


@group.command("delete")
def delete(
    store: StoreArgument,
    group: GroupArgument,
    clean_offset: Annotated[bool, typer.Option("--clean-offset", help="Its offsets as well.")] = False,
    apply: ApplyOption = False,
    json: JsonOption = False,
) -> None:
    """Delete a group: its settings, and with --clean-offset how far it has come. As: mqstore groups --delete.

    Exit code 1: not applied, or no such group. Example: mqstore group delete data billing --apply
    """
    groups_command.groups(store, delete=group, clean_offset=clean_offset, apply=apply, json=json)


group.command("create")(create_group)
group.command("update")(update_group)
group.command("clone")(clone)
