"""`mqstore rebuild`: rebuilds what is derived from the log, the queues or the keys.

    $ mqstore rebuild queues data
    rebuilt: 1,949 messages in 12 queues

Takes the writer's lock. If it is killed at any point, run it again.
"""

import enum
from pathlib import Path

import click

from mqstore.repair.rebuild import rebuild as rebuild_store
from mqstore.tools.cli.command import Argument, Command
from mqstore.tools.cli.open_store import settings_of, way_out_of_lock
from mqstore.tools.cli.options import config_option, json_option, setting_option, store_argument
from mqstore.tools.cli.output import Output, Row
from mqstore.tools.cli.parameter_types import MemberOf
from mqstore.tools.cli.progress import opening_progress, progress

__all__ = ["rebuild"]


class Derived(enum.StrEnum):
    """What can be rebuilt."""

    QUEUES = "queues"
    KEYS = "keys"


class RebuildRow(Row):
    """The store afterwards."""

    rebuilt: str
    queues: int
    messages: int
    max_offset: int


@click.command(cls=Command)
@click.argument(
    "what", cls=Argument, type=MemberOf(Derived), help="queues: the consume queues. keys: the key index."
)
@store_argument
@config_option
@setting_option
@json_option
def rebuild(what: Derived, store: Path, config: Path | None, setting: tuple[str, ...], json: bool) -> None:
    """Delete the consume queues or the key index, and build them again from the log.

    The queues come out byte for byte as they were.

    Example: mqstore rebuild queues data
    """
    output = Output(is_json=json)
    with way_out_of_lock(), progress(output) as board:
        stats = rebuild_store(
            store,
            settings_of(store, config, setting),
            queues=what is Derived.QUEUES,
            keys=what is Derived.KEYS,
            on_progress=opening_progress(board),
        )
    row = RebuildRow(
        rebuilt=what.value, queues=stats.queues, messages=stats.messages, max_offset=stats.max_offset
    )
    if json:
        output.facts(row)
    elif what is Derived.QUEUES:
        output.text(f"rebuilt: {row.messages:,} messages in {row.queues:,} queues")
    else:
        output.text(f"rebuilt: keys of the log up to physical offset {row.max_offset:,}")
