"""`mqstore verify`: checks every byte of a store that can be checked. Changes nothing.

    $ mqstore verify data
    sound: 1,995 records in 2 segments, 2 notes

Takes the writer's lock, so that nothing changes meanwhile; `--live` checks without it, beside a writer.
"""

from pathlib import Path

import click

from mqstore.store.errors import StoreError, StoreLocked
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.maintenance.findings_table import finding_rows, show_findings
from mqstore.tools.cli.open_store import settings_of, way_out_of_lock
from mqstore.tools.cli.options import config_option, json_option, setting_option, store_argument
from mqstore.tools.cli.output import Output, Row
from mqstore.tools.cli.progress import progress, scan_progress
from mqstore.verify.verification import VerifyReport
from mqstore.verify.verification import verify as verify_store

__all__ = ["could_not_check", "verify", "workers_option"]

workers_option = click.option(
    "--workers", type=click.IntRange(min=1), help="Segments looked at at a time; default: processors."
)

_CHECK_BESIDE_IT = "give --live, which checks beside a writer, or stop that writer"


class VerifyRow(Row):
    """The outcome. `damages` and `notes` count findings."""

    is_sound: bool
    records: int
    segments: int
    min_offset: int
    max_offset: int
    damages: int
    notes: int
    lost_messages: int


@click.command(cls=Command)
@store_argument
@workers_option
@click.option("--live", is_flag=True, help="Beside a writer: what is derived may be behind the log.")
@config_option
@setting_option
@json_option
def verify(
    store: Path,
    workers: int | None,
    live: bool,
    config: Path | None,
    setting: tuple[str, ...],
    json: bool,
) -> None:
    """Check the log, the queues, the keys and the state files of a store, and change nothing.

    Exit codes: 0 sound, 1 damage found, 2 could not check, 3 somebody writes. With --json one finding a line,
    then the outcome.

    Example: mqstore verify data --json
    """
    output = Output(is_json=json)
    settings = settings_of(store, config, setting)
    try:
        with way_out_of_lock(_CHECK_BESIDE_IT), progress(output) as board:
            report = verify_store(
                store, settings, workers=workers, live=live, on_progress=scan_progress(board, "verify")
            )
    except StoreLocked:
        raise
    except (StoreError, OSError) as error:
        raise could_not_check(store, error) from error
    _show(output, store, report)
    if not report.is_sound:
        raise click.exceptions.Exit(ExitCode.PROBLEM)


def could_not_check(store: Path, error: Exception) -> ToolProblem:
    """The problem that ends a check that could not be made."""
    return ToolProblem(f"{store} could not be checked: {error}", ExitCode.USAGE)


def _show(output: Output, store: Path, report: VerifyReport) -> None:
    show_findings(output, finding_rows(store, report.findings))
    row = VerifyRow(
        is_sound=report.is_sound,
        records=report.records,
        segments=len(report.segments),
        min_offset=report.scan.min_offset,
        max_offset=report.scan.end_offset,
        damages=len(report.damages),
        notes=len(report.findings) - len(report.damages),
        lost_messages=len(report.lost),
    )
    if output.is_json:
        output.facts(row)
        return
    if report.findings:
        output.text()
    verdict = "sound"
    if not row.is_sound:
        verdict = f"DAMAGED in {row.damages:,} places, {row.lost_messages:,} messages lost"
    notes = f", {row.notes:,} notes" if row.notes else ""
    output.text(f"{verdict}: {row.records:,} records in {row.segments:,} segments{notes}")
    if not row.is_sound:
        output.note(f"mqstore repair {store} shows what can be done")
