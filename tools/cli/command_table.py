"""The application: its commands, `--version`, and how an error ends.

A command is imported when it is asked for, and all of them for the first page of help and for completion: a
process does not wait for the imports of commands that it does not run.

An error of a command ends in one line on standard error (with --json, one object) and the exit code that
exit_codes.py gives it. Any other exception is a bug and keeps its traceback.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from mqstore import __version__
from mqstore.store.direct import machine_code as put_machine_code
from mqstore.store.errors import StoreError
from mqstore.store.loops import machine_code
from mqstore.tools.cli.command import Group
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem, exit_code_of
from mqstore.tools.cli.output import Output

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

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
    "completion": ("completion", "completion"),
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

_IS_JSON: Final = "mqstore.is-json"


class _CommandTable(Group):
    """Finds a command, runs it, and turns its errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Those of the first page; the others are known all the same."""
        return list(_SHOWN)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _SHOWN and cmd_name not in _ALIASES:
            return None
        module, attribute = _SHOWN[_ALIASES.get(cmd_name, cmd_name)]
        command: click.Command = getattr(import_module(f"mqstore.tools.cli.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A command of two words, such as `topics create`, goes before that of its first word."""
        two_words = " ".join(args[:2])
        if len(args) > 1 and two_words in _SHOWN:
            return two_words, self.get_command(ctx, two_words), args[2:]
        name = args[0]
        is_known = name in _SHOWN or name in _ALIASES
        if not is_known and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {name!r}{_hint(name)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Single words: what a shell completes is one."""
        return [item for item in super().shell_complete(ctx, incomplete) if " " not in item.value]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # By the words, for a command that cannot be parsed has no options yet. Behind `--` there are none; a
        # `--json` that is the value of an option counts, too.
        ctx.meta[_IS_JSON] = "--json" in itertools.takewhile(lambda word: word != "--", args)
        with _told_errors(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _told_errors(ctx):
            return super().invoke(ctx)


@contextmanager
def _told_errors(ctx: click.Context) -> Iterator[None]:
    """Tell errors on standard error, and exit with their codes."""
    output = Output(is_json=ctx.meta[_IS_JSON])
    try:
        yield
    except click.UsageError as error:
        if not output.is_json:
            raise
        output.error(click.UsageError(error.format_message()), ExitCode.USAGE)
        raise click.exceptions.Exit(ExitCode.USAGE) from error
    except (StoreError, ToolProblem, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        code = exit_code_of(error)
        output.error(error, code)
        raise click.exceptions.Exit(code) from error
    except KeyboardInterrupt as error:
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from error


def _hint(name: str) -> str:
    """Click's own looks among commands that are imported only."""
    from difflib import get_close_matches

    near = get_close_matches(name, (*_SHOWN, *_ALIASES), n=1)
    return f": did you mean {near[0]!r}?" if near else ""


def _show_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if not is_asked or context.resilient_parsing:
        return
    code = machine_code.BUILT_IN
    loops = "compiled by numba" if code is None else f"built for {code.name} by {code.compiler}"
    direct_put = put_machine_code.MACHINE_CODE
    puts = "interpreted" if direct_put is None else f"compiled by {direct_put.compiler}"
    click.echo(f"mqstore {__version__}, loops {loops}, puts {puts}")
    context.exit()


@click.group(
    "mqstore",
    cls=_CommandTable,
    context_settings={"show_default": True, "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 problem found, 2 usage, 3 store locked, 4 corruption.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version.",
)
def app() -> None:
    """A persistent message store with Apache RocketMQ's on-disk format and retry semantics.

    Commands that only read take no lock and work beside a live writer.
    """
