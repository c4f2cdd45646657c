"""One index file of RocketMQ: a hash table of fixed size from keys to physical offsets, which fills up.

Bytes: index_file_format.py. Entries are appended, but each also changes one slot anywhere in 20 MB. So while
a file is filled, its slots are in memory; the kernel inserts into that copy, and into a buffer of entries
that is then copied into the mapping. `write_back` writes the slots that changed, and the header. Until then
the file on disk is the hash table as it was, with unused entries behind it.

It does not decide about keys, file names, or when to write back (index_file_key_index.py). Room on the disk
is reserved in windows for entries, and for slots where some are written back, so a few keys do not take
20 MB. A full disk is StoreFull before a mapped page is written.
Threads: one writer, which its owner chooses. A reader may walk from an entry number that the writer gave it
(`first_entry`) without a lock: entries do not change.
Durability: of what was written back before `sync` returned. Rebuilt from the commit log by
index_file_key_index.py.
"""

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.index.index_file.index_file_format import (
    ENTRY_BYTES,
    GROUP_SHIFT,
    HEADER_BYTES,
    NO_ENTRY,
    SLOT_BYTES,
    IndexHeader,
    decode_entry,
    decode_header,
    decode_slot,
    encode_header,
    entries_of,
    entry_position,
    file_size_bytes,
    slot_of,
)
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.mapped_file import MappedFile, MappedFileSettings

__all__ = ["IndexFile", "IndexFileSize", "Rows"]

Rows = npt.NDArray[np.int64]
"""int64[n, 3]: hash, store time in epoch ms, physical offset, in the order of the log."""

_RESERVE_WINDOW_BYTES: Final = 1 << 20
_GROUP_BYTES: Final = SLOT_BYTES << GROUP_SHIFT
# Once one group of slots in this many was written, room for all of them is reserved at once.
_SCATTERED_GROUPS: Final = 16
# The field is clamped to 0 and to this: the true difference may be less than 0, or more than this.
_GREATEST_DIFFERENCE_S: Final = 2**31 - 1


class IndexFileSize(NamedTuple):
    """How large the files of a directory are: RocketMQ's maxHashSlotNum and maxIndexNum."""

    slot_count: int
    entry_count: int
    """Includes entry 0, which is never used."""

    @property
    def file_bytes(self) -> int:
        """Length of a file."""
        return file_size_bytes(self.slot_count, self.entry_count)


