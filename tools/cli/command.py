"""What all commands have in common: how their help looks, and when garbage begins to be collected.

    @click.command(cls=Command)
    @click.argument("group", cls=Argument, help="Name of the consumer group.")

A line of a help text that begins with `Example: ` is a paragraph of its own in the docstring. It is shown as
it is, however long, so that it can be copied.
"""

import gc
import inspect
import signal
from typing import Any

import click

from mqstore.tools.cli.exit_codes import ExitCode

__all__ = ["Argument", "Command", "CommandGroup", "Group"]

_EXAMPLE = "\n\nExample: "
_WHOLE_EXAMPLE = "\n\n\b\nExample: "
"""With Click's mark of a paragraph whose lines are not wrapped."""


class Argument(click.Argument):
    """An argument with a help text, which Click's own has from 8.5 on."""

    def __init__(self, declarations: list[str], *, help: str, **settings: Any) -> None:  # noqa: A002
        super().__init__(declarations, **settings)
        self.description = help


class Command(click.Command):
    """A command. Its help has the arguments, too, and its whole first paragraph is in lists of commands."""

    def __init__(self, name: str | None = None, *, help: str | None = None, **settings: Any) -> None:  # noqa: A002
        text = inspect.cleandoc(help or "")
        super().__init__(name, help=text.replace(_EXAMPLE, _WHOLE_EXAMPLE), **settings)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        described = [each for each in self.params if isinstance(each, Argument)]
        if described:
            with formatter.section("Arguments"):
                formatter.write_dl([(each.make_metavar(ctx), each.description) for each in described])

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first paragraph, however long."""
        return " ".join((self.help or "").partition("\n\n")[0].split())

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, with garbage collected and Ctrl-C an exception from now on: see app.py."""
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        return super().invoke(ctx)


class Group(click.Group):
    """Several commands. Without an argument it shows its help on standard output, as with --help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)


class CommandGroup(Command, Group):
    """Commands that share their first word, such as `mqstore dlq list`, in the order of their definition."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)
