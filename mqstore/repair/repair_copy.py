"""Repair into a new directory: writes what is whole of a damaged store there, and only reads the source.

The copy begins with the mark `mqstore/repair-unfinished` and removes it last; a second repair starts from
scratch where it finds the mark. Threads: one. Durability: all of it, when it returns.
"""

from collections.abc import Sequence
from pathlib import Path

from mqstore.repair.fill_plan import Fill
from mqstore.repair.interrupted_repair import refuse_interrupted
from mqstore.repair.rebuild import build_derived, with_index_files
from mqstore.repair.repair_plan import RepairPlan, plan_of, recovery_point_after, tell_of_repair
from mqstore.settings.directory_config import remember
from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import RepairRefused, StoreNotFound
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_system import FileSystem, MappedRegion
from mqstore.store.files.file_tree import copy_file, copy_range, copy_tree, delete_tree
from mqstore.store.log.raw_segments import SegmentReader
from mqstore.store.progress import Progress
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store_layout import StoreLayout, user_path
from mqstore.verify.inspection import Inspection, ScanProgress
from mqstore.verify.verification import inspect_locked_store

__all__ = ["check_target", "repair_into"]

_UNFINISHED = "repair-unfinished"
# What is rebuilt in the new directory, or belongs to one process only.
_NOT_COPIED = frozenset(
    {"commitlog", "consumequeue", "index", "mqstore", "checkpoint", "abort", "abort.bak", "lock"}
)


def repair_into(
    path: str | Path,
    target: str | Path,
    config: StoreConfig | None = None,
    *,
    file_system: FileSystem | None = None,
    clock: Clock | None = None,
    workers: int | None = None,
    on_scan: ScanProgress | None = None,
    on_progress: Progress | None = None,
) -> RepairPlan:
    """Write what is whole of the store at `path` into the new directory `target`; returns what was done.

    Raises StoreNotFound, StoreLocked, StoreFull, RepairRefused (`target` is not empty, or one directory lies
    in the other, or an earlier repair in place was interrupted).
    """
    path, target = user_path(path), user_path(target)
    inspection = Inspection.of(file_system, clock, workers=workers, on_scan=on_scan, on_opening=on_progress)
    file_system = inspection.file_system
    source, layout = StoreLayout(path), StoreLayout(target)
    if not file_system.exists(source.commit_log):
        raise StoreNotFound(path)
    check_target(path, target, file_system)
    unfinished = layout.own / _UNFINISHED
    with inspection.locked_if_writable(source):
        refuse_interrupted(file_system, source.commit_log)
        plan = plan_of(inspect_locked_store(path, config, inspection))
        delete_tree(file_system, target)
        file_system.make_directories(layout.own)
        file_system.write(unfinished, b"")
        file_system.sync(unfinished)
        file_system.sync_directory(layout.own)
        _copy_log(file_system, layout, plan)
        _copy_others(file_system, path, target, plan.state_files)
        remember(file_system, layout, plan.report.directory)
    if file_system.exists(source.recovery_point):
        point = RecoveryPointFile(file_system, source.recovery_point).load()
        if point is not None:
            point = recovery_point_after(plan, point.log_offset)
            RecoveryPointFile(file_system, layout.recovery_point).save(point)
    config = with_index_files(file_system, source, plan.report.config)
    build_derived(target, config, inspection)
    file_system.delete(unfinished)
    file_system.sync_directory(layout.own)
    tell_of_repair(target, plan)
    return plan


def check_target(path: Path, target: Path, file_system: FileSystem) -> None:
    """Raises RepairRefused if `repair_into` would, for what `target` is."""
    _refuse_nested(path.resolve(), target.resolve())
    if file_system.list(target) and not file_system.exists(StoreLayout(target).own / _UNFINISHED):
        raise RepairRefused(f"{target} is not empty: give a directory that does not exist yet")


def _refuse_nested(source: Path, target: Path) -> None:
    """A copy inside its source would be copied too, without end; and `target` may be deleted."""
    if target.is_relative_to(source) or source.is_relative_to(target):
        raise RepairRefused(f"{target} and {source} lie in each other: give a directory outside of it")


def _copy_log(file_system: FileSystem, layout: StoreLayout, plan: RepairPlan) -> None:
    """All segments, with damaged ranges filled. Bytes behind the end of the log are not copied."""
    segment_bytes, scan = plan.report.config.mapped_file_size_commit_log, plan.report.scan
    end_offset = max([scan.end_offset, *(fill.damage.end_offset for fill in plan.fills)])
    segments = {segment.start_offset: segment for segment in plan.report.segments}
    file_system.make_directories(layout.commit_log)
    for start_offset in range(scan.min_offset, end_offset, segment_bytes):
        region = file_system.map(layout.commit_log / file_name(start_offset), segment_bytes, create=True)
        stop_offset = min(start_offset + segment_bytes, end_offset)
        fills = [fill for fill in plan.fills if start_offset <= fill.damage.start_offset < stop_offset]
        segment = segments.get(start_offset)
        reader = SegmentReader(file_system, segment) if segment is not None else None
        _copy_segment(reader, region, start_offset, stop_offset, fills)
    file_system.sync_directory(layout.commit_log)


def _copy_segment(
    reader: SegmentReader | None,
    region: MappedRegion,
    start_offset: int,
    stop_offset: int,
    fills: Sequence[Fill],
) -> None:
    """Write the fills, and copy what is between them. No reader: the segment is missing; one fill is all."""
    at = 0
    for fill in fills:
        if reader is not None:
            copy_range(reader.read, region, at, fill.damage.start_offset - start_offset)
        for offset, record in fill.records():
            region.reserve(offset - start_offset, len(record))
            region.write(offset - start_offset, record)
        at = fill.damage.end_offset - start_offset
    if reader is not None:
        copy_range(reader.read, region, at, min(stop_offset - start_offset, reader.segment.size_bytes))
    region.sync()
    region.release_descriptor()


def _copy_others(file_system: FileSystem, source: Path, target: Path, state_files: Sequence[Path]) -> None:
    """Copy all else that a broker keeps there, but for the state files that start from empty."""
    for entry in file_system.list(source):
        if entry.name in _NOT_COPIED:
            continue
        if entry.is_directory:
            copy_tree(file_system, source / entry.name, target / entry.name)
        else:
            copy_file(file_system, source / entry.name, target / entry.name, entry.size_bytes)
    for path in state_files:
        if path.parent.name == "config":
            config = target / path.parent.name
            file_system.delete(config / path.name)
            file_system.delete(config / f"{path.name}.bak")
            file_system.sync_directory(config)
    file_system.sync_directory(target)