class IndexFile:
    """An index file, mapped. `header` is ahead of the one on disk until `write_back`."""

    def __init__(
        self,
        file_system: FileSystem,
        path: Path,
        size: IndexFileSize,
        *,
        read_only: bool,
        create: bool = False,
    ) -> None:
        """Map a file of the right length, or create one. Raises StoreFull; then there is no new file."""
        self.path = path
        self._size = size
        self._file = MappedFile(
            file_system,
            path,
            MappedFileSettings(
                file_size_bytes=size.file_bytes,
                reserve_window_bytes=_RESERVE_WINDOW_BYTES,
                read_only=read_only,
            ),
            create=create,
        )
        # Entries are reserved from here on.
        self._file.wrote_position = self._position_of(0)
        if create:
            try:
                self._file.region.reserve(0, HEADER_BYTES)
                self._file.reserve(self._position_of(2))
            except BaseException:
                file_system.delete(path)
                raise
        header = decode_header(self._file.view)
        # A damaged count must not grow beyond 32 bits; nothing is decided by it.
        used_slots = max(0, min(header.hash_slot_count, size.slot_count))
        self.header = header._replace(hash_slot_count=used_slots)
        # The slots as they will be on disk, and which groups of them differ from it. None until they are
        # needed for writing; until then the mapped ones are right.
        self._slots: npt.NDArray[np.uint8] | None = None
        self._touched = np.zeros(0, np.uint8)
        # Groups of slots for which the disk has room; at first none is known to have it.
        self._reserved = np.zeros(-(-size.slot_count >> GROUP_SHIFT), np.bool_)

    def _position_of(self, entry_number: int) -> int:
        return entry_position(entry_number, self._size.slot_count)

    @property
    def name_number(self) -> int:
        """The file's name as a number: when it was created, in local time."""
        return self._file.start_offset

    @property
    def index_count(self) -> int:
        """Number of the entry that comes next; entries 1 to index_count - 1 are there."""
        return self.header.index_count

    @property
    def is_empty(self) -> bool:
        """Whether no entry was inserted yet."""
        return self.header.index_count <= 1

    @property
    def is_sound(self) -> bool:
        """Whether there are entries, and the last of them is the header's."""
        count = self.header.index_count
        if not 1 < count <= self._size.entry_count:
            return False
        return self.offset_of(count - 1) == self.header.end_physical_offset

    @property
    def is_full(self) -> bool:
        """Whether no entry fits any more."""
        return self.header.index_count >= self._size.entry_count

    def count_below(self, physical_offset: int) -> int:
        """What index_count was before the first entry of a record at or above `physical_offset`."""
        offsets = entries_of(self._file.view, *self._size)["physical_offset"]
        return bisect_left(offsets, physical_offset, 1, self.header.index_count)

    def offset_of(self, entry_number: int) -> int:
        """Physical offset of the record of an entry."""
        return decode_entry(self._file.view, self._position_of(entry_number)).physical_offset

    def hashes_of(self, physical_offset: int) -> list[int]:
        """Hashes of the entries of one record, in the order in which they were inserted."""
        first, stop = self.count_below(physical_offset), self.count_below(physical_offset + 1)
        codes = entries_of(self._file.view, *self._size)["key_hash"]
        hashes: list[int] = codes[first:stop].tolist()
        return hashes

    def floor_timestamp_of(self, entry_number: int) -> int:
        """A lower bound of the store time of an entry's record, epoch ms, at most 999 ms below; -1: unknown.

        The first entry's time is relative to the file before. A difference of 0 may mean a negative one.
        """
        difference_s = decode_entry(self._file.view, self._position_of(entry_number)).time_difference_s
        if entry_number == 1 or not 0 < difference_s < _GREATEST_DIFFERENCE_S:
            return -1
        return self.header.begin_timestamp_ms + 1000 * difference_s

    # -- inserting ------------------------------------------------------------------------------------

    def put(self, rows: Rows) -> int:
        """Insert as many of `rows` as fit; returns how many. Raises StoreFull; then none was."""
        from mqstore.index.index_file import index_file_kernels

        number = self.header.index_count
        rows = rows[: self._size.entry_count - number]
        self._file.reserve(self._position_of(number + len(rows)))
        self._load_slots()
        header = np.array(self.header, np.int64)
        entries = np.empty(ENTRY_BYTES * len(rows), np.uint8)
        try:
            index_file_kernels.insert_index_entries(rows, header, self._slots, self._touched, entries)
            self._file.write(self._position_of(number), entries.data)
            self.header = IndexHeader(*header.tolist())
        except BaseException:
            # Ctrl-C between these: the slots may name entries that the header does not count.
            self.forget_from(self.header)
            raise
        return len(rows)

    def _load_slots(self) -> None:
        if self._slots is None:
            # Copying would touch each page of a new file.
            mapped = self._mapped_slots()
            self._slots = np.zeros_like(mapped) if self.is_empty else mapped.copy()
            self._touched = np.zeros(len(self._reserved), np.uint8)

    def _mapped_slots(self) -> npt.NDArray[np.uint8]:
        return self._file.array[HEADER_BYTES : HEADER_BYTES + SLOT_BYTES * self._size.slot_count]

    def write_back(self) -> None:
        """Bring slots and header on disk up to date with the entries. Raises StoreFull; then neither is."""
        self._reserve_touched()
        self._write_touched()
        self._write_header(self.header)

    def write_slots(self) -> None:
        """Make entries and slots durable, under a header that still ends where it did. Raises StoreFull.

        After a kill or a power cut between any two steps, a broker finds all earlier entries, and inserts
        those behind that end again. `write_header` follows.
        """
        self._reserve_touched()
        ended = decode_header(self._file.view)
        ended_at = (ended.end_timestamp_ms, ended.end_physical_offset)
        if ended.index_count <= 1:
            ended_at = (self.header.begin_timestamp_ms, self.header.begin_physical_offset)
        # The count first: a slot that names an entry beyond it counts as empty.
        self._write_header(
            self.header._replace(end_timestamp_ms=ended_at[0], end_physical_offset=ended_at[1])
        )
        self.sync()
        self._write_touched()
        self.sync()

    def write_header(self) -> None:
        """Write the header with the last entry, durably; entries and slots are durable already."""
        self._write_header(self.header)
        self.sync()

    def _write_header(self, header: IndexHeader) -> None:
        self._file.region.write(0, encode_header(header))

    def _write_touched(self) -> None:
        for start, stop in self._ranges_of(self._touched):
            assert self._slots is not None
            self._file.region.write(HEADER_BYTES + start, self._slots[start:stop].data)
        self._touched[:] = 0

    def _reserve_touched(self) -> None:
        """Make sure that the disk has room for the slots that were touched."""
        if not self._touched.any():
            return
        wanted = self._reserved | (self._touched != 0)
        if np.count_nonzero(wanted) > len(wanted) // _SCATTERED_GROUPS:
            wanted[:] = True
        for start, stop in self._ranges_of(wanted & ~self._reserved):
            self._file.region.reserve(HEADER_BYTES + start, stop - start)
        self._reserved = wanted

    def _ranges_of(self, marked: npt.NDArray[np.uint8] | npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
        """Bytes of the slots whose groups are marked, as (start, stop)."""
        groups = np.flatnonzero(marked)
        if not len(groups):
            return
        slot_bytes = SLOT_BYTES * self._size.slot_count
        for run in np.split(groups, np.flatnonzero(np.diff(groups) > 1) + 1):
            yield int(run[0]) * _GROUP_BYTES, min((int(run[-1]) + 1) * _GROUP_BYTES, slot_bytes)

    def sync(self) -> None:
        """Make durable what was written. An OSError is final."""
        self._file.sync()

    def release_slots(self) -> None:
        """Free the memory of the slots: all was written back, and nothing more is inserted."""
        self._slots = None
        self._touched = np.zeros(0, np.uint8)

    # -- cutting --------------------------------------------------------------------------------------

    def forget_from(self, header: IndexHeader) -> None:
        """Go back, in memory, to the entries that were there under `header`; the slots follow from them."""
        from mqstore.index.index_file import index_file_kernels

        slots = np.zeros(SLOT_BYTES * self._size.slot_count, np.uint8)
        entries = self._file.array[self._position_of(0) :]
        hash_slot_count = index_file_kernels.index_slots(entries, header.index_count, slots)
        # All slots in use are written again: a failed sync may have lost those on disk.
        in_use = np.bitwise_or.reduceat(slots | self._mapped_slots(), np.arange(0, len(slots), _GROUP_BYTES))
        self._touched = (in_use != 0).astype(np.uint8)
        self._slots = slots
        self.header = header._replace(hash_slot_count=hash_slot_count)

    def erase_rest(self) -> None:
        """Write the state after `forget_from` to disk, durably: zeros behind the entries, slots, header."""
        self._file.erase_from(self._position_of(self.header.index_count))
        self.write_back()
        self.sync()

    # -- asking ---------------------------------------------------------------------------------------

    def first_entry(self, code: int) -> int:
        """Number of the newest entry in the chain of a hash; NO_ENTRY when there is none."""
        slot = slot_of(code, self._size.slot_count)
        if self._slots is None:
            number = decode_slot(self._file.view, slot)
        else:
            at = SLOT_BYTES * slot
            number = int.from_bytes(self._slots[at : at + SLOT_BYTES].tobytes(), "big", signed=True)
        return number if NO_ENTRY < number < self.header.index_count else NO_ENTRY

    def offsets(self, code: int, first_entry: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Physical offsets of the records that may have the hash and the store time, the newest first.

        first_entry: what `first_entry` returned for this hash. A record may be repeated.
        """
        view = self._file.view
        number, limit = first_entry, first_entry + 1
        while NO_ENTRY < number < limit:
            entry = decode_entry(view, self._position_of(number))
            if entry.key_hash == code:
                least_ms = self.floor_timestamp_of(number)
                if least_ms < 0 or (least_ms <= end_ms and least_ms + 999 >= begin_ms):
                    yield entry.physical_offset
            number, limit = entry.previous_entry, number

    def __repr__(self) -> str:
        return f"IndexFile({self.path.name!r}, index_count={self.header.index_count})"
