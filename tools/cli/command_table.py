"""The Typer application: its commands, `--version`, and how an error ends.

An error of a command ends in one line on standard error (with --json, one object) and the exit code that
exit_codes.py gives it. Any other exception is a bug and keeps its traceback.
"""

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mqstore.store.direct import machine_code as put_machine_code
from mqstore.store.errors import StoreError
from mqstore.store.loops import machine_code
from mqstore.tools.cli.administration.backup import backup
from mqstore.tools.cli.administration.delay import delay
from mqstore.tools.cli.administration.group_settings import create_group, update_group
from mqstore.tools.cli.administration.groups import groups
from mqstore.tools.cli.administration.offsets import offsets
from mqstore.tools.cli.administration.retain import retain
from mqstore.tools.cli.administration.topic_settings import create_topic, update_topic
from mqstore.tools.cli.administration.topics import topics
from mqstore.tools.cli.dead_letters.dlq import dlq
from mqstore.tools.cli.demo.demo import demo
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem, exit_code_of
from mqstore.tools.cli.maintenance.archive import archive
from mqstore.tools.cli.maintenance.dump import dump
from mqstore.tools.cli.maintenance.rebuild import rebuild
from mqstore.tools.cli.maintenance.repair import repair
from mqstore.tools.cli.maintenance.restore import restore
from mqstore.tools.cli.maintenance.stats import stats
from mqstore.tools.cli.maintenance.verify import verify
from mqstore.tools.cli.messages.export import export
from mqstore.tools.cli.messages.get import get
from mqstore.tools.cli.messages.ingest import ingest
from mqstore.tools.cli.messages.put import put
from mqstore.tools.cli.messages.query import query
from mqstore.tools.cli.messages.tail import tail
from mqstore.tools.cli.monitoring.top import top
from mqstore.tools.cli.options import is_json_asked
from mqstore.tools.cli.output import Output
from mqstore.tools.cli.serving.serve import serve
from mqstore.tools.cli.spark.spark import spark
from mqstore.tools.cli.ui.ui import ui

__all__ = ["app"]


class _Commands(TyperGroup):
    """Runs a command and turns its errors into exit codes."""

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
        typer.echo(f"mqstore {version('mqstore')}, loops {loops}, puts {puts}")
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


_Command = Callable[..., None]
_MESSAGES: tuple[_Command, ...] = (demo, put, ingest, serve, get, tail, query, export)
_ADMINISTRATION: dict[str, _Command] = {
    "topics": topics,
    "topics create": create_topic,
    "topics update": update_topic,
    "groups": groups,
    "groups create": create_group,
    "groups update": update_group,
    "offsets": offsets,
}
_MAINTAINING: tuple[_Command, ...] = (
    *(stats, top, ui, dump, backup, archive, restore),
    *(verify, repair, rebuild, retain),
)

for command in _MESSAGES:
    app.command()(command)
for name, command in _ADMINISTRATION.items():
    app.command(name)(command)
for command in _MAINTAINING:
    app.command()(command)

for name, several in (("dlq", dlq), ("delay", delay), ("spark", spark)):
    app.add_typer(several, name=name)

# Names of RocketMQ's mqadmin for the same work; arguments and options are ours.
for alias in ("topicList", "deleteTopic"):
    app.command(alias, hidden=True)(topics)
for alias in ("consumerProgress", "resetOffsetByTime"):
    app.command(alias, hidden=True)(offsets)
for alias in ("queryMsgById", "queryMsgByKey", "queryMsgByOffset"):
    app.command(alias, hidden=True)(query)
app.command("deleteSubGroup", hidden=True)(groups)
for alias in ("updateTopic", "updateTopicPerm"):
    app.command(alias, hidden=True)(update_topic)
app.command("updateSubGroup", hidden=True)(update_group)
