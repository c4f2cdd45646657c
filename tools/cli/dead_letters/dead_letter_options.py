"""Arguments and options that the commands `mqstore dlq ...` share, and the filter that they make."""

from typing import Annotated

import typer

from mqstore.client.dead_letters.dead_letter_filter import DeadLetterFilter
from mqstore.tools.cli.times import parse_time_ms

__all__ = ["GroupArgument", "KeyOption", "OriginOption", "SinceOption", "TagOption", "UntilOption", "wanted"]

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group that gave them up.")]
OriginOption = Annotated[
    str | None, typer.Option("--from-topic", metavar="TOPIC", help="Only those that came from this topic.")
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Only those that died at this time or later."),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Only those that died at this time or before."),
]
TagOption = Annotated[str | None, typer.Option("--tag", help="Only those with this tag.")]
KeyOption = Annotated[str | None, typer.Option("--key", help="Only those with this key.")]


def wanted(
    from_topic: str | None,
    since: str | None,
    until: str | None,
    tag: str | None,
    key: str | None,
    *,
    begin_offset: int = 0,
) -> DeadLetterFilter:
    """The filter of these options. Raises BadParameter for a time that is none."""
    return DeadLetterFilter(
        begin_offset=begin_offset,
        original_topic=from_topic,
        begin_ms=_time_ms("--since", since) or 0,
        end_ms=_time_ms("--until", until),
        tag=tag,
        key=key,
    )


def _time_ms(option: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_time_ms(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option} {text}: {error}") from error
