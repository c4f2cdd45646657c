"""The plan of a repair: what verify finds, and what a repair would do about it. Nothing is changed.

    repair_copy.py          writes a repaired store into a new directory, and only reads the source. Prefer it
    repair_in_place.py      repairs the directory itself; damaged bytes are first copied aside, durably

In both, nothing that is whole moves: a damaged range of the log is filled with records of exactly its length
(fill_plan.py), so that physical offsets and queue offsets stay what they were, and brokers and consumers
continue where they were. What is derived from the log is rebuilt (rebuild.py).
"""

import logging
from pathlib import Path
from typing import NamedTuple

from mqstore.repair.fill_plan import Fill, plan_fills
from mqstore.repair.interrupted_repair import refuse_interrupted
from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.recovery_point_format import RecoveryPoint
from mqstore.store_layout import StoreLayout, user_path
from mqstore.verify.inspection import Inspection, ScanProgress
from mqstore.verify.unclaimed_entries import LostMessage
from mqstore.verify.verification import VerifyReport, inspect_store

__all__ = ["RepairPlan", "plan_of", "plan_repair", "recovery_point_after", "tell_of_repair"]

_logger = logging.getLogger(__name__)


class RepairPlan(NamedTuple):
    """What a repair would do.

    fills: one for each damaged range of the log. left_out: lost messages that no range has room for: their
    queue offsets stay without a record. state_files: those that start from empty, since neither they nor
    their .bak can be read. builds_queues, builds_keys: rebuilt from the log.
    """

    report: VerifyReport
    fills: tuple[Fill, ...]
    left_out: tuple[LostMessage, ...]
    state_files: tuple[Path, ...]
    has_bad_files: bool
    has_bad_checkpoint: bool
    builds_queues: bool
    builds_keys: bool

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to repair."""
        return not self.report.is_sound

    @property
    def placeholders(self) -> int:
        """How many lost messages get a placeholder."""
        return sum(len(fill.places) for fill in self.fills)


def plan_repair(
    path: str | Path,
    config: StoreConfig | None = None,
    *,
    file_system: FileSystem | None = None,
    clock: Clock | None = None,
    workers: int | None = None,
    on_progress: ScanProgress | None = None,
) -> RepairPlan:
    """What a repair of the store at `path` would do; nothing is changed.

    Raises what `verify` raises, and RepairRefused (an earlier repair was interrupted).
    """
    path = user_path(path)
    inspection = Inspection.of(file_system, clock, workers=workers, on_scan=on_progress)
    refuse_interrupted(inspection.file_system, StoreLayout(path).commit_log)
    return plan_of(inspect_store(path, config, inspection))


def plan_of(report: VerifyReport) -> RepairPlan:
    """The repair of what verify has found."""
    segment_bytes = report.config.mapped_file_size_commit_log
    fills, left_out = plan_fills(report.scan, report.lost, segment_bytes, report.newest_timestamp)
    kinds = {finding.kind for finding in report.damages}
    has_bad_files = not kinds.isdisjoint({"segment-length", "segment-name", "segment-extra"})
    is_log_changed = bool(fills) or has_bad_files
    return RepairPlan(
        report,
        fills,
        left_out,
        tuple(finding.path for finding in report.damages if finding.kind == "state-file"),
        has_bad_files,
        "checkpoint-ahead" in kinds,
        is_log_changed or any(kind.startswith("queue") for kind in kinds),
        is_log_changed or any(kind.startswith(("key", "index")) for kind in kinds),
    )


def recovery_point_after(plan: RepairPlan, durable_offset: int) -> RecoveryPoint:
    """A recovery point not ahead of the repaired log, from which all of the log is dispatched again."""
    scan = plan.report.scan
    end_offset = scan.end_offset
    if plan.fills and plan.fills[-1].damage.end_offset > end_offset:
        # For recovery, a BLANK that nothing follows is the end of the log.
        last = plan.fills[-1]
        end_offset = last.filler_offset if last.ends_segment else last.damage.end_offset
    log_offset = min(durable_offset, end_offset)
    return RecoveryPoint(log_offset, min(scan.min_offset, log_offset))


def tell_of_repair(path: Path, plan: RepairPlan) -> None:
    """Log that the store at `path` is repaired."""
    findings, placeholders = len(plan.report.findings), plan.placeholders
    log_event(
        *(_logger, events.STORE_REPAIRED, "%s is repaired: %d findings", path, findings),
        store_path=str(path),
        findings=findings,
        placeholders=placeholders,
    )
