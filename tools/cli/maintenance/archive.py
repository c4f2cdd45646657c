"""`mqstore archive`: copies the sealed segments of a store to an object store, or to any other place.

    $ mqstore archive data s3://backups/orders
    archived 2 segments, 2,147,483,648 bytes; s3://backups/orders has 14 and goes up to 15,032,385,536

Safe on a live store: takes no lock of the writer. Exit code 1: the archive has gaps or misses objects.
What it does with a store is in tools/archive/store_archive.py.
"""

from pathlib import Path

import click

from mqstore.tools.archive import ArchiveReport
from mqstore.tools.archive import archive as archive_store
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.interruption import interruptible
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import json_option, store_argument, url_argument
from mqstore.tools.cli.output import Output, Row
from mqstore.tools.cli.progress import progress, scan_progress

__all__ = ["archive"]


class ArchiveRow(Row):
    """What was archived; offsets are physical. See ArchiveReport."""

    place: str
    store: str
    archived_segments: int
    archived_bytes: int
    segments: int
    end_offset: int
    gaps: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]
    unnamed_objects: int
    is_guarded: bool


@click.command(cls=Command)
@store_argument
@url_argument
@click.option(
    "--guard/--no-guard",
    default=None,
    help="Let retention delete only what this archive has confirmed, from now on; or end that.",
)
@click.option(
    "--sweep", is_flag=True, help="Delete what broken-off uploads left; with no other archiver at work."
)
@json_option
def archive(store: Path, url: str, guard: bool | None, sweep: bool, json: bool) -> None:
    """Copy the log's finished segments to a place elsewhere, beside a writer that is at work.

    Run it again and again, from cron: it sends what is not there yet. A broken-off run is taken up.

    Example: mqstore archive data s3://backups/orders --guard
    """
    output = Output(is_json=json)
    with (
        open_for_reading(store) as opened,
        progress(output) as board,
        interruptible() as interruption,
    ):
        show = scan_progress(board, "archive")

        def on_progress(done_bytes: int, total_bytes: int) -> None:
            if interruption.is_asked():
                reason = "interrupted: what is archived counts, and the next run goes on"
                raise ToolProblem(reason, ExitCode.INTERRUPTED)
            show(done_bytes, total_bytes)

        report = archive_store(opened, url, guard=guard, sweep=sweep, on_progress=on_progress)
    if json:
        output.facts(_row(report))
    else:
        _tell(output, report)
    if report.gaps or report.missing:
        raise click.exceptions.Exit(ExitCode.PROBLEM)


def _row(report: ArchiveReport) -> ArchiveRow:
    return ArchiveRow(
        place=report.place,
        store=report.store,
        archived_segments=report.archived_segments,
        archived_bytes=report.archived_bytes,
        segments=report.segments,
        end_offset=report.end_offset,
        gaps=report.gaps,
        missing=report.missing,
        unnamed_objects=report.unnamed_objects,
        is_guarded=report.is_guarded,
    )


def _tell(output: Output, report: ArchiveReport) -> None:
    output.text(
        f"archived {report.archived_segments:,} segments, {report.archived_bytes:,} bytes; {report.place} "
        f"has {report.segments:,} and goes up to {report.end_offset:,}"
    )
    if report.is_guarded:
        output.text(f"retention deletes nothing behind {report.end_offset:,}")
    for begin, end in report.gaps:
        output.note(f"a gap: {begin:,} to {end:,} was deleted before it was archived")
    for start in report.missing:
        output.note(f"the object of the segment at {start:,} is gone, and so is the segment on disk")
    if report.unnamed_objects:
        output.note(f"{report.unnamed_objects:,} objects of broken-off uploads; --sweep deletes them")
