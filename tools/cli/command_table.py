"""The Typer application: its commands, `--version`, and how an error ends.

A command is imported when it is asked for, and all of them for the first page of help and for completion: a
process does not wait for the imports of commands that it does not run.

An error of a command ends in one line on standard error (with --json, one object) and the exit code that
exit_codes.py gives it. Any other exception is a bug and keeps its traceback.
"""

import functools
import gc
from collections import UserDict
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from mqstore import __version__
from mqstore.store.direct import machine_code as put_machine_code
from mqstore.store.errors import StoreError
from mqstore.store.loops import machine_code
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem, exit_code_of
from mqstore.tools.cli.options import is_json_asked
from mqstore.tools.cli.output import Output

__all__ = ["app"]

# In the order of the first page. By name: the module under tools/cli, and the function or the group in it.
_SHOWN: Final = {
    "demo": ("demo.demo", "demo"),
    "put": ("messages.put", "put"),
    "ingest": ("messages.ingest", "ingest"),
    "serve": ("serving.serve", "serve"),
    "get": ("messages.get", "get"),
    "tail": ("messages.tail", "tail"),
    "query": ("messages.query", "query"),
    "export": ("messages.export", "export"),
    "topics": ("administration.topics", "topics"),
    "topics create": ("administration.topic_settings", "create_topic"),
    "topics update": ("administration.topic_settings", "update_topic"),
    "groups": ("administration.groups", "groups"),
    "groups create": ("administration.group_settings", "create_group"),
    "groups update": ("administration.group_settings", "update_group"),
    "group": ("administration.group", "group"),
    "offsets": ("administration.offsets", "offsets"),
    "stats": ("maintenance.stats", "stats"),
    "top": ("monitoring.top", "top"),
    "ui": ("ui.ui", "ui"),
    "dump": ("maintenance.dump", "dump"),
    "backup": ("administration.backup", "backup"),
    "archive": ("maintenance.archive", "archive"),
    "restore": ("maintenance.restore", "restore"),
    "verify": ("maintenance.verify", "verify"),
    "repair": ("maintenance.repair", "repair"),
    "rebuild": ("maintenance.rebuild", "rebuild"),
    "retain": ("administration.retain", "retain"),
    "dlq": ("dead_letters.dlq", "dlq"),
    "delay": ("administration.delay", "delay"),
    "spark": ("spark.spark", "spark"),
}
# Names of RocketMQ's mqadmin for the same work; arguments and options are ours.
_ALIASES: Final = {
    "topicList": "topics",
    "deleteTopic": "topics",
    "consumerProgress": "offsets",
    "resetOffsetByTime": "offsets",
    "queryMsgById": "query",
    "queryMsgByKey": "query",
    "queryMsgByOffset": "query",
    "deleteSubGroup": "groups",
    "updateTopic": "topics update",
    "updateTopicPerm": "topics update",
    "updateSubGroup": "groups update",
}


class _CommandTable(UserDict[str, Any]):
    """The commands by their names; each is made when it is looked up, and kept."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys([*_SHOWN, *_ALIASES]))

    def __getitem__(self, name: str) -> Any:
        command = super().__getitem__(name)
        if command is None:
            command = self[name] = _made(name)
        return command


def _made(name: str) -> Any:
    """The command or the group with that name."""
    module, attribute = _SHOWN[_ALIASES.get(name, name)]
    found = getattr(import_module(f"mqstore.tools.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        for command in group.commands.values():
            command.callback = _begun(command.callback)
        return group
    only = typer.Typer(add_completion=False)
    only.command(name, hidden=name in _ALIASES)(found)
    command = typer.main.get_command(only)
    command.callback = _begun(command.callback)
    return command


def _begun(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    """The same command, which has the garbage collector on: the start of the process had it off (app.py)."""
    assert callback is not None  # each command of ours is made from a function

    @functools.wraps(callback)
    def run(*arguments: Any, **options: Any) -> Any:
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        return callback(*arguments, **options)

    return run


class _Commands(TyperGroup):
    """Runs a command and turns its errors into exit codes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _CommandTable()

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """A command of two words, such as `topics create`, goes before that of its first word."""
        two_words = " ".join(args[:2])
        if two_words in self.commands:
            return two_words, self.commands[two_words], args[2:]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (StoreError, ToolProblem, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            code = exit_code_of(error)
            Output(is_json=is_json_asked(ctx)).error(error, code)
            raise typer.Exit(code) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(ExitCode.INTERRUPTED) from error


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _show_version(asked: bool) -> None:
    if asked:
        code = machine_code.BUILT_IN
        loops = "compiled by numba" if code is None else f"built for {code.name} by {code.compiler}"
        direct_put = put_machine_code.MACHINE_CODE
        puts = "interpreted" if direct_put is None else f"compiled by {direct_put.compiler}"
        typer.echo(f"mqstore {__version__}, loops {loops}, puts {puts}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 ok, 1 problem found, 2 usage, 3 store locked, 4 corruption.",
)
def mqstore(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A persistent message store with Apache RocketMQ's on-disk format and retry semantics.

    Commands that only read take no lock and work beside a live writer.
    """
