"""Arguments and options that the commands `mqstore dlq ...` share, and the filter that they make."""

import click

from mqstore.client.dead_letters.dead_letter_filter import DeadLetterFilter
from mqstore.tools.cli.command import Argument
from mqstore.tools.cli.options import together
from mqstore.tools.cli.times import parse_time_ms

__all__ = ["filter_options", "group_argument", "wanted"]

group_argument = click.argument("group", cls=Argument, help="The consumer group that gave them up.")
filter_options = together(
    click.option("--from-topic", metavar="TOPIC", help="Only those that came from this topic."),
    click.option("--since", metavar="TIME", help="Only those that died at this time or later."),
    click.option("--until", metavar="TIME", help="Only those that died at this time or before."),
    click.option("--tag", help="Only those with this tag."),
    click.option("--key", help="Only those with this key."),
)


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
        raise click.BadParameter(f"{option} {text}: {error}") from error
