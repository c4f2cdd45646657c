"""Repair: makes a damaged store sound again, and keeps every record that is whole.

    plan_repair             what verify finds, and what would be done about it; nothing is changed
    repair_into             a new directory: the source is only read. To be preferred
    repair_in_place         the directory itself; damaged bytes are first saved aside, durably

In both, nothing that is whole moves: a damaged stretch of the log is filled with records that take just its
room (fill_plan.py), so that physical offsets and queue offsets stay what they were, and brokers and consumers
go on where they were. What is derived from the log is built anew (rebuild.py).

The states that a repair in place leaves when it is killed, in order, and what a second one makes of them:

    1  saved aside, in part         nothing has been changed yet; saved again, under the next number
    2  files of the right length    of a wrong one there is only the copy; names that were swapped are in
       and name                     transit as `<where it belongs>.home`: brought home first
    3  covered, in part             what is covered is whole, what is not is damaged as before
    4  covered, recovery point set  nothing is damaged; queues and keys are built, by any opening
       back

A repair into a new directory begins with the mark `mqstore/repair-unfinished` and removes it last; a second
one begins anew where that is found. Threads: one. Durability: all of it, when it returns.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mqstore.repair.fill_plan import Cover, plan_covers
from mqstore.repair.rebuild import build_derived, forget_keys, recover_log, with_index_files
from mqstore.settings.directory_config import remember
from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreError, StoreNotFound
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_system import FileSystem, MappedRegion
from mqstore.store.files.file_tree import copy_file, copy_range, copy_tree, delete_tree, zero_range
from mqstore.store.progress import Progress
from mqstore.store.state.checkpoint_file import CheckpointFile
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store.state.recovery_point_format import RecoveryPoint
from mqstore.store_layout import StoreLayout
from mqstore.verify.inspection import Inspection, ScanProgress
from mqstore.verify.queue_check import LostMessage
from mqstore.verify.raw_segments import SegmentReader
from mqstore.verify.verification import VerifyReport, inspect_locked_store, inspect_store

__all__ = ["RepairPlan", "RepairRefused", "plan_repair", "repair_in_place", "repair_into"]

_IN_TRANSIT = re.compile(r"(\d{20})\.home")
_UNFINISHED = "repair-unfinished"
# What is made anew in a new directory, or holds for one process only.
_NOT_COPIED = frozenset(
    {"commitlog", "consumequeue", "index", "mqstore", "checkpoint", "abort", "abort.bak", "lock"}
)


class RepairRefused(StoreError):
    """A repair that cannot be done like that; nothing was changed."""


class RepairPlan(NamedTuple):
    """What a repair would do.

    covers: one for each damaged stretch of the log. left_out: lost messages that no stretch has room for:
    their queue offsets stay without a record. state_files: those that must begin anew, for they and their
    .bak are unreadable. builds_queues, builds_keys: made anew from the log.
    """

    report: VerifyReport
    covers: tuple[Cover, ...]
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
    def stand_ins(self) -> int:
        """How many lost messages get a stand-in."""
        return sum(len(cover.places) for cover in self.covers)


def plan_repair(
    path: Path,
    config: StoreConfig | None = None,
    *,
    file_system: FileSystem | None = None,
    clock: Clock | None = None,
    workers: int | None = None,
    on_progress: ScanProgress | None = None,
) -> RepairPlan:
    """What a repair of the store at `path` would do; nothing is changed. Raises as `verify`."""
    inspection = Inspection.of(file_system, clock, workers=workers, on_scan=on_progress)
    _bring_home(inspection.file_system, StoreLayout(path).commit_log, dry=True)
    return _plan(inspect_store(path, config, inspection))


def _plan(report: VerifyReport) -> RepairPlan:
    segment_bytes = report.config.mapped_file_size_commit_log
    covers, left_out = plan_covers(report.scan, report.lost, segment_bytes, report.newest_timestamp)
    kinds = {finding.kind for finding in report.damages}
    has_bad_files = not kinds.isdisjoint({"segment-length", "segment-name"})
    is_log_changed = bool(covers) or has_bad_files
    return RepairPlan(
        report,
        covers,
        left_out,
        tuple(finding.path for finding in report.damages if finding.kind == "state-file"),
        has_bad_files,
        "checkpoint-ahead" in kinds,
        is_log_changed or any(kind.startswith("queue") for kind in kinds),
        is_log_changed or any(kind.startswith(("key", "index")) for kind in kinds),
    )


def repair_in_place(
    path: Path,
    config: StoreConfig | None = None,
    *,
    file_system: FileSystem | None = None,
    clock: Clock | None = None,
    workers: int | None = None,
    on_scan: ScanProgress | None = None,
    on_progress: Progress | None = None,
) -> tuple[RepairPlan, Path | None]:
    """Repair the store at `path`; returns what was done, and where the damaged bytes are kept (None: none).

    Raises StoreLocked, StoreFull, RepairRefused (a sector that cannot be read: repair into a new directory).
    Run it again then.
    """
    inspection = Inspection.of(file_system, clock, workers=workers, on_scan=on_scan, on_opening=on_progress)
    file_system, layout = inspection.file_system, StoreLayout(path)
    if not file_system.exists(layout.commit_log):
        raise StoreNotFound(path)
    with inspection.locked(layout):
        _bring_home(file_system, layout.commit_log)
        plan = _plan(inspect_locked_store(path, config, inspection))
        aside = _InPlace(inspection, layout, plan).run() if plan.is_needed else None
    if plan.is_needed:
        # Looked up before the damaged bytes were covered.
        config = with_index_files(file_system, layout, plan.report.config)
        build_derived(path, config, inspection)
    return plan, aside


class _InPlace:
    """The steps of one repair of a directory that is locked."""

    def __init__(self, inspection: Inspection, layout: StoreLayout, plan: RepairPlan) -> None:
        self._inspection = inspection
        self._file_system = inspection.file_system
        self._layout = layout
        self._plan = plan
        self._segment_bytes = plan.report.config.mapped_file_size_commit_log
        self._aside: Path | None = None

    def run(self) -> Path | None:
        """All steps up to where an opening does the rest."""
        unreadable = [finding for finding in self._plan.report.findings if finding.kind == "unreadable"]
        if unreadable:
            raise RepairRefused(
                f"{unreadable[0].path} has sectors that cannot be read, the first at byte "
                f"{unreadable[0].position}: repair into a new directory, on another disk"
            )
        self._save_aside()
        self._mend_lengths()
        self._mend_names()
        for cover in self._plan.covers:
            self._cover(cover)
        self._set_points_back()
        self._begin_state_anew()
        if self._plan.builds_queues:
            # Before what tells of them is gone.
            remember(self._file_system, self._layout, self._plan.report.directory)
            recover_log(self._inspection, self._layout, self._plan.report.config)
            delete_tree(self._file_system, self._layout.consume_queues)
        if self._plan.builds_keys:
            forget_keys(self._file_system, self._layout)
        return self._aside

    # -- 1 --------------------------------------------------------------------------------------------

    def _save_aside(self) -> None:
        """Keep the bytes that are about to be overwritten."""
        paths = _by_place(self._plan.report)
        names = {entry.name for entry in self._file_system.list(self._layout.commit_log)}
        for cover in self._plan.covers:
            stretch = cover.stretch
            position = stretch.start_offset % self._segment_bytes
            start_offset = stretch.start_offset - position
            path = paths.get(start_offset, self._layout.commit_log / file_name(start_offset))
            if path.name in names:
                name = f"commitlog-{file_name(stretch.start_offset)}-{stretch.length_bytes}"
                self._save(path, name, position, stretch.length_bytes)
        for finding in self._plan.report.damages:
            if finding.kind == "segment-length" and finding.position > self._segment_bytes:
                name = f"commitlog-{finding.path.name}-behind-its-end"
                self._save(finding.path, name, self._segment_bytes, finding.position - self._segment_bytes)
        for path in self._plan.state_files:
            for each in (path, path.with_name(path.name + ".bak")):
                if self._file_system.exists(each):
                    self._save(each, each.name, 0, len(self._file_system.read(each)))
        if self._aside is not None:
            self._file_system.sync_directory(self._aside)

    def _save(self, source: Path, name: str, position: int, length_bytes: int) -> None:
        if self._aside is None:
            own = self._layout.own
            self._file_system.make_directories(own)
            taken = {entry.name for entry in self._file_system.list(own)}
            number = next(number for number in range(1, 10**6) if f"repaired-{number:04d}" not in taken)
            self._aside = own / f"repaired-{number:04d}"
            self._file_system.make_directories(self._aside)
        copy_file(self._file_system, source, self._aside / name, length_bytes, position=position)

    # -- 2 --------------------------------------------------------------------------------------------

    def _mend_lengths(self) -> None:
        """Replace segments of a wrong length by copies of the right one."""
        directory, segment_bytes = self._layout.commit_log, self._segment_bytes
        for finding in self._plan.report.damages:
            if finding.kind == "segment-length":
                temporary = directory / f"{finding.path.name}.repair"
                length_bytes = min(finding.position, segment_bytes)
                if length_bytes:
                    source = finding.path
                    copy_file(self._file_system, source, temporary, length_bytes, size_bytes=segment_bytes)
                    self._file_system.rename(temporary, finding.path)
                else:
                    self._file_system.delete(finding.path)
                self._file_system.sync_directory(directory)

    def _mend_names(self) -> None:
        """Give segments the names that their records say: first all away, then all home."""
        directory = self._layout.commit_log
        moved = [segment for segment in self._plan.report.segments if segment.is_misnamed]
        for segment in moved:
            home = directory / f"{file_name(segment.start_offset)}.home"
            self._file_system.rename(segment.path, home)
        if moved:
            self._file_system.sync_directory(directory)
            _bring_home(self._file_system, directory)

    # -- 3 --------------------------------------------------------------------------------------------

    def _cover(self, cover: Cover) -> None:
        """Fill one stretch, durably. A segment that is missing comes to be."""
        stretch, directory = cover.stretch, self._layout.commit_log
        start_offset = stretch.start_offset - stretch.start_offset % self._segment_bytes
        path = directory / file_name(start_offset)
        region = self._file_system.map(path, self._segment_bytes, create=True)
        zero_range(region, stretch.start_offset - start_offset, stretch.end_offset - start_offset)
        for offset, record in cover.records():
            region.reserve(offset - start_offset, len(record))
            region.publish(offset - start_offset, record)
        region.sync()
        region.release_descriptor()
        self._file_system.sync_directory(directory)

    # -- 4 --------------------------------------------------------------------------------------------

    def _set_points_back(self) -> None:
        """Let recovery and dispatch begin at the first record."""
        point_file = RecoveryPointFile(self._file_system, self._layout.recovery_point)
        point = point_file.load()
        if point is None:
            self._file_system.delete(self._layout.recovery_point)
        elif self._plan.builds_queues:
            point_file.save(_point_of(self._plan, point.log_offset))
        if self._plan.has_bad_checkpoint:
            newest = self._plan.report.newest_timestamp
            checkpoint = CheckpointFile(self._file_system, self._layout.checkpoint)
            checkpoint.load()
            checkpoint.save(newest, newest, min(newest, checkpoint.checkpoint.index_msg_timestamp))

    def _begin_state_anew(self) -> None:
        for path in self._plan.state_files:
            self._file_system.delete(path)
            self._file_system.delete(path.with_name(path.name + ".bak"))
        for directory in {path.parent for path in self._plan.state_files}:
            self._file_system.sync_directory(directory)

    def __repr__(self) -> str:
        return f"<_InPlace of {str(self._layout.root)!r}>"


def _bring_home(file_system: FileSystem, directory: Path, *, dry: bool = False) -> None:
    """Give segments their names that an earlier repair has left in transit.

    dry: refuse instead, as the log cannot be judged without them. Raises RepairRefused.
    """
    in_transit = [entry.name for entry in file_system.list(directory) if _IN_TRANSIT.fullmatch(entry.name)]
    if in_transit and dry:
        raise RepairRefused(
            f"{directory / in_transit[0]} was left by a repair that was interrupted: run it again with apply"
        )
    for name in in_transit:
        file_system.rename(directory / name, directory / name.removesuffix(".home"))
    if in_transit:
        file_system.sync_directory(directory)


def _by_place(report: VerifyReport) -> dict[int, Path]:
    """The file that holds each segment, by its start offset."""
    return {segment.start_offset: segment.path for segment in report.segments}


def _point_of(plan: RepairPlan, durable_offset: int) -> RecoveryPoint:
    """A recovery point that the repaired log is not behind, and that dispatches all of it anew."""
    scan = plan.report.scan
    end_offset = scan.end_offset
    if plan.covers and plan.covers[-1].stretch.end_offset > end_offset:
        # Recovery takes a BLANK that nothing follows for the end.
        last = plan.covers[-1]
        end_offset = last.rest_offset if last.ends_segment else last.stretch.end_offset
    log_offset = min(durable_offset, end_offset)
    return RecoveryPoint(log_offset, min(scan.min_offset, log_offset))


def repair_into(
    path: Path,
    target: Path,
    config: StoreConfig | None = None,
    *,
    file_system: FileSystem | None = None,
    clock: Clock | None = None,
    workers: int | None = None,
    on_scan: ScanProgress | None = None,
    on_progress: Progress | None = None,
) -> RepairPlan:
    """Write what is whole of the store at `path` into the new directory `target`; returns what was done.

    Raises StoreNotFound, StoreLocked, StoreFull, RepairRefused (there is something at `target`, or one
    directory lies in the other).
    """
    inspection = Inspection.of(file_system, clock, workers=workers, on_scan=on_scan, on_opening=on_progress)
    file_system = inspection.file_system
    source, layout = StoreLayout(path), StoreLayout(target)
    if not file_system.exists(source.commit_log):
        raise StoreNotFound(path)
    _refuse_nested(path.resolve(), target.resolve())
    unfinished = layout.own / _UNFINISHED
    if file_system.list(target) and not file_system.exists(unfinished):
        raise RepairRefused(f"{target} is not empty: give a directory that does not exist yet")
    with inspection.locked_if_writable(source):
        _bring_home(file_system, source.commit_log, dry=True)
        plan = _plan(inspect_locked_store(path, config, inspection))
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
            RecoveryPointFile(file_system, layout.recovery_point).save(_point_of(plan, point.log_offset))
    config = with_index_files(file_system, source, plan.report.config)
    build_derived(target, config, inspection)
    file_system.delete(unfinished)
    file_system.sync_directory(layout.own)
    return plan


def _refuse_nested(source: Path, target: Path) -> None:
    """A copy in its source would be copied as well, without end; and what is at `target` may be deleted."""
    if target.is_relative_to(source) or source.is_relative_to(target):
        raise RepairRefused(f"{target} and {source} lie in each other: give a directory outside of it")


def _copy_log(file_system: FileSystem, layout: StoreLayout, plan: RepairPlan) -> None:
    """All segments, the damaged stretches covered; what lies behind the end is left behind."""
    segment_bytes, scan = plan.report.config.mapped_file_size_commit_log, plan.report.scan
    end_offset = max([scan.end_offset, *(cover.stretch.end_offset for cover in plan.covers)])
    segments = {segment.start_offset: segment for segment in plan.report.segments}
    file_system.make_directories(layout.commit_log)
    for start_offset in range(scan.min_offset, end_offset, segment_bytes):
        region = file_system.map(layout.commit_log / file_name(start_offset), segment_bytes, create=True)
        stop_offset = min(start_offset + segment_bytes, end_offset)
        covers = [cover for cover in plan.covers if start_offset <= cover.stretch.start_offset < stop_offset]
        segment = segments.get(start_offset)
        reader = SegmentReader(file_system, segment) if segment is not None else None
        _copy_segment(reader, region, start_offset, stop_offset, covers)
    file_system.sync_directory(layout.commit_log)


def _copy_segment(
    reader: SegmentReader | None,
    region: MappedRegion,
    start_offset: int,
    stop_offset: int,
    covers: Sequence[Cover],
) -> None:
    """The covers, and what is whole between them. No reader: the segment is missing, and one cover is all."""
    at = 0
    for cover in covers:
        if reader is not None:
            copy_range(reader.read, region, at, cover.stretch.start_offset - start_offset)
        for offset, record in cover.records():
            region.reserve(offset - start_offset, len(record))
            region.write(offset - start_offset, record)
        at = cover.stretch.end_offset - start_offset
    if reader is not None:
        copy_range(reader.read, region, at, min(stop_offset - start_offset, reader.segment.size_bytes))
    region.sync()
    region.release_descriptor()


def _copy_others(file_system: FileSystem, source: Path, target: Path, state_files: Sequence[Path]) -> None:
    """State files as they are, but for those that begin anew; and what else a broker keeps there."""
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
