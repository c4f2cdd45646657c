"""`mqstore restore`: makes a store's directory of an archive.

    $ mqstore restore s3://backups/orders data
    restored: physical offsets 0 to 15,032,385,536 in 14 segments, 12,001,344 messages; verified

The directory must not exist or be empty. What it does is in tools/archive/store_restore.py.
"""

from pathlib import Path

import click

from mqstore.tools.archive import restore as restore_archive
from mqstore.tools.cli.command import Argument, Command
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.interruption import interruptible
from mqstore.tools.cli.open_store import way_out_of_lock
from mqstore.tools.cli.options import json_option, url_argument
from mqstore.tools.cli.output import Output, Row
from mqstore.tools.cli.parameter_types import SHELL_PATH
from mqstore.tools.cli.progress import progress, scan_progress

__all__ = ["restore"]

_ANOTHER_PLACE = "another restore to this place is under way: wait for it, or name another directory"


class RestoreRow(Row):
    """What the restored store holds."""

    path: str
    store: str
    min_offset: int
    max_offset: int
    segments: int
    restored_bytes: int
    messages: int


@click.command(cls=Command)
@url_argument
@click.argument(
    "directory",
    cls=Argument,
    type=SHELL_PATH,
    metavar="DIR",
    help="New directory for the store; must not exist or be empty.",
)
@click.option(
    "--begin-offset",
    type=click.IntRange(min=0),
    default=0,
    help="Leave out segments that end before this physical offset.",
)
@json_option
def restore(url: str, directory: Path, begin_offset: int, json: bool) -> None:
    """Make a store of an archive: segments, topics, groups; queues and keys are built, and all is verified.

    Exit code 4: something in the archive is missing or damaged; nothing is restored then.

    Example: mqstore restore s3://backups/orders data
    """
    output = Output(is_json=json)
    with way_out_of_lock(_ANOTHER_PLACE), progress(output) as board, interruptible() as interruption:
        show = scan_progress(board, "restore")

        def on_progress(done_bytes: int, total_bytes: int) -> None:
            if interruption.is_asked():
                raise ToolProblem("interrupted: nothing was restored", ExitCode.INTERRUPTED)
            show(done_bytes, total_bytes)

        report = restore_archive(url, directory, begin_offset=begin_offset, on_progress=on_progress)
    row = RestoreRow(
        path=str(report.path),
        store=report.store,
        min_offset=report.min_offset,
        max_offset=report.max_offset,
        segments=report.segments,
        restored_bytes=report.restored_bytes,
        messages=report.messages,
    )
    if json:
        output.facts(row)
    else:
        output.text(
            f"restored: physical offsets {row.min_offset:,} to {row.max_offset:,} in {row.segments:,} "
            f"segments, {row.messages:,} messages; verified"
        )
