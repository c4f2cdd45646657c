"""`mqstore spark verify`: checks every record of one or several logs, in parallel. Safe on a live store.

    $ mqstore spark verify data
    segment                             records      bytes  damaged
    data/commitlog/00000000000000000000   1,995  1,041,224        0
    sound: 1,995 records of 1,041,224 bytes in 1 segment

What is checked, and what is not: tools/spark/jobs/segment_check.py.
"""

from pathlib import Path

import click

from mqstore.tools.cli.command import Command
from mqstore.tools.cli.exit_codes import ExitCode
from mqstore.tools.cli.options import json_option
from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.cli.spark.job_options import (
    conf_option,
    master_option,
    partition_bytes_option,
    stores_argument,
)
from mqstore.tools.spark.jobs.job_session import parse_settings
from mqstore.tools.spark.jobs.segment_check import SegmentReport, check_segments

__all__ = ["verify"]


class SegmentRow(Row):
    """One segment."""

    segment: str
    store: str
    records: int
    record_bytes: int
    damages: int


class DamageRow(Row):
    """One place that is damaged."""

    file: str
    store: str
    position: int
    size: int
    reason: str


class OutcomeRow(Row):
    """The outcome."""

    is_sound: bool
    records: int
    record_bytes: int
    segments: int
    damages: int


_SEGMENTS = (
    Column[SegmentRow]("segment", lambda row: row.segment),
    Column[SegmentRow]("records", lambda row: f"{row.records:,}", "right"),
    Column[SegmentRow]("bytes", lambda row: f"{row.record_bytes:,}", "right"),
    Column[SegmentRow]("damaged", lambda row: row.damages, "right"),
)
_DAMAGES = (
    Column[DamageRow]("damaged file", lambda row: row.file),
    Column[DamageRow]("at byte", lambda row: row.position, "right"),
    Column[DamageRow]("bytes", lambda row: row.size, "right"),
    Column[DamageRow]("what", lambda row: row.reason),
)


@click.command(cls=Command)
@stores_argument
@master_option
@conf_option
@partition_bytes_option
@json_option
def verify(
    stores: tuple[Path, ...],
    master: str,
    conf: tuple[str, ...],
    max_partition_bytes: int | None,
    json: bool,
) -> None:
    """Check each record of the logs of some stores: lengths, offsets, CRCs. Queues and keys are not read.

    Exit codes: 0 sound, 4 damage found, 1 could not check. With --json one segment a line, then one damage a
    line, then the outcome.

    Example: mqstore spark verify data backup --master 'local[4]'
    """
    report = check_segments(
        stores, master=master, settings=parse_settings(conf), max_partition_bytes=max_partition_bytes
    )
    _show(Output(is_json=json), report)
    if not report.is_sound:
        raise click.exceptions.Exit(ExitCode.CORRUPTION)


def _show(output: Output, report: SegmentReport) -> None:
    segments = [
        SegmentRow(
            segment=one.path,
            store=one.store,
            records=one.records,
            record_bytes=one.record_bytes,
            damages=one.damages,
        )
        for one in report.segments
    ]
    damages = [
        DamageRow(
            file=one.path, store=one.store, position=one.position, size=one.size_bytes, reason=one.reason
        )
        for one in report.damages
    ]
    output.listing(segments, _SEGMENTS)
    output.listing(damages, _DAMAGES)
    row = OutcomeRow(
        is_sound=report.is_sound,
        records=report.records,
        record_bytes=report.record_bytes,
        segments=len(segments),
        damages=len(damages),
    )
    if output.is_json:
        output.facts(row)
        return
    verdict = "sound" if row.is_sound else f"DAMAGED in {row.damages:,} places"
    output.text(
        f"{verdict}: {row.records:,} records of {row.record_bytes:,} bytes in {row.segments:,} segments"
    )
    if not row.is_sound:
        output.note("mqstore repair shows what can be done about a store")
