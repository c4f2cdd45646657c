"""Commands that delete or move: they show what they would do, and act only with --apply, as `repair` does."""

from pathlib import Path

import click

from mqstore.message_store import MessageStore
from mqstore.store.errors import StoreNotFound
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.open_store import open_for_reading, open_for_writing
from mqstore.tools.cli.output import Output

__all__ = ["apply_option", "end_of", "no_group", "no_topic", "open_to_apply"]

apply_option = click.option("--apply", is_flag=True, help="Do it. Without, it is only shown.")


def open_to_apply(path: Path, output: Output, *, apply: bool, settings: tuple[str, ...] = ()) -> MessageStore:
    """Open for writing only with --apply. Raises StoreNotFound, StoreLocked, and what opening raises."""
    if not apply:
        return open_for_reading(path, settings)
    if not (path / "commitlog").is_dir():
        raise StoreNotFound(path, exists=path.exists())
    return open_for_writing(path, settings=settings, output=output)


def no_topic(path: Path, topic: str) -> ToolProblem:
    """The problem that a store has no such topic."""
    return ToolProblem(f"there is no topic {topic}: mqstore topics create {path} {topic} creates it")


def no_group(path: Path, group: str) -> ToolProblem:
    """The problem that a store has no such consumer group."""
    return ToolProblem(f"there is no group {group}: mqstore groups create {path} {group} creates it")


def end_of(output: Output, *, apply: bool, is_needed: bool) -> None:
    """Exit code 1 if there is something to do and --apply was not given."""
    if is_needed and not apply:
        output.note("--apply does it")
        raise click.exceptions.Exit(ExitCode.PROBLEM)
