"""`mqstore repair`: makes a damaged store sound again and keeps all that is whole. Acts only with --apply.

    $ mqstore repair data --into repaired --apply
    repaired into repaired: 2 damaged ranges filled, 1 messages lost

Takes the writer's lock. In place it first copies the damaged bytes to `mqstore/repaired-<number>/`.
"""

from pathlib import Path

import click

from mqstore.repair.repair_copy import check_target, repair_into
from mqstore.repair.repair_in_place import repair_in_place
from mqstore.repair.repair_plan import RepairPlan, plan_repair
from mqstore.store.errors import StoreNotFound
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.exit_codes import ExitCode
from mqstore.tools.cli.maintenance.findings_table import finding_rows, show_findings
from mqstore.tools.cli.maintenance.verify import workers_option
from mqstore.tools.cli.open_store import settings_of, way_out_of_lock
from mqstore.tools.cli.options import config_option, json_option, setting_option, store_argument
from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.cli.parameter_types import SHELL_PATH
from mqstore.tools.cli.progress import opening_progress, progress, scan_progress

__all__ = ["repair"]


class FillRow(Row):
    """What goes into a damaged range."""

    physical_offset: int
    length: int
    lost_messages: int
    placeholders: list[str]
    rest: str


class RepairRow(Row):
    """The outcome. `into` and `saved` are paths."""

    is_applied: bool
    is_needed: bool
    damaged_ranges: int
    lost_messages: int
    without_placeholder: int
    builds_queues: bool
    builds_keys: bool
    state_files_anew: list[str]
    into: str | None
    saved: str | None


_FILL_COLUMNS = (
    Column[FillRow]("from physical offset", lambda row: f"{row.physical_offset:,}", "right"),
    Column[FillRow]("bytes", lambda row: f"{row.length:,}", "right"),
    Column[FillRow]("lost", lambda row: f"{row.lost_messages:,}", "right"),
    Column[FillRow]("placeholders for (topic/queue/offset)", lambda row: _first(row.placeholders)),
    Column[FillRow]("and", lambda row: row.rest),
)


@click.command(cls=Command)
@store_argument
@click.option("--into", type=SHELL_PATH, metavar="NEW", help="Write to a new directory; STORE is only read.")
@click.option("--apply", is_flag=True, help="Do it. Without, it is only shown.")
@workers_option
@config_option
@setting_option
@json_option
def repair(
    store: Path,
    into: Path | None,
    apply: bool,
    workers: int | None,
    config: Path | None,
    setting: tuple[str, ...],
    json: bool,
) -> None:
    """Fill what is damaged and keep every record that is whole, with its offsets. Shows what it would do.

    Prefer --into: the damaged store stays as it is. Exit codes: 0 nothing to repair, or repaired; 1 not
    applied.

    Example: mqstore repair data --into repaired --apply
    """
    output = Output(is_json=json)
    if not (store / "commitlog").is_dir():
        raise StoreNotFound(store)
    settings = settings_of(store, config, setting)
    if into is not None:
        # The dry run says it, too, and before the scan.
        check_target(store, into, OsFileSystem())
    saved: Path | None = None
    with way_out_of_lock(), progress(output) as board:
        on_scan = scan_progress(board, "verify")
        if not apply:
            plan = plan_repair(store, settings, workers=workers, on_progress=on_scan)
        elif into is None:
            plan, saved = repair_in_place(
                store, settings, workers=workers, on_scan=on_scan, on_progress=opening_progress(board)
            )
        else:
            plan = repair_into(
                store, into, settings, workers=workers, on_scan=on_scan, on_progress=opening_progress(board)
            )
    _show(output, store, plan, into, saved, is_applied=apply)
    if plan.is_needed and not apply:
        raise click.exceptions.Exit(ExitCode.PROBLEM)


def _show(
    output: Output, store: Path, plan: RepairPlan, into: Path | None, saved: Path | None, *, is_applied: bool
) -> None:
    row = RepairRow(
        is_applied=is_applied,
        is_needed=plan.is_needed,
        damaged_ranges=len(plan.fills),
        lost_messages=len(plan.report.lost),
        without_placeholder=len(plan.left_out),
        builds_queues=plan.builds_queues,
        builds_keys=plan.builds_keys,
        state_files_anew=[path.name for path in plan.state_files],
        into=str(into) if into is not None else None,
        saved=str(saved) if saved is not None else None,
    )
    if not is_applied:
        show_findings(output, finding_rows(store, plan.report.findings))
    if plan.fills:
        output.listing(_fill_rows(plan), _FILL_COLUMNS, title="damaged ranges of the log")
    if output.is_json:
        output.facts(row)
        return
    output.text()
    for line in _sentences(row):
        output.text(line)


def _fill_rows(plan: RepairPlan) -> list[FillRow]:
    rows = []
    for fill in plan.fills:
        rest_bytes = fill.damage.end_offset - fill.filler_offset
        kind = "a BLANK" if fill.ends_segment else "fillers"
        rows.append(
            FillRow(
                physical_offset=fill.damage.start_offset,
                length=fill.damage.length_bytes,
                lost_messages=len(fill.places),
                placeholders=[f"{each.topic}/{each.queue_id}/{each.queue_offset}" for each in fill.lost],
                rest=f"{kind} of {rest_bytes:,} bytes" if rest_bytes else "nothing else",
            )
        )
    return rows


def _sentences(row: RepairRow) -> list[str]:
    if not row.is_needed:
        copied = f"; {row.into} is a copy" if row.is_applied and row.into else ""
        return [f"nothing to repair{copied}"]
    done = "repaired" if row.is_applied else "would repair (--apply does it)"
    where = f"into {row.into}" if row.into else "in place"
    lines = [
        f"{done} {where}: {row.damaged_ranges:,} damaged ranges filled, {row.lost_messages:,} messages lost"
    ]
    rebuilt = [
        name for name, is_built in (("queues", row.builds_queues), ("keys", row.builds_keys)) if is_built
    ]
    if rebuilt:
        lines.append(f"{'rebuilt' if row.is_applied else 'would rebuild'}: {', '.join(rebuilt)}")
    if row.state_files_anew:
        names = ", ".join(row.state_files_anew)
        begin = "begun" if row.is_applied else "would begin"
        lines.append(f"{begin} empty, since neither they nor their .bak can be read: {names}")
    if row.without_placeholder:
        lines.append(
            f"without a placeholder, so their queue offsets have no record: {row.without_placeholder:,}"
        )
    if row.saved:
        lines.append(f"the damaged bytes are kept in {row.saved}")
    elif not row.is_applied and row.into is None:
        lines.append("--into NEW leaves this directory as it is, and is to be preferred")
    return lines


def _first(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3:,} more" if len(names) > 3 else shown
