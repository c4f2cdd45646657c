"""A row of mapped files, each named by the 20-digit offset of its first byte in the row.

The commit log is one row, each consume queue another. Files are equally long and without gaps, so the
file of an offset is found by division.

It does not know what the bytes mean nor how far they are valid: its owner sets `wrote_position`.
Threads: one writer appends and deletes; one other thread may prepare the next file for it. Readers use
`files`, a tuple that is replaced as a whole; a file that is only prepared is not in it.
Durability: a new name is durable when `append_file` returns (in derived rows when `sync_names` does);
bytes after `sync` of their file.
"""

from pathlib import Path

from mqstore.store.errors import CorruptRecord, SegmentSizeMismatch
from mqstore.store.files.file_names import created_file_count, file_name, place_in_row, row_entries
from mqstore.store.files.file_system import FileEntry, FileSystem
from mqstore.store.files.mapped_file import MappedFile, MappedFileSettings
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.threads.lock import RLock

__all__ = ["MappedFileQueue"]


class MappedFileQueue:
    """The files of one directory, oldest first."""

    def __init__(self, file_system: FileSystem, directory: Path, settings: MappedFileSettings) -> None:
        self.directory = directory
        self.file_size_bytes = settings.file_size_bytes
        self.files: tuple[MappedFile, ...] = ()
        self._file_system = file_system
        self._settings = settings
        # Whether a file was added whose name may not be durable; only in derived rows.
        self._has_new_names = False
        # Held while `files` is read and replaced: the writer appends while retention deletes.
        self._files_lock = RLock()
        # Held while a file is created, added or taken off at the end. Taken before _files_lock. Re-entrant,
        # because a signal handler may append while its thread prepares. The next three: under it.
        self._growth_lock = RLock()
        # The file behind the last one, ready to be added: its name is durable.
        self._prepared: MappedFile | None = None
        # Whether a file behind the last one may be in the directory, ready or not.
        self._is_file_behind = False
        # Why its name could not be made durable. That is final: a later sync may hide the loss.
        self._preparation_error: OSError | None = None

    def load(self) -> None:
        """Find the files of the directory; may be called again to see what another process added.

        Files of length zero at the end are creations that a crash interrupted: they are removed (with
        read_only, ignored). Raises SegmentSizeMismatch for any other length, CorruptRecord for a gap; then
        nothing has been removed.
        """
        with self._files_lock:
            self._load()

    def _load(self) -> None:
        entries = row_entries(self._file_system, self.directory)
        count = self._created_count(entries)
        entries, interrupted = entries[:count], entries[count:]
        known = {mapped_file.path.name: mapped_file for mapped_file in self.files}
        files: list[MappedFile] = []
        for entry in entries:
            path = self.directory / entry.name
            if entry.size_bytes != self.file_size_bytes:
                key = self._settings.size_key
                raise SegmentSizeMismatch(path, self.file_size_bytes, entry.size_bytes, key)
            if files and int(entry.name) != files[-1].end_offset:
                raise CorruptRecord(path, 0, f"a file {file_name(files[-1].end_offset)} before it", "none")
            files.append(known.get(entry.name) or self._open(path))
        if not self._settings.read_only:
            for entry in reversed(interrupted):
                self._file_system.delete(self.directory / entry.name)
        self.files = tuple(files)

    def _created_count(self, entries: list[FileEntry]) -> int:
        """How many files belong to the row; the others are left from creations that a crash cut short."""
        if self._settings.is_derived_row and self._settings.after_crash:
            first = int(entries[0].name) if entries else 0
            for index, entry in enumerate(entries):
                if entry.size_bytes == 0 or int(entry.name) != first + index * self.file_size_bytes:
                    return index
        return created_file_count(entries)

    def _open(self, path: Path, *, create: bool = False) -> MappedFile:
        return MappedFile(self._file_system, path, self._settings, create=create)

    @property
    def min_offset(self) -> int:
        """Offset of the first byte of the first file; 0 when there is none."""
        files = self.files
        return files[0].start_offset if files else 0

    @property
    def end_offset(self) -> int:
        """Offset just behind the last file; 0 when there is none."""
        files = self.files
        return files[-1].end_offset if files else 0

    def file_for(self, offset: int) -> MappedFile | None:
        """The file that holds the byte at `offset`, or None."""
        files = self.files
        if not files:
            return None
        index = (offset - files[0].start_offset) // self.file_size_bytes
        return files[index] if 0 <= index < len(files) else None

    def place_of(self, offset: int) -> tuple[Path, int]:
        """The file that holds the byte at `offset`, and the position there; the file may be missing."""
        mapped_file = self.file_for(offset)
        if mapped_file is None:
            return place_in_row(self.directory, offset, self.file_size_bytes)
        return mapped_file.path, offset - mapped_file.start_offset

    def append_file(self, start_offset: int) -> MappedFile:
        """Add the file that begins at `start_offset`: full length, all zero, its name durable.

        If it was prepared, nothing is left to do on the disk.
        """
        assert start_offset % self.file_size_bytes == 0, start_offset
        with self._growth_lock:
            assert not self.files or start_offset == self.files[-1].end_offset, (start_offset, self.files[-1])
            if self._preparation_error is not None:
                raise self._preparation_error
            added = self._prepared
            if added is None or added.start_offset != start_offset:
                added = self._create(start_offset)
                self._sync_new_name()
            with self._files_lock:
                self.files = (*self.files, added)
            # After that: until now, an interrupt leaves it to be taken again, or to be deleted.
            self._is_file_behind, self._prepared = False, None
            return added

    def prepare_file(self, start_offset: int) -> MappedFile | None:
        """Do the work of `append_file` ahead: the file is there, its name durable, but not in the row yet.

        None if the row does not end at `start_offset` any more. Not for derived rows. A failure leaves the
        row as it was, and `append_file` tries itself. But if the name could not be made durable, that is
        final: `append_file` then raises the same OSError.
        """
        assert not self._settings.is_derived_row, self
        with self._growth_lock:
            if self._preparation_error is not None:
                raise self._preparation_error
            if not self.files or start_offset != self.end_offset:
                return None
            if self._prepared is not None and self._prepared.start_offset == start_offset:
                return self._prepared
            created = self._create(start_offset)
            try:
                self._sync_new_name()
            except OSError as error:
                raise_foreign(error)
                self._preparation_error = error
                raise
            if start_offset != self.end_offset:
                # A signal handler has appended it meanwhile.
                return None
            self._prepared = created
            return created

    def _create(self, start_offset: int) -> MappedFile:
        if not self.files:
            self._file_system.make_directories(self.directory, durable=not self._settings.is_derived_row)
        self._is_file_behind = True
        return self._open(self.directory / file_name(start_offset), create=True)

    def _sync_new_name(self) -> None:
        if self._settings.is_derived_row:
            self._has_new_names = True
        else:
            self._file_system.sync_directory(self.directory)

    def sync_names(self, already: set[Path]) -> None:
        """Make the names of new files durable, and those of the directories that hold them: queue and topic.

        The opening has made the name of the directory above those durable.
        already: directories that were synced after these names were made; they are skipped, and what is
        synced here is added.
        """
        if not self._has_new_names:
            return
        # Before the syncs: a file that is added meanwhile sets it again.
        self._has_new_names = False
        try:
            self._sync_directories(already)
        except BaseException:
            self._has_new_names = True
            raise

    def _sync_directories(self, already: set[Path]) -> None:
        for directory in (self.directory, self.directory.parent, self.directory.parent.parent):
            if directory not in already:
                self._file_system.sync_directory(directory)
                already.add(directory)

    def make_durable(self, from_offset: int, end_offset: int, *, again: bool, is_end: bool) -> None:
        """Sync what an earlier process may not have synced: bytes from `from_offset` on, and names.

        again: write them again before the sync, since a sync that failed may have marked their pages clean.
        is_end: the row ends at `end_offset`, so the zeros behind it are synced too; otherwise more follows.
        """
        for mapped_file in self.files:
            if mapped_file.end_offset > from_offset and (is_end or mapped_file.start_offset < end_offset):
                if again:
                    start = max(0, from_offset - mapped_file.start_offset)
                    mapped_file.write_again(
                        start, min(end_offset - mapped_file.start_offset, self.file_size_bytes)
                    )
                mapped_file.sync()
        if self.files:
            self._file_system.sync_directory(self.directory)

    def delete_first(self) -> None:
        """Remove the oldest file. Views of it stay valid."""
        with self._files_lock:
            first, *rest = self.files
            self.files = tuple(rest)
        self._file_system.delete(first.path)
        self._file_system.sync_directory(self.directory)

    def delete_from(self, start_offset: int) -> None:
        """Remove the files that begin at or after `start_offset`, the newest first; a prepared one, too."""
        with self._growth_lock:
            was_file_behind = self._is_file_behind
            if was_file_behind:
                self._file_system.delete(self.directory / file_name(self.end_offset))
                self._is_file_behind, self._prepared = False, None
            with self._files_lock:
                doomed = self._files_from(start_offset)
                self.files = self.files[: len(self.files) - len(doomed)]
            for mapped_file in reversed(doomed):
                self._file_system.delete(mapped_file.path)
            if doomed or was_file_behind:
                self._file_system.sync_directory(self.directory)

    def _files_from(self, start_offset: int) -> list[MappedFile]:
        return [mapped_file for mapped_file in self.files if mapped_file.start_offset >= start_offset]

    def release_descriptors(self) -> None:
        """Close the descriptors of all files until they are needed again."""
        prepared = self._prepared
        for mapped_file in (*self.files, *([] if prepared is None else [prepared])):
            mapped_file.release_descriptor()

    def destroy(self) -> None:
        """Remove all files, and the directory if nothing else is in it."""
        self.delete_from(0)
        if not self._file_system.list(self.directory):
            self._file_system.delete_directory(self.directory)

    def __repr__(self) -> str:
        return f"MappedFileQueue({str(self.directory)!r}, files={len(self.files)})"
