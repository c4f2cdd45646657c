"""Arguments and options that several commands share, with one wording for each."""

from pathlib import Path
from typing import Annotated

import typer

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
    "is_json_asked",
]

_JSON_ASKED = "mqstore.json"


def _remember(context: typer.Context, is_json: bool) -> bool:
    context.find_root().meta[_JSON_ASKED] = is_json
    return is_json


def is_json_asked(context: typer.Context) -> bool:
    """Whether the command that runs under `context` was given --json."""
    return bool(context.find_root().meta.get(_JSON_ASKED, False))


StoreArgument = Annotated[
    Path, typer.Argument(metavar="STORE", help="Directory of the store, written by mqstore or by RocketMQ.")
]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
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
    typer.Option("--config", metavar="FILE", exists=True, dir_okay=False, help="Settings as TOML."),
]
SettingOption = Annotated[
    list[str] | None,
    typer.Option("-o", metavar="KEY=VALUE", help="One setting, before those of --config. Repeatable."),
]
