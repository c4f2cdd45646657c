"""`mqstore backup`: copies a store while a writer is at work on it.

    $ mqstore backup data /mnt/copies/monday
    copied: physical offsets 0 to 341,234 in 2 segments, 17 files, 402,113 bytes

Takes no lock of the store and changes nothing in it. The copy is a store like any other, opened once and
closed.
"""

from pathlib import Path

import click

from mqstore.tools.cli.command import Argument, Command
from mqstore.tools.cli.open_store import open_for_reading, way_out_of_lock
from mqstore.tools.cli.options import json_option, store_argument
from mqstore.tools.cli.output import Output, Row
from mqstore.tools.cli.parameter_types import SHELL_PATH
from mqstore.tools.cli.progress import progress, scan_progress

__all__ = ["backup"]

_ANOTHER_PLACE = "another backup to this place is under way: wait for it, or name another directory"


class BackupRow(Row):
    """What the copy holds."""

    path: str
    min_offset: int
    max_offset: int
    segments: int
    files: int
    copied_bytes: int


@click.command(cls=Command)
@store_argument
@click.argument(
    "target", cls=Argument, type=SHELL_PATH, help="New directory for the copy; must not exist or be empty."
)
@json_option
def backup(store: Path, target: Path, json: bool) -> None:
    """Copy a store into a new directory, beside a writer that is at work.

    The copy holds all that was put before, and opens without damage. Never copy a live store with cp or tar.

    Example: mqstore backup data data-of-monday
    """
    output = Output(is_json=json)
    with open_for_reading(store) as opened, way_out_of_lock(_ANOTHER_PLACE), progress(output) as board:
        report = opened.backup(target, on_progress=scan_progress(board, "backup"))
    row = BackupRow(
        path=str(report.path),
        min_offset=report.min_offset,
        max_offset=report.max_offset,
        segments=report.segments,
        files=report.files,
        copied_bytes=report.copied_bytes,
    )
    if json:
        output.facts(row)
    else:
        output.text(
            f"copied: physical offsets {row.min_offset:,} to {row.max_offset:,} in {row.segments:,} segments,"
            f" {row.files:,} files, {row.copied_bytes:,} bytes"
        )
