"""A mapped file: one preallocated file of fixed length, as a memoryview and a numpy array.

It keeps two positions, both byte counts from its start: `wrote_position`, up to which bytes are valid,
and `reserved_position`, up to which room is reserved on the disk. The writer reserves in windows, so a full
disk is an error (StoreFull) before any mapped page is touched, and never a SIGBUS.

It does not know records (commit_log.py) or entries (index/queue/consume_queue.py), nor its neighbours
(mapped_file_queue.py). The file is opened and mapped when first touched, so a row of thousands costs
nothing to list.
Threads: one writer at a time, chosen by the owner; readers need no lock: `wrote_position` is raised after
the bytes are in place. Views keep the mapping alive; a deleted file stays readable for those who hold one.
Durability: none until `sync` returns.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from mqstore.store.errors import StoreFull
from mqstore.store.files.file_system import BytesLike, FileSystem, MappedRegion
from mqstore.store.threads.lock import Lock

__all__ = ["MappedFile", "MappedFileSettings"]

_CHUNK_BYTES = 1 << 20
# Who reads what lies before the writer reads ahead, into what the writer will write. The system does not stop
# at the border of an advice; usual disks are read ahead by 128 KiB to 8 MiB.
_READERS_REACH_BYTES = 64 << 20
# File systems allocate blocks of this size, or of a multiple of it.
_BLOCK_BYTES = 4096


class MappedFileSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all files of a row have in common. The row's owner makes one and hands it down."""

    file_size_bytes: int
    """Length of each file."""

    reserve_window_bytes: int
    """The writer reserves room on the disk in steps of this size."""

    read_only: bool = False
    """Nothing is written, created or removed."""

    size_key: str = ""
    """The setting that `file_size_bytes` came from, for the error that names it."""

    is_derived_row: bool = False
    """The row can be rebuilt, and a store has thousands of such rows: descriptors are released after each
    use, and new names are durable after `MappedFileQueue.sync_names`, not on creation."""

    on_low_space: Callable[[], None] | None = None
    """Called by the writer when less than half a reserved window is left (CommitLog.reserve_ahead)."""

    is_synced_often: bool = False
    """A sync may have somebody waiting for it: it should write the records and no zeros behind them."""

    after_crash: bool = False
    """The last writer did not close the store: a derived row then ends before its first file that is missing
    or empty. What follows is derived again."""


