"""The restorer: makes a store's directory of an archive, one that mqstore and RocketMQ open.

    1  manifest    all entries, of one store; without a gap from the first offset that is wanted
    2  segments    each object as a file of the log, its size and CRC-32C as its entry says
    3  the end     one segment more, empty: the log goes on behind what is archived, and never in it
    4  small files topics, groups, settings, offsets (state_snapshots.py)
    5  opened      once, for writing, and closed: queues and keys are built from the log
    6  verified    as `mqstore verify` does; damage ends the restore
    7  named       the directory `DIR.unfinished` is renamed to `DIR`

A restore that is killed leaves `DIR.unfinished`, in which no store opens; the next one deletes it and begins
again. The store keeps its identity: it is the same log, and its archive goes on behind its end. Never
let the restored store and the old one both go on (store_archive.py refuses the second one).
The age of the files begins anew, for retention. Threads: one. Durability: all is durable on return.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqstore.administration.unfinished_copy import (
    begin_copy,
    check_closed,
    end_copy,
    name_copy,
    refuse_taken,
    unfinished_layout,
)
from mqstore.message_store import MessageStore
from mqstore.store.checksum.crc32c import crc32c
from mqstore.store.errors import BackupRefused
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_tree import delete_tree
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store_layout import StoreLayout, user_path
from mqstore.tools.archive.archive_errors import ArchiveDamaged, ArchiveRefused
from mqstore.tools.archive.archive_place import ArchivePlace
from mqstore.tools.archive.manifest import ArchivedSegment, Manifest
from mqstore.tools.archive.manifest_reader import load_manifest
from mqstore.tools.archive.state_snapshots import files_to_restore
from mqstore.verify import verify

if TYPE_CHECKING:
    import pyarrow.fs as pa_fs

__all__ = ["RestoreReport", "restore"]


@dataclass(frozen=True, kw_only=True)
class RestoreReport:
    """What was restored. Offsets are physical; messages are those of all queues."""

    path: Path
    store: str
    min_offset: int
    max_offset: int
    segments: int
    restored_bytes: int
    messages: int


def restore(
    url: str | Path,
    directory: str | Path,
    *,
    file_system: "pa_fs.FileSystem | None" = None,
    storage_options: Mapping[str, Any] | None = None,
    begin_offset: int = 0,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> RestoreReport:
    """Make a store in `directory` of the archive at `url`.

    url, file_system, storage_options: as for `archive`. directory: must not exist or be empty.
    begin_offset: leave out segments that end at or before this physical offset. on_progress: called with
    (bytes done, bytes to do); what it raises ends the restore, and nothing of it is left.

    Raises ArchiveRefused (no archive, a directory that is taken, no segment), ArchiveDamaged (a missing
    object, wrong bytes, a gap), StoreLocked (another restore to this directory), StoreFull, OSError.
    """
    place = ArchivePlace(url, file_system, storage_options)
    manifest = load_manifest(place)
    segments = _wanted(manifest, begin_offset)
    files, target = OsFileSystem(), user_path(directory).absolute()
    unfinished = unfinished_layout(target)
    try:
        refuse_taken(files, target)
        mark = begin_copy(files, unfinished)
    except BackupRefused as error:
        raise ArchiveRefused(f"nothing is restored to {error.path}: {error.reason}", value=target) from error
    try:
        _Restorer(place, manifest, unfinished, on_progress).run(segments)
        end_copy(files, unfinished)
        report = _open_once(unfinished, target, manifest, segments)
        check_closed(files, unfinished)
        _verify(unfinished)
        name_copy(files, unfinished, target)
        return report
    except BaseException:
        with suppress(OSError):
            delete_tree(files, unfinished.root)
        raise
    finally:
        mark.release()


def _wanted(manifest: Manifest, begin_offset: int) -> tuple[ArchivedSegment, ...]:
    """The segments from `begin_offset` on. Raises ArchiveRefused if there are none, ArchiveDamaged."""
    wanted = tuple(each for each in manifest.segments if each.end_offset > begin_offset)
    if not wanted:
        end = manifest.segments[-1].end_offset if manifest.segments else 0
        raise ArchiveRefused(
            f"{manifest.place} has no segment from physical offset {begin_offset} on; it ends at {end}",
            value=begin_offset,
        )
    gaps = manifest._replace(segments=wanted).gaps
    if gaps:
        raise ArchiveDamaged(
            manifest.place,
            "manifest",
            f"segments from {gaps[0][0]} to {gaps[0][1]}",
            "none",
            f"--begin-offset {gaps[-1][1]} (begin_offset) restores what is behind the last gap",
        )
    return wanted


class _Restorer:
    """Steps 2 to 4."""

    def __init__(
        self,
        place: ArchivePlace,
        manifest: Manifest,
        target: StoreLayout,
        on_progress: Callable[[int, int], object],
    ) -> None:
        self._place = place
        self._manifest = manifest
        self._target = target
        self._on_progress = on_progress
        self._files = OsFileSystem()
        self._done_bytes = 0
        self._total_bytes = 0

    def run(self, segments: tuple[ArchivedSegment, ...]) -> None:
        """All of them; what is written is durable on return."""
        self._total_bytes = len(segments) * self._manifest.segment_bytes
        self._files.make_directories(self._target.commit_log)
        for segment in segments:
            self._restore_segment(segment)
        end_offset = segments[-1].end_offset
        self._files.map(self._file(end_offset), self._manifest.segment_bytes, create=True).sync()
        # The opening of the copy is one after a crash: it walks over all of the log.
        small = files_to_restore(self._place, self._manifest.store, end_offset) | {Path("abort"): b"restore"}
        directories = {self._target.root, self._target.commit_log}
        for path, data in small.items():
            target = self._target.root / path
            self._files.make_directories(target.parent)
            self._files.write(target, data)
            self._files.sync(target)
            directories.add(target.parent)
        for directory in sorted(directories, reverse=True):
            self._files.sync_directory(directory)

    def _file(self, start_offset: int) -> Path:
        return self._target.commit_log / file_name(start_offset)

    def _restore_segment(self, segment: ArchivedSegment) -> None:
        region = self._files.map(self._file(segment.start_offset), segment.size_bytes, create=True)
        position, checksum = 0, 0
        try:
            for piece in self._place.read_pieces(segment.name):
                checksum = crc32c(piece, checksum)
                if position + len(piece) > segment.size_bytes:
                    raise self._damaged(segment, f"{segment.size_bytes} bytes", "more")
                if piece.count(0) < len(piece):
                    region.reserve(position, len(piece))
                    region.write(position, piece)
                position += len(piece)
                self._done_bytes += len(piece)
                self._on_progress(self._done_bytes, self._total_bytes)
        except FileNotFoundError as error:
            raise self._damaged(segment, "an object", "none") from error
        if (position, checksum) != (segment.size_bytes, segment.crc32c):
            expected = f"{segment.size_bytes} bytes of CRC-32C {segment.crc32c:08x}"
            raise self._damaged(segment, expected, f"{position} bytes of {checksum:08x}")
        region.sync()
        region.release_descriptor()

    def _damaged(self, segment: ArchivedSegment, expected: str, found: str) -> ArchiveDamaged:
        way_out = f"--begin-offset {segment.end_offset} (begin_offset) restores what is behind it"
        return ArchiveDamaged(self._place.shown, segment.name, expected, found, way_out)


def _open_once(
    unfinished: StoreLayout, target: Path, manifest: Manifest, segments: tuple[ArchivedSegment, ...]
) -> RestoreReport:
    """Build what is derived from the log, and say what there is."""
    with MessageStore.open(unfinished.root, start=False) as store:
        store.flush()
        return RestoreReport(
            path=target,
            store=manifest.store,
            min_offset=store.min_offset,
            max_offset=store.max_offset,
            segments=len(segments),
            restored_bytes=len(segments) * manifest.segment_bytes,
            messages=store.stats().messages,
        )


def _verify(unfinished: StoreLayout) -> None:
    damages = verify(unfinished.root).damages
    if damages:
        first = damages[0]
        raise ArchiveDamaged(
            str(unfinished.root),
            first.path.name,
            first.expected,
            first.found,
            f"the restored store has {len(damages)} such findings, so it was not kept",
        )
    # The check takes the writer's lock.
    OsFileSystem().delete(unfinished.lock)
