"""Arguments and options that several commands share, with one wording for each."""

from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from mqstore.tools.cli.command import Argument
from mqstore.tools.cli.parameter_types import EXISTING_FILE, SHELL_PATH

__all__ = [
    "begin_option",
    "config_option",
    "end_option",
    "json_option",
    "raw_option",
    "refuse_given",
    "setting_option",
    "store_argument",
    "tags_option",
    "together",
    "topic_argument",
    "url_argument",
]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*decorators: Decorator) -> Decorator:
    """One decorator for options that several commands have in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def refuse_given(reason: str, *names: str) -> None:
    """Raise BadParameter if one of these options was given: it would be passed over.

    names: of the parameters, as the function of the command has them.
    """
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.BadParameter(f"--{name.replace('_', '-')} {reason}")


store_argument = click.argument(
    "store", cls=Argument, type=SHELL_PATH, help="Directory of the store, written by mqstore or by RocketMQ."
)
topic_argument = click.argument("topic", cls=Argument, help="Name of the topic.")
url_argument = click.argument(
    "url",
    cls=Argument,
    help="Place of the archive: s3://bucket/prefix, gs://..., abfs://..., hdfs://..., or a directory.",
)
json_option = click.option("--json", is_flag=True, help="Write JSON, one object a line, nothing shortened.")
raw_option = click.option(
    "--raw", is_flag=True, help="Show bodies as they are stored: compressed where producers did so."
)
tags_option = click.option(
    "--tags", default="*", metavar="EXPRESSION", help="Only these tags: '*' or 'TagA || TagB'."
)
begin_option = click.option("--begin", help="Stored at or after: epoch ms or local time.")
end_option = click.option("--end", help="Stored before, so that days follow without overlap.")
config_option = click.option("--config", type=EXISTING_FILE, metavar="FILE", help="Settings as TOML.")
setting_option = click.option(
    "-o",
    "setting",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting, before those of --config. Repeatable.",
)
