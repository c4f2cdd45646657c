"""The archiver: copies the sealed segments of a store to an archive, beside the writer, and confirms them.

    1  root        whose archive it is; that of another store is refused
    2  the same    the newest segment that is archived and still on disk has the same bytes in both
    3  state       the small files of the store
    4  segments    two at a time, each: checked record by record and sent, piece by piece; made durable and
                   read back (segment_upload.py); then its manifest entry, oldest first
    5  confirmed   up to where entries and objects are there without a gap; for retention, where it waits

After a crash at any point each entry names an object that was read back whole. What has no entry yet is done
by the next run; an object that was complete is taken, not sent again. An object is read back rather than
only its size compared, because retention deletes what the manifest confirms, and no checksum of a store of
objects is known to all file systems.

Several archivers at once: in one directory there is one, by a lock (ArchiverAtWork for the other). Copies of
a directory on several machines are the same store and may be archived to one place as long as they are equal.
Their archivers never write to the same object. An entry is replaced only by one that is as good: whose object
was read back too. So the manifest is whole at every moment, whoever wins; the loser's object may stay behind
unnamed (`sweep`). If the copies differ, step 2 refuses the second one.

Changes nothing in the store but `mqstore/archive-lock`, and `mqstore/archived` with `guard`.
Threads: any, one a directory. Durability: what is confirmed is in the archive when this returns, as the place
promises it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from mqstore.message_store import MessageStore
from mqstore.settings.archived_file import Archived, ArchivedFile
from mqstore.settings.store_identity_file import StoreIdentityFile
from mqstore.store.errors import CorruptRecord, StoreError, StoreLocked
from mqstore.store.files.file_names import file_name
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store_layout import StoreLayout
from mqstore.tools.archive.archive_errors import ArchiveDamaged, ArchiverAtWork, ArchiveRefused
from mqstore.tools.archive.archive_place import ArchivePlace
from mqstore.tools.archive.manifest import (
    ENTRY_VERSION,
    MANIFEST_FOLDER,
    SEGMENT_FOLDER,
    ArchivedSegment,
    ArchiveRoot,
    encode_signed,
    entry_name,
    offset_of,
    root_name,
    segment_offset,
)
from mqstore.tools.archive.manifest_reader import load_each, load_object, load_root, roots_of
from mqstore.tools.archive.segments.sealed_segments import pieces_of, sealed_starts, size_and_crc32c
from mqstore.tools.archive.segments.segment_upload import SegmentUpload
from mqstore.tools.archive.state_snapshots import delete_old_snapshots, save_snapshot

if TYPE_CHECKING:
    import pyarrow.fs as pa_fs

__all__ = ["ArchiveReport", "archive"]

_AT_ONCE = 2
"""Segments under way: while one is made durable and read back, the next one is checked and sent."""


@dataclass(frozen=True, kw_only=True)
class ArchiveReport:
    """What was archived. Offsets are physical.

    archived_segments, archived_bytes: by this run. segments: that the archive has now. end_offset: the log
    is confirmed up to here, from its first segment on disk on. gaps: ranges that were deleted before
    they were archived. missing: first offsets of segments whose object is gone, though an entry names it.
    unnamed_objects: that no entry names, of uploads that were broken off. is_guarded: retention waits for
    this archive.
    """

    place: str
    store: str
    archived_segments: int
    archived_bytes: int
    segments: int
    end_offset: int
    gaps: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]
    unnamed_objects: int
    is_guarded: bool


def archive(
    store: MessageStore,
    url: str | Path,
    *,
    file_system: "pa_fs.FileSystem | None" = None,
    storage_options: Mapping[str, Any] | None = None,
    guard: bool | None = None,
    sweep: bool = False,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> ArchiveReport:
    """Copy the sealed segments of an open store to the archive at `url`, as far as they are not there.

    url: an address that pyarrow knows (s3://bucket/prefix, gs://..., hdfs://..., a directory), or with
    `file_system` the path within it. storage_options: arguments of pyarrow's file system, such as access_key
    and endpoint_override of S3. guard: True lets retention delete only what this archive has
    confirmed, for every program that opens the directory; False ends that; None leaves it as it is.
    sweep: delete objects that no entry names; only when no other archiver is at work. on_progress: called
    in this thread with (bytes done, bytes to do); what it raises ends the run, and the next one goes on.

    Raises ArchiveRefused, ArchiverAtWork, ArchiveDamaged (an object did not come back as it was sent),
    CorruptRecord (what comes before it is archived), OSError.

    >>> from mqstore import StoreConfig
    >>> small = StoreConfig(mapped_file_size_commit_log=131_072, max_message_size=60_000)
    >>> with MessageStore.open("orders", small) as store:
    ...     puts = [store.put("orders", b"x" * 50_000) for _ in range(3)]
    ...     store.flush()
    ...     archive(store, "orders-archive").archived_segments
    1
    """
    layout = StoreLayout(store.path)
    if store.recovery.damage is not None:
        # The log ends before it: segments would be missing, and nothing would say so.
        raise store.recovery.damage
    identity = StoreIdentityFile(OsFileSystem(), layout.identity).load()
    if identity is None:
        raise ArchiveRefused(
            f"{store.path} has no mqstore/identity, by which an archive knows its store: open it once for "
            "writing with mqstore, which makes one",
            value=str(store.path),
        )
    place = ArchivePlace(url, file_system, storage_options)
    directory = place.directory
    if directory is not None and layout.root.resolve() in (directory.resolve(), *directory.resolve().parents):
        raise ArchiveRefused(f"{place.shown} lies in the store {layout.root}", value=place.shown)
    with _locked(layout, must=guard is not None):
        return _Archiver(store, identity, place, on_progress).run(guard=guard, sweep=sweep)


@contextmanager
def _locked(layout: StoreLayout, *, must: bool) -> Iterator[None]:
    """Be the one archiver of the directory. One that cannot be written to has no lock, unless it `must`."""
    lock = None
    try:
        lock = OsFileSystem().lock(layout.archive_lock)
    except StoreLocked as error:
        raise ArchiverAtWork(layout.root, error.holder_pid) from error
    except OSError as error:
        if must:
            raise
        _ = error
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


class _Archiver:
    """The steps of one run."""

    def __init__(
        self,
        store: MessageStore,
        identity: str,
        place: ArchivePlace,
        on_progress: Callable[[int, int], object],
    ) -> None:
        self._store = store
        self._identity = identity
        self._place = place
        self._noted = _Noted(on_progress)
        self._segment_bytes = store.config.mapped_file_size_commit_log
        self._archived = 0

    def run(self, *, guard: bool | None, sweep: bool) -> ArchiveReport:
        """All steps."""
        self._store.refresh()
        self._take_root()
        on_disk, listing = sealed_starts(self._store), self._list()
        entries = self._confirmed_entries(on_disk, listing)
        self._refuse_other_bytes(entries)
        save_snapshot(self._store, self._identity, self._place)
        wanted = [start for start in on_disk if start not in entries]
        self._noted.total_bytes = len(wanted) * self._segment_bytes
        self._archive_segments(wanted, self._left_over(wanted, listing))
        return self._confirm(guard=guard, sweep=sweep)

    # -- steps 1 and 2 ----------------------------------------------------------------------------------

    def _take_root(self) -> None:
        """Make the root of a new archive, or see that it is that of this store. Raises ArchiveRefused."""
        root = load_root(self._place)
        if root is None:
            content = ArchiveRoot(store=self._identity, segment_bytes=self._segment_bytes)
            self._place.write(root_name(self._identity), [encode_signed(content)])
            if len(roots_of(self._place.list())) > 1:
                # Another store began here at this moment; whoever sees both withdraws.
                self._place.delete(root_name(self._identity))
                load_root(self._place)
                raise ArchiveRefused(
                    f"{self._place.shown} is taken by another store at this moment: give another place",
                    value=self._place.shown,
                )
        elif (root.store, root.segment_bytes) != (self._identity, self._segment_bytes):
            raise ArchiveRefused(
                f"{self._place.shown} is the archive of store {root.store} with segments of "
                f"{root.segment_bytes} bytes, and {self._store.path} is store {self._identity} with segments "
                f"of {self._segment_bytes}: give each store a place of its own",
                value=self._place.shown,
            )

    def _list(self) -> "_Listing":
        # Entries first: the objects that they name were there before them.
        names = self._place.list(MANIFEST_FOLDER)
        starts = sorted(offset for name in names if (offset := offset_of(name)) is not None)
        return _Listing(starts, self._place.list(SEGMENT_FOLDER))

    def _confirmed_entries(self, starts: list[int], listing: "_Listing") -> dict[int, ArchivedSegment]:
        """The good entries among those of these segments: they can be read, and their objects are there."""
        listed, sizes = set(listing.starts), listing.objects
        present = [start for start in starts if start in listed]
        return {
            start: entry
            for start, entry in zip(present, load_each(self._entry, present), strict=True)
            if entry is not None
            and sizes.get(entry.name.removeprefix(f"{SEGMENT_FOLDER}/")) == entry.size_bytes
        }

    def _entry(self, start: int) -> ArchivedSegment | None:
        """The entry of a segment; None if there is none of this store that can be read."""
        try:
            entry = load_object(self._place, entry_name(start), ArchivedSegment)
        except ArchiveDamaged:
            return None
        expected = (self._identity, start, start + self._segment_bytes, self._segment_bytes)
        found = (entry.store, entry.start_offset, entry.end_offset, entry.size_bytes)
        return entry if found == expected else None

    def _refuse_other_bytes(self, entries: dict[int, ArchivedSegment]) -> None:
        """Two copies of a store that went on by themselves differ from some segment on to the last."""
        if not entries:
            return
        newest = entries[max(entries)]
        try:
            _, checksum = size_and_crc32c(pieces_of(self._store, newest.start_offset))
        except FileNotFoundError:
            return
        if checksum != newest.crc32c:
            raise ArchiveRefused(
                f"segment {file_name(newest.start_offset)} of {self._store.path} is not the one that is "
                f"archived in {self._place.shown}: CRC-32C {checksum:08x}, archived {newest.crc32c:08x}. It "
                "is another copy of the same store, which went on by itself: give it a place of its own",
                value=self._place.shown,
            )

    # -- step 4 -----------------------------------------------------------------------------------------

    def _archive_segments(self, starts: list[int], left_over: dict[int, list[str]]) -> None:
        """Two are under way at a time; their entries are written oldest first."""
        uploads: deque[SegmentUpload] = deque()
        try:
            for start in starts:
                if len(uploads) == _AT_ONCE:
                    self._enter_oldest(uploads)
                uploads.append(
                    SegmentUpload(
                        self._store,
                        self._place,
                        start,
                        left_over[start],
                        on_bytes=self._noted.note_bytes,
                        on_end=self._noted.note_end,
                    )
                )
            while uploads:
                self._enter_oldest(uploads)
        except BaseException as error:
            self._end(uploads, error)
            raise

    def _left_over(self, starts: list[int], listing: "_Listing") -> dict[int, list[str]]:
        """By segment the complete objects that archivers before have sent and not entered."""
        found: dict[int, list[str]] = {start: [] for start in starts}
        for name, size_bytes in listing.objects.items():
            start = segment_offset(name)
            if start in found and size_bytes == self._segment_bytes:
                found[start].append(f"{SEGMENT_FOLDER}/{name}")
        return found

    def _enter_oldest(self, uploads: "deque[SegmentUpload]") -> None:
        self._noted.report_until_end_of(uploads[0])
        upload = uploads.popleft()
        try:
            self._enter(upload)
        except FileNotFoundError:
            # Retention was quicker, or else it is the archive's object that is gone.
            if upload.start_offset in sealed_starts(self._store):
                raise

    def _end(self, uploads: "deque[SegmentUpload]", error: BaseException) -> None:
        """End the uploads that are under way when the run fails.

        Nothing is confirmed behind damage, nor in a place that is not to be trusted. Else what is complete
        is entered; when the place fails, or retention, each may come to its end before.
        """
        if not isinstance(error, OSError):
            self._noted.break_off()
        for upload in uploads:
            if isinstance(error, CorruptRecord | ArchiveDamaged):
                upload.forget()
            else:
                with suppress(StoreError, OSError, _BrokenOff):
                    self._enter(upload)

    def _enter(self, upload: SegmentUpload) -> None:
        """Write the entry of a segment, once its object is back as it was sent. Raises as `result` does."""
        content, start = upload.result(), upload.start_offset
        entry = ArchivedSegment(
            version=ENTRY_VERSION,
            store=self._identity,
            start_offset=start,
            end_offset=start + self._segment_bytes,
            name=upload.name,
            size_bytes=self._segment_bytes,
            crc32c=upload.crc32c,
            records=content.records,
            min_store_timestamp=content.min_store_timestamp,
            max_store_timestamp=content.max_store_timestamp,
            topics=content.topics,
            parts=content.parts,
        )
        if roots_of(self._place.list()) != [self._identity]:
            load_root(self._place)
            raise ArchiveRefused(f"{self._place.shown}: the archive's root is gone", value=self._place.shown)
        self._place.write(entry_name(start), [encode_signed(entry)])
        self._archived += 1

    # -- step 5 -----------------------------------------------------------------------------------------

    def _confirm(self, *, guard: bool | None, sweep: bool) -> ArchiveReport:
        on_disk, listing = sealed_starts(self._store), self._list()
        entries = self._confirmed_entries(on_disk, listing)
        # Where the log begins nothing is to be archived yet.
        end_offset = on_disk[0] if on_disk else self._store.min_offset
        while end_offset in entries:
            end_offset = entries[end_offset].end_offset
        delete_old_snapshots(self._place, end_offset)
        return ArchiveReport(
            place=self._place.shown,
            store=self._identity,
            archived_segments=self._archived,
            archived_bytes=self._archived * self._segment_bytes,
            segments=len(listing.starts),
            end_offset=end_offset,
            gaps=self._gaps(listing.starts),
            missing=self._missing(listing),
            # A sweep lists again: since the listing another archiver may have written an entry.
            unnamed_objects=self._unnamed(self._list() if sweep else listing, sweep=sweep),
            is_guarded=self._guard(end_offset, guard),
        )

    def _gaps(self, starts: list[int]) -> tuple[tuple[int, int], ...]:
        ends = [start + self._segment_bytes for start in starts]
        begins = [*starts[1:], max(self._store.min_offset, ends[-1])] if starts else []
        return tuple((end, begin) for end, begin in zip(ends, begins, strict=True) if end < begin)

    def _missing(self, listing: "_Listing") -> tuple[int, ...]:
        sizes = listing.objects.items()
        whole = {segment_offset(name) for name, size_bytes in sizes if size_bytes == self._segment_bytes}
        return tuple(start for start in listing.starts if start not in whole)

    def _unnamed(self, listing: "_Listing", *, sweep: bool) -> int:
        """How many objects no entry names; those of a segment whose entry cannot be read count as named."""
        count, starts = 0, set(listing.starts)
        by_segment: dict[int, list[str]] = {}
        for name in listing.objects:
            if (start := segment_offset(name)) is not None:
                by_segment.setdefault(start, []).append(f"{SEGMENT_FOLDER}/{name}")
        for start, names in by_segment.items():
            if start in starts and len(names) == 1:
                continue
            entry = self._entry(start) if start in starts else None
            if start in starts and entry is None:
                continue
            for name in names:
                if entry is None or name != entry.name:
                    count += 1
                    if sweep:
                        self._place.delete(name)
        return 0 if sweep else count

    def _guard(self, end_offset: int, guard: bool | None) -> bool:
        """Say to retention what is confirmed, where it is to wait for this archive."""
        file = ArchivedFile(OsFileSystem(), StoreLayout(self._store.path).archived)
        known = file.load()
        if guard is False:
            if known is not None:
                file.delete()
            return False
        if guard is None and (known is None or known.place != self._place.shown):
            return False
        file.save(Archived(end_offset, self._place.shown))
        return True


class _Listing(NamedTuple):
    """What an archive has. starts: the first offsets of its entries, ascending. objects: sizes by name."""

    starts: list[int]
    objects: dict[str, int]


class _BrokenOff(Exception):
    """The run ends, and with it the uploads that are under way."""


class _Noted:
    """What uploads note in their threads. It is reported to the caller in the caller's own."""

    def __init__(self, on_progress: Callable[[int, int], object]) -> None:
        self.total_bytes = 0
        self._on_progress = on_progress
        self._done_bytes = 0
        self._ended: set[SegmentUpload] = set()
        self._events: SimpleQueue[int | SegmentUpload] = SimpleQueue()
        self._is_broken_off = False

    def note_bytes(self, size_bytes: int) -> None:
        """So many bytes went. Raises _BrokenOff."""
        if self._is_broken_off:
            raise _BrokenOff
        self._events.put(size_bytes)

    def note_end(self, upload: SegmentUpload) -> None:
        """The upload is over."""
        self._events.put(upload)

    def report_until_end_of(self, upload: SegmentUpload) -> None:
        """Wait until it is over. Raises what `on_progress` does."""
        while upload not in self._ended:
            event = self._events.get()
            if isinstance(event, SegmentUpload):
                self._ended.add(event)
            else:
                self._done_bytes += event
                self._on_progress(self._done_bytes, self.total_bytes)
        self._ended.remove(upload)

    def break_off(self) -> None:
        """Uploads end at the next piece."""
        self._is_broken_off = True
