"""The list of index files in `index/`: which exist, how one is added, and how the newest are cut.

A file is named by its time of creation, local time, 17 digits; the order of the names is that of the log.
Cutting has two steps, so that a crash between them loses nothing: first in memory, which the owner then saves
as the point to continue from (index_point_file.py), then on disk (`make_disk_follow`).

It knows neither keys nor the log (index_file_key_index.py). Threads: its owner calls it under a lock.
Durability: a new name is durable before `append_file` returns.
"""

import datetime
import re
from pathlib import Path

from mqstore.index.index_file.index_file import IndexFile, IndexFileSize
from mqstore.index.index_file.index_file_format import ENTRY_BYTES, HEADER_BYTES, SLOT_BYTES
from mqstore.index.index_file.index_file_size import find_slot_count
from mqstore.index.index_file.index_point_format import NO_FILE, IndexPoint
from mqstore.store.errors import SegmentSizeMismatch
from mqstore.store.files.file_names import created_file_count, row_file_bytes
from mqstore.store.files.file_system import FileEntry, FileSystem

__all__ = ["IndexFileList", "file_name"]

# As in "open the directory with the ... that it was written with".
_SIZE_KEY = "length by max_hash_slot_num and max_index_num"
_NAME = re.compile(r"\d{17}")


def file_name(now_ms: int, last_name: int) -> str:
    """The name of a file that is created now, behind one whose name is `last_name`.

    If the clock stands still or steps back, it is the next number: names must ascend.

    >>> file_name(0, 20260101000000999)
    '20260101000001000'
    """
    local = datetime.datetime.fromtimestamp(now_ms // 1000).astimezone()
    name = int(local.strftime("%Y%m%d%H%M%S") + f"{now_ms % 1000:03d}")
    return f"{max(name, last_name + 1):017d}"


class IndexFileList:
    """The files of one directory, oldest first."""

    def __init__(
        self, file_system: FileSystem, directory: Path, size: IndexFileSize, *, read_only: bool
    ) -> None:
        """size: of new files; existing ones may have another (`load`)."""
        self.directory = directory
        self.files: list[IndexFile] = []
        self._file_system = file_system
        self.size = size
        self._read_only = read_only
        # For `make_disk_follow`: files to delete, and whether the last one was cut.
        self._dropped: list[Path] = []
        self._is_cut = False

    def load(self) -> None:
        """Find the files. Those of length zero at the end are dropped: a crash interrupted their creation.

        Existing files keep the size they were created with: a broker supports one size a directory.
        A single one whose length differs is damaged: it is dropped, with all behind it. Raises
        SegmentSizeMismatch if all have another length, and no size can be found in them.
        """
        entries = [entry for entry in self._file_system.list(self.directory) if self._is_index_file(entry)]
        count = created_file_count(entries)
        entries, interrupted = entries[:count], entries[count:]
        if not self._read_only:
            for entry in reversed(interrupted):
                self._file_system.delete(self.directory / entry.name)
        if entries and self.size.file_bytes not in [entry.size_bytes for entry in entries]:
            self.size = self._find_size(entries)
        fits = [entry.size_bytes == self.size.file_bytes for entry in entries]
        count = (*fits, False).index(False)
        self.files = [self._open(entry.name) for entry in entries[:count]]
        self._dropped = [self.directory / entry.name for entry in entries[count:]]

    def _find_size(self, entries: list[FileEntry]) -> IndexFileSize:
        """The size that most files have, from the first of them in which it can be found."""
        file_bytes = row_file_bytes(entries) or 0
        paths = [self.directory / entry.name for entry in entries if entry.size_bytes == file_bytes]
        for path in paths if file_bytes > HEADER_BYTES else ():
            slot_count = find_slot_count(self._file_system.map(path, file_bytes, read_only=True).view)
            if slot_count is not None:
                entry_bytes = file_bytes - HEADER_BYTES - SLOT_BYTES * slot_count
                return IndexFileSize(slot_count, entry_bytes // ENTRY_BYTES)
        raise SegmentSizeMismatch(paths[0], self.size.file_bytes, file_bytes, _SIZE_KEY)

    @staticmethod
    def _is_index_file(entry: FileEntry) -> bool:
        return not entry.is_directory and _NAME.fullmatch(entry.name) is not None

    def _open(self, name: str, *, create: bool = False) -> IndexFile:
        path = self.directory / name
        return IndexFile(self._file_system, path, self.size, read_only=self._read_only, create=create)

    @property
    def is_changed(self) -> bool:
        """Whether `make_disk_follow` has anything to do."""
        return bool(self._dropped) or self._is_cut

    @property
    def last(self) -> IndexFile | None:
        """The newest file."""
        return self.files[-1] if self.files else None

    def append_file(self, now_ms: int) -> IndexFile:
        """Add a file; it begins where the last one ends. Raises StoreFull; then nothing has changed."""
        self._file_system.make_directories(self.directory)
        last = self.last
        added = self._open(file_name(now_ms, last.name_number if last is not None else 0), create=True)
        self._file_system.sync_directory(self.directory)
        if last is not None:
            # RocketMQ does so too, and computes the first entry's time difference from it.
            end_ms, end_offset = last.header.end_timestamp_ms, last.header.end_physical_offset
            added.header = added.header._replace(
                begin_timestamp_ms=end_ms,
                end_timestamp_ms=end_ms,
                begin_physical_offset=end_offset,
                end_physical_offset=end_offset,
            )
        self.files.append(added)
        return added

    def delete_first(self) -> None:
        """Remove the oldest file, durably."""
        self._file_system.delete(self.files.pop(0).path)
        self._file_system.sync_directory(self.directory)

    # -- cutting --------------------------------------------------------------------------------------

    def agrees_with(self, point: IndexPoint, *, after_crash: bool) -> bool:
        """Whether the files still hold the entries up to the last one of the point.

        after_crash: the header on disk is ignored: it may be older or newer than the entries.
        """
        if point.file_name == NO_FILE:
            return True
        named = self._find(point)
        if named is None or not 1 < point.header.index_count <= self.size.entry_count:
            return False
        if not after_crash and named.index_count < point.header.index_count:
            return False
        return named.offset_of(point.header.index_count - 1) == point.header.end_physical_offset

    def _find(self, point: IndexPoint) -> IndexFile | None:
        return next((file for file in self.files if file.name_number == point.file_name), None)

    def cut_to_point(self, point: IndexPoint) -> None:
        """Go back to the state of a point that `agrees_with` the files."""
        named = self._find(point)
        if named is None:
            self.keep(0)
            return
        self.keep(self.files.index(named) + 1)
        named.forget_from(point.header)
        self._is_cut = True

    def keep(self, count: int) -> None:
        """Drop all files but the first `count`."""
        self._dropped += [file.path for file in self.files[count:]]
        del self.files[count:]

    def drop_newer_than(self, store_timestamp: int) -> None:
        """Drop the files that end later, and all behind them: RocketMQ's rule after an unclean stop."""
        ends = [file.header.end_timestamp_ms for file in self.files]
        self.keep(next((at for at, end in enumerate(ends) if end > store_timestamp), len(ends)))

    def drop_damaged(self) -> None:
        """Drop the first file whose header does not fit its entries, and all behind it; and empty ones."""
        self.keep(next((at for at, file in enumerate(self.files) if not file.is_sound), len(self.files)))

    def cut(self, physical_offset: int, end_timestamp_ms: int) -> None:
        """Drop the entries of all records at or above `physical_offset`.

        end_timestamp_ms: store time of the last record below that has a key; -1 when it is not known.
        """
        while self.files and (self.files[-1].is_empty or self.files[-1].offset_of(1) >= physical_offset):
            self.keep(len(self.files) - 1)
        last = self.last
        if last is None or last.header.end_physical_offset < physical_offset:
            return
        count = last.count_below(physical_offset)
        if end_timestamp_ms < 0:
            end_timestamp_ms = max(last.floor_timestamp_of(count - 1), last.header.begin_timestamp_ms)
        last.forget_from(
            last.header._replace(
                index_count=count,
                end_physical_offset=last.offset_of(count - 1),
                end_timestamp_ms=end_timestamp_ms,
            )
        )
        self._is_cut = True

    def last_offset_below(self, physical_offset: int) -> int:
        """Offset of the last record below `physical_offset` that has an entry; -1 when there is none."""
        for file in reversed(self.files):
            count = file.count_below(physical_offset)
            if count > 1:
                return file.offset_of(count - 1)
        return -1

    def make_disk_follow(self) -> None:
        """Do on disk, durably, what was dropped and cut in memory; the newest file first."""
        for path in sorted(self._dropped, reverse=True):
            self._file_system.delete(path)
        if self._dropped:
            self._file_system.sync_directory(self.directory)
        if self._is_cut and self.last is not None:
            self.last.erase_rest()
        self._dropped, self._is_cut = [], False

    def destroy(self) -> None:
        """Remove all files, and the directory if nothing else is in it."""
        self.keep(0)
        self.make_disk_follow()
        if not self._file_system.list(self.directory):
            self._file_system.delete_directory(self.directory)

    def __repr__(self) -> str:
        return f"IndexFileList({str(self.directory)!r}, files={len(self.files)})"
