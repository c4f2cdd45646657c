"""Where a command of `mqstore dlq` finds dead letters: a directory, or with --server a broker that runs.

    mqstore dlq list data billing
    mqstore dlq list --server 127.0.0.1:9876 billing

A running `mqstore serve` is the one writer of its store, so a resend beside it goes through it.
"""

from pathlib import Path

import typer
from typer.core import TyperCommand

from mqstore.client.dead_letters.dead_letters import DeadLetters
from mqstore.client.remote.remote_broker import RemoteBroker
from mqstore.message_store import MessageStore
from mqstore.tools.cli.administration.applying import open_to_apply
from mqstore.tools.cli.dead_letters.server_place import ServerPlace
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.output import Output

__all__ = ["LetterCommand", "none_found", "open_letters"]

_SERVER = "--server"


class LetterCommand(TyperCommand):
    """A command whose first argument, STORE, is left out with --server."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Put something in the place of STORE."""
        is_served = any(arg == _SERVER or arg.startswith(f"{_SERVER}=") for arg in args)
        return super().parse_args(ctx, ["-", *args] if is_served else args)


def open_letters(
    store: Path, server: ServerPlace, *, output: Output | None = None, apply: bool = False
) -> MessageStore | RemoteBroker:
    """The store, for writing with `apply`, or the broker behind `server`. Raises as these do.

    output: where the recovery of a store that is opened for writing shows its progress.
    """
    server.check()
    if server.address is not None:
        return server.open()
    return open_for_reading(store) if output is None else open_to_apply(store, output, apply=apply)


def none_found(letters: DeadLetters) -> str:
    """Why a group has no letter to show: none at all, or none that the options accept."""
    if len(letters):
        return f"group {letters.group} has no such dead letter"
    near = letters.near_group()
    return f"group {letters.group} has no dead letters" + (f": did you mean {near!r}?" if near else "")
