"""`mqstore repair`: makes a damaged store sound again and keeps all that is whole. Acts only with --apply.

    $ mqstore repair data --into repaired --apply
    repaired: wrote repaired; 2 damaged stretches covered, 1 message lost

Takes the writer's lock. In place it first saves the damaged bytes to `mqstore/repaired-<number>/`.
"""

from pathlib import Path
from typing import Annotated

import typer

from mqstore.repair.repair_plan import RepairPlan, plan_repair, repair_in_place, repair_into
from mqstore.store.errors import StoreNotFound
from mqstore.tools.cli.exit_codes import ExitCode
from mqstore.tools.cli.maintenance.findings_table import finding_rows, show_findings
from mqstore.tools.cli.maintenance.verify import WorkersOption
from mqstore.tools.cli.open_store import settings_of
from mqstore.tools.cli.options import ConfigFileOption, JsonOption, SettingOption, StoreArgument
from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.cli.progress import opening_progress, progress, scan_progress

__all__ = ["repair"]


class CoverRow(Row):
    """What goes into a damaged stretch."""

    physical_offset: int
    length: int
    lost_messages: int
    stand_ins: list[str]
    rest: str


class RepairRow(Row):
    """The outcome. `into` and `saved` are paths."""

    is_applied: bool
    is_needed: bool
    stretches: int
    lost_messages: int
    without_stand_in: int
    builds_queues: bool
    builds_keys: bool
    state_files_anew: list[str]
    into: str | None
    saved: str | None


_COVER_COLUMNS = (
    Column[CoverRow]("from physical offset", lambda row: f"{row.physical_offset:,}", "right"),
    Column[CoverRow]("bytes", lambda row: f"{row.length:,}", "right"),
    Column[CoverRow]("lost", lambda row: f"{row.lost_messages:,}", "right"),
    Column[CoverRow]("stand-ins for (topic/queue/offset)", lambda row: _first(row.stand_ins)),
    Column[CoverRow]("and", lambda row: row.rest),
)


def repair(
    store: StoreArgument,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="NEW", help="Write to a new directory; STORE is only read."),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Do it. Without, it is only shown.")] = False,
    workers: WorkersOption = None,
    config: ConfigFileOption = None,
    setting: SettingOption = None,
    json: JsonOption = False,
) -> None:
    """Cover what is damaged and keep every record that is whole, with its offsets. Shows what it would do.

    Prefer --into: the damaged store stays as it is. Exit codes: 0 nothing to repair, or repaired; 1 not
    applied. Example: mqstore repair data --into repaired --apply
    """
    output = Output(is_json=json)
    if not (store / "commitlog").is_dir():
        raise StoreNotFound(store)
    settings = settings_of(store, config, setting)
    saved: Path | None = None
    with progress(output) as board:
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
        raise typer.Exit(ExitCode.PROBLEM)


def _show(
    output: Output, store: Path, plan: RepairPlan, into: Path | None, saved: Path | None, *, is_applied: bool
) -> None:
    row = RepairRow(
        is_applied=is_applied,
        is_needed=plan.is_needed,
        stretches=len(plan.covers),
        lost_messages=len(plan.report.lost),
        without_stand_in=len(plan.left_out),
        builds_queues=plan.builds_queues,
        builds_keys=plan.builds_keys,
        state_files_anew=[path.name for path in plan.state_files],
        into=str(into) if into is not None else None,
        saved=str(saved) if saved is not None else None,
    )
    if not is_applied:
        show_findings(output, finding_rows(store, plan.report.findings))
    if plan.covers:
        output.listing(_cover_rows(plan), _COVER_COLUMNS, title="damaged stretches of the log")
    if output.is_json:
        output.facts(row)
        return
    output.text()
    for line in _sentences(row):
        output.text(line)


def _cover_rows(plan: RepairPlan) -> list[CoverRow]:
    rows = []
    for cover in plan.covers:
        rest_bytes = cover.stretch.end_offset - cover.rest_offset
        kind = "a BLANK" if cover.ends_segment else "fillers"
        rows.append(
            CoverRow(
                physical_offset=cover.stretch.start_offset,
                length=cover.stretch.length_bytes,
                lost_messages=len(cover.places),
                stand_ins=[f"{each.topic}/{each.queue_id}/{each.queue_offset}" for each in cover.lost],
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
        f"{done} {where}: {row.stretches:,} damaged stretches covered, {row.lost_messages:,} messages lost"
    ]
    anew = [name for name, is_built in (("queues", row.builds_queues), ("keys", row.builds_keys)) if is_built]
    if anew:
        lines.append(f"built anew: {', '.join(anew)}")
    if row.state_files_anew:
        lines.append(f"beginning anew, since neither they nor their .bak can be read: {row.state_files_anew}")
    if row.without_stand_in:
        lines.append(f"without a stand-in, so their queue offsets have no record: {row.without_stand_in:,}")
    if row.saved:
        lines.append(f"the damaged bytes are kept in {row.saved}")
    elif not row.is_applied and row.into is None:
        lines.append("--into NEW leaves this directory as it is, and is to be preferred")
    return lines


def _first(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3:,} more" if len(names) > 3 else shown
