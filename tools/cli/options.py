"""Arguments and options that several commands share, with one wording for each."""

from pathlib import Path
from typing import Annotated

import typer

from mqstore.store.errors import ConfigIllegal
from mqstore.store_layout import user_path

__all__ = [
    "BeginOption",
    "ConfigFileOption",
    "EndOption",
    "JsonOption",
    "RawOption",
    "SettingOption",
    "StoreArgument",
    "TagsOption",
    "TopicArgument",
    "UrlArgument",
    "existing_path",
    "is_json_asked",
    "shell_path",
]


def shell_path(text: str) -> Path:
    """A path of the command line: a shell expands `~` at the beginning of a word, not in --config=~/x."""
    try:
        return user_path(text)
    except ConfigIllegal as error:
        raise typer.BadParameter(str(error)) from error


def existing_path(text: str) -> Path:
    """As `shell_path`, of something that is there."""
    path = shell_path(text)
    if not path.exists():
        raise typer.BadParameter(f"{path} does not exist")
    return path


def existing_file(text: str) -> Path:
    """As `existing_path`, and no directory."""
    path = existing_path(text)
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a directory, where a file belongs")
    return path


_JSON_ASKED = "mqstore.json"


def _remember(context: typer.Context, is_json: bool) -> bool:
    context.find_root().meta[_JSON_ASKED] = is_json
    return is_json


def is_json_asked(context: typer.Context) -> bool:
    """Whether the command that runs under `context` was given --json."""
    return bool(context.find_root().meta.get(_JSON_ASKED, False))


StoreArgument = Annotated[
    Path,
    typer.Argument(
        parser=shell_path,
        metavar="STORE",
        help="Directory of the store, written by mqstore or by RocketMQ.",
    ),
]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
UrlArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="Place of the archive: s3://bucket/prefix, gs://..., abfs://..., hdfs://..., or a directory.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", callback=_remember, help="Write JSON, one object a line, nothing shortened.")
]
RawOption = Annotated[
    bool, typer.Option("--raw", help="Show bodies as they are stored: compressed where producers did so.")
]
TagsOption = Annotated[
    str, typer.Option("--tags", metavar="EXPRESSION", help="Only these tags: '*' or 'TagA || TagB'.")
]
BeginOption = Annotated[
    str | None, typer.Option("--begin", help="Stored at or after: epoch ms or local time.")
]
EndOption = Annotated[
    str | None, typer.Option("--end", help="Stored before, so that days follow without overlap.")
]
ConfigFileOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        parser=existing_file,
        metavar="FILE",
        help="Settings as TOML.",
    ),
]
SettingOption = Annotated[
    list[str] | None,
    typer.Option("-o", metavar="KEY=VALUE", help="One setting, before those of --config. Repeatable."),
]
