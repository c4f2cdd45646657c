"""Repair in place: makes a damaged directory sound, after it has copied aside the bytes that it overwrites.

The states that a repair leaves when it is killed, in order, and what a second one makes of them:

    1  copied aside, in part        nothing has been changed yet; copied again, under the next number
    2  files of the right length    a file of a wrong length was replaced by its copy; swapped names are in
       and name                     transit as `<where it belongs>.home`: renamed first
    3  filled, in part              what is filled is whole, what is not is damaged as before
    4  filled, recovery point set   nothing is damaged; any opening builds queues and keys
       back

Threads: one. Durability: all of it, when it returns.
"""

from pathlib import Path

from mqstore.repair.fill_plan import Fill
from mqstore.repair.interrupted_repair import finish_renames, name_in_transit
from mqstore.repair.rebuild import build_derived, forget_keys, recover_log, with_index_files
from mqstore.repair.repair_plan import RepairPlan, plan_of, recovery_point_after, tell_of_repair
from mqstore.settings.directory_config import remember
from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import RepairRefused, StoreNotFound
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.file_tree import copy_file, delete_tree, zero_range
from mqstore.store.progress import Progress
from mqstore.store.state.checkpoint_file import CheckpointFile
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store_layout import StoreLayout, user_path
from mqstore.verify.inspection import Inspection, ScanProgress
from mqstore.verify.verification import inspect_locked_store

__all__ = ["repair_in_place"]


def repair_in_place(
    path: str | Path,
    config: StoreConfig | None = None,
    *,
    file_system: FileSystem | None = None,
    clock: Clock | None = None,
    workers: int | None = None,
    on_scan: ScanProgress | None = None,
    on_progress: Progress | None = None,
) -> tuple[RepairPlan, Path | None]:
    """Repair the store at `path`; returns what was done, and where the damaged bytes are kept (None: none).

    Raises StoreNotFound, StoreLocked, RepairRefused (a sector that cannot be read: repair into a new
    directory), and StoreFull: make room and run it again.
    """
    path = user_path(path)
    inspection = Inspection.of(file_system, clock, workers=workers, on_scan=on_scan, on_opening=on_progress)
    file_system, layout = inspection.file_system, StoreLayout(path)
    if not file_system.exists(layout.commit_log):
        raise StoreNotFound(path)
    with inspection.locked(layout):
        finish_renames(file_system, layout.commit_log)
        plan = plan_of(inspect_locked_store(path, config, inspection))
        aside = _Repair(inspection, layout, plan).run() if plan.is_needed else None
    if plan.is_needed:
        # From the settings that were found before the damaged bytes were filled.
        config = with_index_files(file_system, layout, plan.report.config)
        build_derived(path, config, inspection)
        tell_of_repair(path, plan)
    return plan, aside