class MappedFile:
    """One file of a row; `start_offset` is the offset of its first byte in the row."""

    def __init__(
        self,
        file_system: FileSystem,
        path: Path,
        settings: MappedFileSettings,
        *,
        create: bool = False,
    ) -> None:
        self.path = path
        self.start_offset = int(path.name)
        self.size_bytes = settings.file_size_bytes
        self.end_offset = self.start_offset + self.size_bytes
        # Written by the owner's one writer, read by everyone.
        self.wrote_position = 0
        # Written by a thread that reserves, under _reserve_lock. 0: nothing is known to be reserved.
        self.reserved_position = 0
        # The error of the last reservation; None if that succeeded. Under _reserve_lock.
        self.lack_of_room: StoreFull | None = None
        self._file_system = file_system
        self._reserve_window_bytes = settings.reserve_window_bytes
        # With less reserved room than this ahead of it, the writer calls _on_low_space.
        self._low_bytes = min(settings.reserve_window_bytes, settings.file_size_bytes) // 2
        self._read_only = settings.read_only
        self._on_low_space = settings.on_low_space
        self._is_synced_often = settings.is_synced_often
        self._is_one_of_many = settings.is_derived_row
        self._reserve_lock = Lock()
        self._map_lock = Lock()
        self._region: MappedRegion | None = self._map(create=True) if create else None
        self._view: memoryview | None = None
        self._array: npt.NDArray[np.uint8] | None = None
        # A publish beyond this position first has to reserve room, or to ask for it in time.
        self._attention_position = 0
        # Whether a put had to reserve a window by itself, whose pages are not in memory; and whether it has
        # written so much of it that the rest is worth populating.
        self._is_window_cold = False
        self._wants_pages = False
        # From `wrote_position` up to here a failed publish may have left bytes; 0 if none has.
        self._stale_end = 0

    def _map(self, *, create: bool = False) -> MappedRegion:
        return self._file_system.map(self.path, self.size_bytes, create=create, read_only=self._read_only)

    @property
    def region(self) -> MappedRegion:
        """The mapping; made at first use."""
        if self._region is None:
            with self._map_lock:
                if self._region is None:
                    self._region = self._map()
        return self._region

    @property
    def view(self) -> memoryview:
        """All bytes of the file, read-only. Views keep the mapping alive."""
        if self._view is None:
            self._view = self.region.view.toreadonly()
        return self._view

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """All bytes of the file as a read-only uint8 array. It keeps the mapping alive."""
        if self._array is None:
            self._array = np.frombuffer(self.view, np.uint8)
        return self._array

    @property
    def is_full(self) -> bool:
        """Whether nothing more fits."""
        return self.wrote_position >= self.size_bytes

    @property
    def is_nearly_full(self) -> bool:
        """Whether the writer will soon need the next file."""
        return self.size_bytes - self.wrote_position <= self._low_bytes

    def publish(self, record: BytesLike) -> int:
        """Append records, at least 8 bytes, the first 8 of them last; returns where they begin.

        The caller has made sure that they fit. Raises StoreFull; then `wrote_position` is as before, and
        `undo_publish` erases what may have been written.
        """
        position = self.wrote_position
        end = position + len(record)
        if end > self._attention_position:
            self._attend(end)
        (self._region or self.region).publish(position, record)
        self.wrote_position = end
        return position

    def undo_publish(self, length_bytes: int) -> None:
        """Zero what a failed publish of `length_bytes` has left: now, or else before the next publish.

        Where reserved room is not kept, there may be none for the zeros now.
        """
        self._stale_end = max(
            self._stale_end, min(self.wrote_position + length_bytes, self.reserved_position)
        )
        # So the next publish erases it first.
        self._attention_position = 0
        with contextlib.suppress(StoreFull):
            self._erase_stale()

    def _erase_stale(self) -> None:
        for at in range(self.wrote_position, self._stale_end, _CHUNK_BYTES):
            self.region.write(at, bytes(min(_CHUNK_BYTES, self._stale_end - at)))
        self._stale_end = 0

    def write(self, position: int, data: BytesLike) -> None:
        """Put bytes at `position` without moving `wrote_position`. Raises StoreFull."""
        end = position + len(data)
        if end > self.reserved_position:
            self.reserve(end)
        self.region.write(position, data)

    def reserve(self, end: int) -> None:
        """Reserve room on the disk up to `end`, in whole windows. Raises StoreFull."""
        with self._reserve_lock:
            start = max(self.reserved_position, min(self.wrote_position, end))
            if end <= start:
                return
            if self.reserved_position == 0 and self._is_synced_often:
                self.region.read_ahead(max(0, start - _READERS_REACH_BYTES), is_wanted=False)
            window = self._reserve_window_bytes
            wanted = min(self.size_bytes, -(-end // window) * window)
            try:
                self.region.reserve(start, wanted - start)
            except StoreFull as full:
                self.lack_of_room = full
                raise
            self.lack_of_room = None
            self._release_if_one_of_many()
            self.reserved_position = wanted
            # Bytes that a failed publish left are erased by the next publish, so it has to stop here.
            self._attention_position = 0 if self._stale_end else wanted - self._low_bytes

    def reserve_next_window(self) -> bool:
        """Reserve and populate one more window if less than half of one is left; returns whether it did.

        The first window is left to the first publish, unless that found no room. Most stores are opened for a
        few records: its pages are populated once an eighth of it was written.
        """
        if self._wants_pages:
            self._wants_pages = False
            position = self.wrote_position
            self._populate(position)
        start = self.reserved_position
        low = start - self.wrote_position <= self._low_bytes
        is_first = start == 0 and self.lack_of_room is None
        if not low or start >= self.size_bytes or is_first:
            return False
        self.reserve(start + 1)
        self._populate(start)
        return True

    def reserve_first_window(self) -> None:
        """Reserve and populate the first window of a file that is needed soon, unless it is reserved."""
        if self.reserved_position == 0:
            self.reserve(1)
            self._populate(0)

    def _populate(self, position: int) -> None:
        length_bytes = max(0, self.reserved_position - position)
        self.region.populate(position, length_bytes, writable=not self._is_synced_often)

    def finish(self) -> None:
        """Nothing is written any more: who reads it from the disk reads ahead."""
        if self._is_synced_often:
            self.region.read_ahead(0, is_wanted=True)

    def _attend(self, end: int) -> None:
        # First: while there is no room for it, each publish comes here.
        self._erase_stale()
        if end > self.reserved_position:
            self.reserve(end)
            self._is_window_cold = True
            self._attention_position = min(self._attention_position, end + self._low_bytes // 4)
        else:
            self._wants_pages, self._is_window_cold = self._is_window_cold, False
            low_position = self.reserved_position - self._low_bytes
            self._attention_position = low_position if end <= low_position else self.reserved_position
        assert end <= self.reserved_position, (end, self.reserved_position)  # I4
        if self._on_low_space is not None:
            self._on_low_space()

    def erase_from(self, position: int) -> int:
        """Zero everything from `position` on and sync; returns the number of bytes written.

        Recovery erases a torn tail with it, so that stale bytes never become a record again.
        """
        erased = 0
        for at, end in self._pieces_with_data(position, self.size_bytes):
            self.region.write(at, bytes(end - at))
            erased += end - at
        self.wrote_position = min(self.wrote_position, position)
        if erased:
            self.sync()
        self._release_if_one_of_many()
        return erased

    def write_again(self, start: int, stop: int) -> None:
        """Write the bytes from `start` to `stop` again, so that the next sync writes them to the disk."""
        for at, end in self._pieces_with_data(start, stop):
            self.region.write(at, bytes(self.view[at:end]))

    def _pieces_with_data(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Runs of blocks that hold data, a megabyte at most, as (begin, end).

        These have room on the disk. Other blocks may be holes: on a full disk a write to one is a SIGBUS.
        """
        at = self.region.next_data(start)
        while at < stop:
            end = min(at - at % _CHUNK_BYTES + _CHUNK_BYTES, stop)
            for begin_at, end_at in _find_pieces(self.array[at:end], at):
                yield at + begin_at, at + end_at
            at = self.region.next_data(end) if end < stop else stop

    def sync(self) -> None:
        """Make what was written before this call durable. An OSError is final: never retry it."""
        self.region.sync()
        self._release_if_one_of_many()

    def sync_within(self, timeout_s: float) -> bool:
        """As `sync`, but waits `timeout_s` at most; returns whether all is durable."""
        is_durable = self.region.sync_within(timeout_s)
        if is_durable:
            self._release_if_one_of_many()
        return is_durable

    def release_descriptor(self) -> None:
        """Close the descriptor until it is needed again; the mapping stays."""
        if self._region is not None:
            self._region.release_descriptor()

    def _release_if_one_of_many(self) -> None:
        if self._is_one_of_many:
            self.release_descriptor()

    def __repr__(self) -> str:
        positions = f"wrote_position={self.wrote_position}, size_bytes={self.size_bytes}"
        return f"MappedFile({self.path.name!r}, {positions})"


def _find_pieces(data: npt.NDArray[np.uint8], position: int) -> list[list[int]]:
    """[begin, end] within `data` of each run of blocks that hold data. `position`: of `data` in its file."""
    head_bytes = min(-position % _BLOCK_BYTES, len(data))
    body_bytes = (len(data) - head_bytes) // _BLOCK_BYTES * _BLOCK_BYTES
    body = data[head_bytes : head_bytes + body_bytes].reshape(-1, _BLOCK_BYTES)
    head_held, tail_held = data[:head_bytes].any(), data[head_bytes + body_bytes :].any()
    # One for the head, each block and the tail; one before and one after them.
    held = np.zeros(len(body) + 4, np.bool_)
    held[1], held[2:-2], held[-2] = head_held, body.any(axis=1), tail_held
    changes = np.flatnonzero(held[1:] != held[:-1])
    bounds = (changes - 1) * _BLOCK_BYTES + head_bytes
    pieces: list[list[int]] = bounds.clip(0, len(data)).reshape(-1, 2).tolist()
    return pieces
