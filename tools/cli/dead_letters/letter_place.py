"""Where a command of `mqstore dlq` finds dead letters: a directory, or with --server a broker that runs.

    mqstore dlq list data billing
    mqstore dlq list --server 127.0.0.1:9876 billing

A running `mqstore serve` is the one writer of its store, so a resend beside it goes through it.
"""

from pathlib import Path
from typing import Final

import click

from mqstore.client.dead_letters.dead_letters import DeadLetters
from mqstore.client.remote.remote_broker import RemoteBroker
from mqstore.message_store import MessageStore
from mqstore.tools.cli.administration.applying import open_to_apply
from mqstore.tools.cli.command import Argument, Command
from mqstore.tools.cli.dead_letters.server_place import ServerPlace
from mqstore.tools.cli.open_store import open_for_reading, way_out_of_lock
from mqstore.tools.cli.output import Output
from mqstore.tools.cli.parameter_types import SHELL_PATH

__all__ = ["LetterCommand", "letter_store", "none_found", "open_letters"]

_SERVER = "--server"
_ASK_THE_SERVER: Final = (
    "stop that writer, or, if it is `mqstore serve`, give --server HOST:PORT in place of STORE"
)


letter_store = click.argument(
    "store",
    cls=Argument,
    type=SHELL_PATH,
    required=False,
    help="Directory of the store. Left out with --server.",
)


class LetterCommand(Command):
    """A command whose first argument, STORE, is left out with --server."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put something in the place of STORE."""
        is_served = any(arg == _SERVER or arg.startswith(f"{_SERVER}=") for arg in args)
        try:
            return super().parse_args(ctx, ["-", *args] if is_served else args)
        except click.UsageError:
            # What is too much may be the directory, in the place of a group.
            if is_served and any(Path(arg, "commitlog").is_dir() for arg in args):
                raise click.BadParameter("STORE or --server, not both", ctx=ctx) from None
            raise


def open_letters(
    store: Path | None, server: ServerPlace, *, output: Output | None = None, apply: bool = False
) -> MessageStore | RemoteBroker:
    """The store, for writing with `apply`, or the broker behind `server`. Raises as these do.

    output: where the recovery of a store that is opened for writing shows its progress.
    """
    server.check()
    if server.address is not None:
        return server.open()
    if store is None:
        raise click.BadParameter("say where: STORE, or --server HOST:PORT")
    if output is None:
        return open_for_reading(store)
    with way_out_of_lock(_ASK_THE_SERVER):
        return open_to_apply(store, output, apply=apply)


def none_found(letters: DeadLetters) -> str:
    """Why a group has no letter to show: none at all, or none that the options accept."""
    if len(letters):
        return f"group {letters.group} has no such dead letter"
    near = letters.near_group()
    return f"group {letters.group} has no dead letters" + (f": did you mean {near!r}?" if near else "")