class _Repair:
    """The steps of one repair of a directory that is locked."""

    def __init__(self, inspection: Inspection, layout: StoreLayout, plan: RepairPlan) -> None:
        self._inspection = inspection
        self._file_system = inspection.file_system
        self._layout = layout
        self._plan = plan
        self._segment_bytes = plan.report.config.mapped_file_size_commit_log
        self._aside: Path | None = None

    def run(self) -> Path | None:
        """All steps but the opening that builds queues and keys."""
        self._refuse_unreadable()
        self._copy_aside()
        self._correct_lengths()
        self._correct_names()
        for fill in self._plan.fills:
            self._write(fill)
        self._set_points_back()
        self._delete_bad_state_files()
        if self._plan.builds_queues:
            # Before the files from which they were derived are deleted.
            remember(self._file_system, self._layout, self._plan.report.directory)
            recover_log(self._inspection, self._layout, self._plan.report.config)
            delete_tree(self._file_system, self._layout.consume_queues)
        if self._plan.builds_keys:
            forget_keys(self._file_system, self._layout)
        return self._aside

    def _refuse_unreadable(self) -> None:
        for finding in self._plan.report.findings:
            if finding.kind == "unreadable":
                raise RepairRefused(
                    f"{finding.path} has sectors that cannot be read, the first at byte "
                    f"{finding.position}: repair into a new directory, on another disk"
                )

    # -- 1 --------------------------------------------------------------------------------------------

    def _copy_aside(self) -> None:
        """Keep the bytes that are about to be overwritten."""
        paths = {segment.start_offset: segment.path for segment in self._plan.report.segments}
        sizes = {entry.name: entry.size_bytes for entry in self._file_system.list(self._layout.commit_log)}
        for fill in self._plan.fills:
            damage = fill.damage
            position = damage.start_offset % self._segment_bytes
            start_offset = damage.start_offset - position
            path = paths.get(start_offset, self._layout.commit_log / file_name(start_offset))
            if path.name in sizes:
                name = f"commitlog-{file_name(damage.start_offset)}-{damage.length_bytes}"
                self._copy(path, name, position, damage.length_bytes)
        for finding in self._plan.report.damages:
            if finding.kind == "segment-length" and finding.position > self._segment_bytes:
                name = f"commitlog-{finding.path.name}-behind-its-end"
                self._copy(finding.path, name, self._segment_bytes, finding.position - self._segment_bytes)
            elif finding.kind == "segment-extra":
                self._copy(finding.path, f"commitlog-{finding.path.name}", 0, sizes[finding.path.name])
        for path in self._plan.state_files:
            for each in (path, path.with_name(path.name + ".bak")):
                if self._file_system.exists(each):
                    self._copy(each, each.name, 0, len(self._file_system.read(each)))
        if self._aside is not None:
            self._file_system.sync_directory(self._aside)

    def _copy(self, source: Path, name: str, position: int, length_bytes: int) -> None:
        if self._aside is None:
            own = self._layout.own
            self._file_system.make_directories(own)
            taken = {entry.name for entry in self._file_system.list(own)}
            number = next(number for number in range(1, 10**6) if f"repaired-{number:04d}" not in taken)
            self._aside = own / f"repaired-{number:04d}"
            self._file_system.make_directories(self._aside)
        copy_file(self._file_system, source, self._aside / name, length_bytes, position=position)

    # -- 2 --------------------------------------------------------------------------------------------

    def _correct_lengths(self) -> None:
        """Replace segments of a wrong length by copies of the right one, and delete what is no segment."""
        directory, segment_bytes = self._layout.commit_log, self._segment_bytes
        for finding in self._plan.report.damages:
            if finding.kind == "segment-extra":
                self._file_system.delete(finding.path)
                self._file_system.sync_directory(directory)
            elif finding.kind == "segment-length":
                temporary = directory / f"{finding.path.name}.repair"
                length_bytes = min(finding.position, segment_bytes)
                if length_bytes:
                    source = finding.path
                    copy_file(self._file_system, source, temporary, length_bytes, size_bytes=segment_bytes)
                    self._file_system.rename(temporary, finding.path)
                else:
                    self._file_system.delete(finding.path)
                self._file_system.sync_directory(directory)

    def _correct_names(self) -> None:
        """Give segments the names that their records imply, in two steps: names may be swapped."""
        directory = self._layout.commit_log
        moved = [segment for segment in self._plan.report.segments if segment.is_misnamed]
        for segment in moved:
            self._file_system.rename(segment.path, directory / name_in_transit(segment.start_offset))
        if moved:
            self._file_system.sync_directory(directory)
            finish_renames(self._file_system, directory)

    # -- 3 --------------------------------------------------------------------------------------------

    def _write(self, fill: Fill) -> None:
        """Fill one damaged range, durably. A missing segment is created."""
        damage, directory = fill.damage, self._layout.commit_log
        start_offset = damage.start_offset - damage.start_offset % self._segment_bytes
        path = directory / file_name(start_offset)
        region = self._file_system.map(path, self._segment_bytes, create=True)
        zero_range(region, damage.start_offset - start_offset, damage.end_offset - start_offset)
        for offset, record in fill.records():
            region.reserve(offset - start_offset, len(record))
            region.publish(offset - start_offset, record)
        region.sync()
        region.release_descriptor()
        self._file_system.sync_directory(directory)

    # -- 4 --------------------------------------------------------------------------------------------

    def _set_points_back(self) -> None:
        """Make recovery and dispatch begin at the first record."""
        point_file = RecoveryPointFile(self._file_system, self._layout.recovery_point)
        point = point_file.load()
        if point is None:
            self._file_system.delete(self._layout.recovery_point)
        elif self._plan.builds_queues:
            point_file.save(recovery_point_after(self._plan, point.log_offset))
        if self._plan.has_bad_checkpoint:
            newest = self._plan.report.newest_timestamp
            checkpoint = CheckpointFile(self._file_system, self._layout.checkpoint)
            checkpoint.load()
            checkpoint.save(newest, newest, min(newest, checkpoint.checkpoint.index_msg_timestamp))

    def _delete_bad_state_files(self) -> None:
        for path in self._plan.state_files:
            self._file_system.delete(path)
            self._file_system.delete(path.with_name(path.name + ".bak"))
        for directory in {path.parent for path in self._plan.state_files}:
            self._file_system.sync_directory(directory)

    def __repr__(self) -> str:
        return f"<_Repair of {str(self._layout.root)!r}>"
