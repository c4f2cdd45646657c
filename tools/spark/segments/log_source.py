"""The log that a read reads: that of a store, of an archive, or of a store with its archive before it.

    a store                 segment files, and queues if it can be opened
    an archive              objects, known by their manifest
    a store and its archive segments that retention has deleted are read from the archive, and the files
                            that are there from the store: one log, no record twice, none missing

The files of the store are listed first and the manifest is read afterwards: what retention has deleted before
the list was made was confirmed before that, so the manifest has it. What it deletes later is found when it is
read (open_segment.py).
"""

import itertools
from dataclasses import dataclass, field, replace
from pathlib import Path

from mqstore.settings.store_identity_file import StoreIdentityFile
from mqstore.store.files.file_names import file_name
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store_layout import StoreLayout
from mqstore.tools.archive.archive_address import ArchiveAddress, is_archive_directory
from mqstore.tools.archive.archive_errors import ArchiveRefused
from mqstore.tools.archive.manifest import ArchivedSegment
from mqstore.tools.spark.options import ReadOptions, is_address
from mqstore.tools.spark.segments.open_segment import archived_file
from mqstore.tools.spark.segments.segment_files import SegmentFile, SegmentMissing, list_segments

__all__ = ["ListedLog", "LogSource", "source_of"]


@dataclass(frozen=True)
class LogSource:
    """path: of the store; None: there is an archive alone. archive: None: there is a store alone."""

    path: Path | None
    archive: ArchiveAddress | None = None

    @property
    def shown(self) -> str:
        """What the column `store` has."""
        if self.path is not None:
            return str(self.path)
        assert self.archive is not None
        return self.archive.place.shown

    def listed(self, options: ReadOptions, begin_offset: int | None = None) -> "ListedLog":
        """The log as it is now; what lies before `begin_offset`, if that is given, may be left out.

        Raises StoreNotFound, SegmentMissing, SegmentShort, FilesVanished, ArchiveRefused, ArchiveDamaged.
        """
        local = self._files(options, begin_offset)
        if self.archive is None:
            return ListedLog(local)
        archive = self.archive if self.path is None else replace(self.archive, store=_identity(self.path))
        if local and begin_offset is not None and begin_offset >= local[0].start_offset:
            return ListedLog([replace(each, archive=archive) for each in local])
        manifest = archive.manifest()
        archive = replace(archive, store=manifest.store)
        first = local[0].start_offset if local else None
        entries = [
            each
            for each in manifest.segments
            if (first is None or each.end_offset <= first)
            and (begin_offset is None or each.end_offset >= begin_offset)
        ]
        archived = [archived_file(archive, each) for each in entries]
        segments = archived + [replace(each, archive=archive) for each in local]
        if options.fail_on_data_loss:
            _refuse_gaps(segments)
        return ListedLog(segments, {each.start_offset: each for each in entries})

    def _files(self, options: ReadOptions, begin_offset: int | None) -> list[SegmentFile]:
        if self.path is None:
            return []
        return list_segments(
            self.path, fail_on_data_loss=options.fail_on_data_loss, begin_offset=begin_offset
        )


@dataclass(frozen=True)
class ListedLog:
    """Segments in their order. entries: of those that are read from the archive, by their first offset."""

    segments: list[SegmentFile]
    entries: dict[int, ArchivedSegment] = field(default_factory=dict)

    @property
    def local(self) -> list[SegmentFile]:
        """The segments of the store itself."""
        return [each for each in self.segments if each.start_offset not in self.entries]


def source_of(path: str, options: ReadOptions) -> LogSource:
    """path: of a store or of an archive, or the address of an archive."""
    if is_address(path) or is_archive_directory(Path(path)):
        return LogSource(None, ArchiveAddress(path, options.storage_options))
    archive = None
    if options.archive is not None:
        archive = ArchiveAddress(options.archive, options.storage_options)
    return LogSource(Path(path), archive)


def _identity(path: Path) -> str:
    identity = StoreIdentityFile(OsFileSystem(), StoreLayout(path).identity).load()
    if identity is None:
        raise ArchiveRefused(
            f"{path} has no mqstore/identity, by which its archive is known: leave option archive out",
            value=str(path),
        )
    return identity


def _refuse_gaps(segments: list[SegmentFile]) -> None:
    for one, following in itertools.pairwise(segments):
        if one.end_offset != following.start_offset:
            missing = Path(one.path).with_name(file_name(one.end_offset))
            raise SegmentMissing(missing, one.end_offset, following.start_offset)
