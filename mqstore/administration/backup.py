"""Backup: a copy of a store that opens without damage, made beside its writer or by another process.

    1  derived     the points (recovery, names of queues, checkpoint), then queues, index files and keys,
                   which then have at least what the points say; and what else is in the directory
    2  the cut     the state files, and then the end of the log: a boundary of records. No offset in the
                   state files or in 1 is beyond it
    3  the log     its segments, oldest first; the last one up to the cut, zeros behind
    4  durable     all is synced; the mark of an unfinished backup is deleted
    5  opened      for writing and closed: what 1 lacks of the log is dispatched again
    6  named       the directory `TARGET.unfinished` is renamed to `TARGET`

What is in the copy after 4 is what a crash at the cut could have left, so 5 is a recovery like any other, and
a short one: it begins at the recovery point. All that was acknowledged before the call is there, in
SYNC_FLUSH what is durable, in ASYNC_FLUSH what is written. Neither `lock` nor `abort` is copied.

Retention goes on meanwhile. Derived files are copied first, so that they lack nothing of a segment that
is copied. When a segment is deleted before it was copied, step 2 is repeated and the segments copied before
it are dropped: otherwise a delayed message whose delivery is behind the cut would be missing.

A backup that is killed leaves `TARGET.unfinished` with the mark in it; no store opens there, and the next
backup to the same target deletes it. Every byte is copied, and no block is shared with the source (reflink,
hard link): the next write to a shared block of a file would need room that is not reserved, and a repair
of the source would change the copy.

Threads: any; several backups of one store may be made at a time.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mqstore.administration.unfinished_copy import (
    begin_copy,
    check_closed,
    end_copy,
    name_copy,
    refuse_taken,
    unfinished_layout,
)
from mqstore.store.errors import BackupFull, BackupRefused, StoreFull
from mqstore.store.files.file_names import row_entries
from mqstore.store.files.file_system import FileSystem, MappedRegion
from mqstore.store.files.file_tree import copy_data, delete_tree
from mqstore.store.foreign_error import raise_foreign, suppress_system_error
from mqstore.store.state.atomic_file import TEMPORARY_SUFFIX
from mqstore.store_layout import StoreLayout

__all__ = ["BackupProgress", "BackupReport", "Cut", "Source", "copy_store", "read_state_files"]

BackupProgress = Callable[[int, int], None]
"""Called with (bytes copied, bytes to copy, about)."""

_SYNCED_AT_ONCE = 256


class BackupReport(NamedTuple):
    """What a backup holds. Offsets are physical; `files` and `copied_bytes` count what was copied."""

    path: Path
    min_offset: int
    max_offset: int
    segments: int
    files: int
    copied_bytes: int


class Cut(NamedTuple):
    """Where the copied log ends, and the state files by their path, with no offset beyond it."""

    end_offset: int
    state_files: dict[Path, bytes]


class Source(NamedTuple):
    """What an open store does for its backup.

    path, segment_bytes: where the store lies, and how long its segments are.
    make_derived_durable: as far as this process may. cut: makes a cut. copy_keys: copies the
    key index into a new directory. open_once: opens a copy, which recovers it, and closes it; returns its
    least and greatest offset, and the number of its segments.
    """

    path: Path
    segment_bytes: int
    make_derived_durable: Callable[[], None]
    cut: Callable[[], Cut]
    copy_keys: Callable[[Path], None]
    open_once: Callable[[Path], tuple[int, int, int]]


def read_state_files(file_system: FileSystem, layout: StoreLayout) -> dict[Path, bytes]:
    """The state files, by their path within the store."""
    return _read_small_files(file_system, layout, layout.config)


def _read_small_files(file_system: FileSystem, layout: StoreLayout, directory: Path) -> dict[Path, bytes]:
    """The contents of a directory whose files are each replaced as a whole."""
    found = {}
    for entry in file_system.list(directory):
        if not entry.is_directory and not entry.name.endswith(TEMPORARY_SUFFIX):
            # A file that is being replaced still has its .bak.
            with suppress_system_error(FileNotFoundError):
                path = directory / entry.name
                found[path.relative_to(layout.root)] = file_system.read(path)
    return found


def copy_store(
    source: Source,
    target: Path,
    file_system: FileSystem,
    on_progress: BackupProgress | None,
) -> BackupReport:
    """Copy an open store; see the head of this file. Raises BackupRefused, BackupFull, StoreLocked."""
    target = target.absolute()
    if source.path.resolve() in (target.resolve(), *target.resolve().parents):
        raise BackupRefused(target, f"it lies in the store {source.path}")
    refuse_taken(file_system, target)
    unfinished = unfinished_layout(target)
    mark = begin_copy(file_system, unfinished)
    try:
        copy = _Copy(file_system, StoreLayout(source.path), unfinished, source.segment_bytes, on_progress)
        copy.run(source)
        end_copy(file_system, unfinished)
        report = _open_once(source, unfinished, file_system)
        name_copy(file_system, unfinished, target)
        return BackupReport(target, *report, copy.files, copy.copied_bytes)
    except StoreFull as full:
        delete_tree(file_system, unfinished.root)
        raise BackupFull(target, full.wanted_bytes, str(full)) from full
    except BaseException:
        with suppress(OSError):
            delete_tree(file_system, unfinished.root)
        raise
    finally:
        mark.release()


def _open_once(source: Source, unfinished: StoreLayout, file_system: FileSystem) -> tuple[int, int, int]:
    """Recover the copy and close it; its least and greatest offset, and its number of segments."""
    offsets = source.open_once(unfinished.root)
    check_closed(file_system, unfinished)
    return offsets


class _Copy:
    """Steps 1 to 4."""

    def __init__(
        self,
        file_system: FileSystem,
        source: StoreLayout,
        target: StoreLayout,
        segment_bytes: int,
        on_progress: BackupProgress | None,
    ) -> None:
        self.files = 0
        self.copied_bytes = 0
        self._file_system = file_system
        self._source = source
        self._target = target
        self._segment_bytes = segment_bytes
        self._on_progress = on_progress
        self._total_bytes = 0
        # How many bytes of each segment are in the copy, by its start.
        self._copied: dict[int, int] = {}
        self._unsynced: list[MappedRegion] = []
        # Those in which names are to be made durable.
        self._directories: set[Path] = {target.root}

    def run(self, store: Source) -> None:
        """All steps."""
        store.make_derived_durable()
        points = _read_small_files(self._file_system, self._source, self._source.own)
        with suppress_system_error(FileNotFoundError):
            points[Path("checkpoint")] = self._file_system.read(self._source.checkpoint)
        self._copy_directory(self._source.root, self._target.root)
        store.copy_keys(self._target.keys)
        self._make(self._target.commit_log)
        cut = self._copy_log(store.cut)
        self._sync()
        # The opening of the copy is one after a crash.
        self._write_small_files(points | cut.state_files | {Path("abort"): b"backup"})
        for directory in sorted(self._directories, reverse=True):
            self._file_system.sync_directory(directory)

    # -- the log ---------------------------------------------------------------------------------------

    def _copy_log(self, make_cut: Callable[[], Cut]) -> Cut:
        """Copy the segments, with a new cut whenever retention took one that was not copied."""
        while True:
            # Before the cut: no segment that the cut needs is missing in it.
            starts = self._starts()
            cut = make_cut()
            starts |= self._starts()
            self._total_bytes = cut.end_offset - min(starts, default=cut.end_offset)
            missing = next((start for start in sorted(starts) if not self._has(start, cut.end_offset)), None)
            if missing is None:
                return cut
            self._forget_to(missing)

    def _starts(self) -> set[int]:
        entries = row_entries(self._file_system, self._source.commit_log)
        return {int(entry.name) for entry in entries if entry.size_bytes}

    def _has(self, start: int, end_offset: int) -> bool:
        """Copy a segment up to the cut, unless that was done; False when retention deleted it first."""
        length_bytes = min(end_offset - start, self._segment_bytes)
        if self._copied.get(start, 0) >= length_bytes:
            return True
        path = self._source.commit_log / f"{start:020d}"
        if not self._copy_file(path, self._segment_bytes, length_bytes):
            return False
        self._copied[start] = length_bytes
        return True

    def _forget_to(self, start: int) -> None:
        """Delete the copies of a segment and of those before it: retention has deleted them from the log."""
        self._sync()
        for copied in sorted(self._copied):
            if copied <= start:
                self._file_system.delete(self._target.commit_log / f"{copied:020d}")
                del self._copied[copied]
        self._file_system.delete(self._target.commit_log / f"{start:020d}")

    # -- other files --------------------------------------------------------------------------------------

    def _write_small_files(self, contents: dict[Path, bytes]) -> None:
        for path, content in contents.items():
            target = self._target.root / path
            self._make(target.parent)
            self._file_system.write(target, content)
            self._file_system.sync(target)
            self.files += 1

    def _copy_directory(self, source: Path, target: Path) -> None:
        """Copy the files that neither the log's copy nor the small files include."""
        self._make(target)
        # The newest first: what retention takes meanwhile leaves no hole in a row.
        for entry in reversed(self._file_system.list(source)):
            path = source / entry.name
            if entry.is_directory:
                if path not in (self._source.commit_log, self._source.keys):
                    self._copy_directory(path, target / entry.name)
            elif source not in (self._source.config, self._source.own) and path not in (
                self._source.lock,
                self._source.abort,
                self._source.checkpoint,
            ):
                self._copy_file(path, entry.size_bytes, entry.size_bytes)

    # -- a file ----------------------------------------------------------------------------------------

    def _copy_file(self, path: Path, size_bytes: int, length_bytes: int) -> bool:
        """Copy the beginning of a file, zeros behind it; False when it is gone."""
        target = self._target.root / path.relative_to(self._source.root)
        try:
            region = copy_data(
                self._file_system, path, target, length_bytes, size_bytes=size_bytes, on_copied=self._count
            )
        except FileNotFoundError as error:
            raise_foreign(error)
            self._file_system.delete(target)
            return False
        self.files += 1
        if region is not None:
            self._unsynced.append(region)
            if len(self._unsynced) >= _SYNCED_AT_ONCE:
                self._sync()
        return True

    def _sync(self) -> None:
        regions, self._unsynced = self._unsynced, []
        self._file_system.sync_all(regions)

    def _make(self, directory: Path) -> None:
        self._file_system.make_directories(directory)
        self._directories.add(directory)

    def _count(self, copied_bytes: int) -> None:
        self.copied_bytes += copied_bytes
        if self._on_progress is not None:
            self._on_progress(min(self.copied_bytes, self._total_bytes), self._total_bytes)

    def __repr__(self) -> str:
        return f"_Copy(of {str(self._source.root)!r}, {self.files} files)"
