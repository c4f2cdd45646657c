"""Recovery: finds the end of the log when a store is opened, and cuts a torn tail.

The states that a writer can leave behind:

    1  closed cleanly: everything up to the end is durable and whole; zeros follow
    2  killed: as 1, and what was appended last is whole too, since the kernel kept the pages
    3  power cut: pages written after the last sync may be there or not, each for itself; so behind the
       last synced byte there may be whole records, torn ones, zeros, and whole ones again
    4  as 2 or 3, with one segment more, still all zero, that was created ahead; or a last file of
       length zero, whose creation was cut short (mapped_file_queue.py removes it)
    5  as 2 or 3, ending in a BLANK whose next segment was not created yet, or was empty and was lost; a BLANK
       that is not as long as the rest of its segment is torn (3), for its 8 bytes may lie on two sectors
    6  damaged: bytes that had been durable are not what was written

The rule that tells them apart: walk whole records from a boundary that is known to be good. Where the walk
ends is the end of the log: 1, 2, 4, 5. What follows that is not zero is a torn tail (3) if it lies at or
behind the offset that is known to have been durable, and damage (6) if before it. Where no such offset
is known (only a broker has written here), a whole record behind the end means damage. A torn tail is
zeroed and synced, so that it cannot come back as a record; damage is an error, and nothing is changed.
The BLANK of 5 is overwritten by the next append. But if the segment was known to be durable to its last byte,
the log ends there, and others may have noted that offset: then the BLANK stays.

After 2 the kernel has bytes that the disk may not have: what a killed process wrote, and the zeros behind the
end. So everything from the last offset that is known to be durable is synced, names too, before a reader sees
it. It is written again first: after a failed sync the kernel may hold the pages as clean, and would sync
nothing. (A broker's directory is not written again: that would be up to a whole segment.)

It does not touch consume queues (index/). With `read_only` it changes nothing.
Threads: it runs before any writer or reader. A long walk uses two more threads, which read ahead and have
ended when it returns. Durability: the cut is durable on return. An interrupted recovery can be run again;
each segment that it has walked to the end is durable from then on (`on_durable`) and is not written again.
Source: CommitLog#recoverNormally, #recoverAbnormally; the differences are in docs/rocketmq_differences.md.
"""

import struct
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mqstore.store.errors import CorruptRecord
from mqstore.store.files.mapped_file import MappedFile
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.progress import Progress
from mqstore.store.record.record_format import (
    MAGIC_CODE_POSITION,
    MESSAGE_MAGIC_CODE,
    RecordIllegal,
    check_record,
    decode_header,
)
from mqstore.store.state.checkpoint_format import Checkpoint
from mqstore.store.state.recovery_point_format import RecoveryPoint
from mqstore.store.threads.run_in_thread import run_in_thread

__all__ = ["RecoveryReport", "find_start", "recover"]

# Bytes scanned between two calls of `on_progress`.
_STEP_BYTES = 64 << 20
# A piece of this size contains a whole record, unless records are much larger than usual.
_LOOK_AHEAD_BYTES = 8 << 20
_PAGE_BYTES = 4096
# Bytes searched for a record between two questions where the next hole is.
_SEARCH_BYTES = 1 << 20
# Bytes searched at first for the record that ends at a recovery point.
_LOOK_BACK_BYTES = 64 << 10
_TOTAL_SIZE = struct.Struct(">i")
# Of the magic codes of records: they differ in the last byte.
_MAGIC_BEGINS = MESSAGE_MAGIC_CODE.to_bytes(4, "big", signed=True)[:3]


class RecoveryReport(NamedTuple):
    """What a recovery found and did. Offsets are physical, sizes bytes, the timestamp epoch ms.

    start_offset, end_offset: where the walk began and ended. records: how many it walked over.
    damage: with `read_only`, the error that a writer would get; the log then ends before the damage.
    """

    start_offset: int
    end_offset: int
    records: int
    last_store_timestamp: int
    erased_bytes: int
    damage: CorruptRecord | None = None


def find_start(
    log: CommitLog, point: RecoveryPoint | None, checkpoint: Checkpoint, *, after_crash: bool
) -> int:
    """The offset to walk and dispatch from: the recovery point if it is a boundary, else a segment's start.

    Without a recovery point this is RocketMQ's choice: the newest segment that begins with a record, which
    after a crash must be stored at or before the checkpoint.
    """
    if point is not None and _is_boundary(log, point.queues_offset):
        return point.queues_offset
    for segment in reversed(log.files.files[1:]):
        header = _first_header(segment)
        if header is not None and (not after_crash or header <= checkpoint.min_timestamp):
            return segment.start_offset
    return log.min_offset


def _is_boundary(log: CommitLog, offset: int) -> bool:
    """Whether a whole record begins or ends at `offset`, or a segment does.

    Zeros prove nothing there: a body may hold them, and they follow the end of the log. In a directory that
    was put together from two copies the point may be that of another log.
    """
    segment = log.files.file_for(offset)
    if segment is None:
        return offset == log.files.end_offset and offset > 0
    position = offset - segment.start_offset
    return position == 0 or _is_record(segment, position) or _ends_record(segment, position)


def _is_record(segment: MappedFile, position: int) -> bool:
    try:
        check_record(segment.view[position:], segment.start_offset + position)
    except RecordIllegal:
        return False
    return True


def _ends_record(segment: MappedFile, position: int) -> bool:
    """Whether a whole record ends at `position`. It looks backwards, and further if it finds none."""
    low, step = position, _LOOK_BACK_BYTES
    while low > 0:
        high, low, step = low, max(0, low - step), min(step * 16, _STEP_BYTES)
        piece = bytes(segment.view[low : high + 8])
        at = piece.rfind(_MAGIC_BEGINS)
        while at >= MAGIC_CODE_POSITION:
            (total_size,) = _TOTAL_SIZE.unpack_from(piece, at - MAGIC_CODE_POSITION)
            begin = low + at - MAGIC_CODE_POSITION
            if begin + total_size == position and _is_record(segment, begin):
                return True
            at = piece.rfind(_MAGIC_BEGINS, 0, at)
    return False


def _is_zero(segment: MappedFile, position: int) -> bool:
    """Whether the first 8 bytes of a record are zero there."""
    return not segment.array[position : position + 8].any()


def _is_whole_blank(segment: MappedFile, position: int) -> bool:
    """Whether the BLANK that begins at `position` fills the rest of its segment."""
    (length_bytes,) = _TOTAL_SIZE.unpack_from(segment.view, position)
    return bool(position + length_bytes == segment.size_bytes)


def _first_header(segment: MappedFile) -> int | None:
    """Store time of the record that a segment begins with; None if it does not begin with one."""
    try:
        header = decode_header(segment.view)
    except RecordIllegal:
        return None
    return header.store_timestamp if header.physical_offset == segment.start_offset else None


def recover(
    log: CommitLog,
    start_offset: int,
    durable_offset: int | None,
    *,
    read_only: bool,
    on_progress: Progress | None = None,
    on_durable: Callable[[int], None] | None = None,
    on_walk: Callable[[], object] | None = None,
) -> RecoveryReport:
    """Find the end of `log` by a walk from the boundary `start_offset`, and set it on the log.

    durable_offset: the log is known to have been durable up to here; None if nothing is known.
    on_progress: of `recover`: bytes walked, and bytes to walk at most. on_durable: called with an offset up
    to which the log is durable now, after each segment that a killed process had filled since the last sync.
    on_walk: called once, when the walk over records begins; not at all if there are none.
    Raises CorruptRecord: a record that had been durable is damaged, or whole records follow the end.
    With `read_only` that error is in the report, and the log ends before the damage.
    """
    syncer = _Syncer(log, start_offset, durable_offset, on_durable)
    on_segment = None if read_only else syncer.sync_segment
    walk = _Walk(log, start_offset, durable_offset, on_progress, on_segment, on_walk)
    walk.run()
    damage = _find_damage(log, walk.end_offset, durable_offset)
    if damage is not None and not read_only:
        raise damage
    end_offset = walk.end_offset
    if damage is not None:
        # Beside a live writer the end moves on: then there was no damage, but a record being written.
        walk.run()
        damage = damage if walk.end_offset == end_offset else None
        end_offset = walk.end_offset
    erased_bytes = 0
    if not read_only:
        erased_bytes = _cut(log, end_offset)
        syncer.sync_tail(end_offset)
    log.set_end(end_offset, walk.last_store_timestamp)
    return RecoveryReport(
        start_offset, end_offset, walk.records, walk.last_store_timestamp, erased_bytes, damage
    )


class _Syncer:
    """Makes durable what an earlier process may have left to the kernel, from `offset` on."""

    def __init__(
        self,
        log: CommitLog,
        start_offset: int,
        durable_offset: int | None,
        on_durable: Callable[[int], None] | None,
    ) -> None:
        self.offset = start_offset if durable_offset is None else durable_offset
        # In a broker's directory nothing is written again.
        self._again = durable_offset is not None
        self._files = log.files
        self._on_durable = on_durable

    def sync_segment(self, end_offset: int) -> None:
        """Sync a segment whose end the walk has reached: what it holds past `offset` cannot be damage."""
        if self._again and end_offset > self.offset:
            self._files.make_durable(self.offset, end_offset, again=True, is_end=False)
            self.offset = end_offset
            if self._on_durable is not None:
                self._on_durable(end_offset)

    def sync_tail(self, end_offset: int) -> None:
        """Sync the rest of the log, which ends at `end_offset`, and the zeros that follow."""
        self._files.make_durable(self.offset, end_offset, again=self._again, is_end=True)


class _Walk:
    """One pass over whole records, segment by segment. `on_segment` is called at the end of each."""

    def __init__(
        self,
        log: CommitLog,
        start_offset: int,
        durable_offset: int | None,
        on_progress: Progress | None,
        on_segment: Callable[[int], None] | None,
        on_walk: Callable[[], object] | None,
    ) -> None:
        self.end_offset = start_offset
        self.records = 0
        self.last_store_timestamp = 0
        self._files = log.files
        self._start_offset = start_offset
        self._durable_offset = 0 if durable_offset is None else durable_offset
        self._on_progress = on_progress
        self._on_segment = on_segment
        self._on_walk = on_walk

    def run(self) -> None:
        """Advance `end_offset` to the end of the log."""
        while (segment := self._files.file_for(self.end_offset)) is not None:
            if not self._walk_segment(segment):
                return
            following = self._files.file_for(segment.end_offset)
            if following is None and self._durable_offset < segment.end_offset:
                # The log ends in a BLANK: appends go on in its place, as in RocketMQ.
                return
            self.end_offset = segment.end_offset
            if self._on_segment is not None:
                self._on_segment(segment.end_offset)

    def _walk_segment(self, segment: MappedFile) -> bool:
        """Walk to the end of the records of one segment; whether it is closed by a BLANK."""
        position = self.end_offset - segment.start_offset
        if _is_zero(segment, position) and position < segment.size_bytes:
            self._report()
            return False
        if not _goes_on_at(segment, position + _STEP_BYTES):
            return self._walk_records(segment, position)
        # While this thread loads compiled code.
        is_over = threading.Event()
        touching = run_in_thread(lambda: _touch(segment, position, is_over))
        try:
            return self._walk_records(segment, position)
        finally:
            is_over.set()
            touching.result()

    def _walk_records(self, segment: MappedFile, position: int) -> bool:
        """As `_walk_segment`, if a record may be at `position`."""
        from mqstore.store.record import record_kernels

        self._begin()
        while True:
            stop, position, records, timestamp, why = _scan_step(segment, position)
            cut_by_step = why == record_kernels.NO_RECORD and stop < segment.size_bytes
            if cut_by_step and not records:
                # The step may have ended inside a record: look beyond it.
                position, records, timestamp, why = record_kernels.scan(
                    segment.array, position, segment.size_bytes, segment.start_offset
                )
                cut_by_step = False
            self.records += int(records)
            if timestamp >= 0:
                self.last_store_timestamp = int(timestamp)
            self.end_offset = segment.start_offset + int(position)
            self._report()
            if not cut_by_step and why != record_kernels.END_OF_DATA:
                return why == record_kernels.BLANK_FOUND and _is_whole_blank(segment, int(position))
            if position >= segment.size_bytes:
                return True

    def _begin(self) -> None:
        """Load the compiled loop, then call `on_walk`; once."""
        if self._on_walk is not None:
            from mqstore.store.record import record_kernels

            record_kernels.scan(np.frombuffer(b"", np.uint8), 0, 0, 0)
            on_walk, self._on_walk = self._on_walk, None
            on_walk()

    def _report(self) -> None:
        if self._on_progress is not None:
            self._on_progress(
                "recover", self.end_offset - self._start_offset, self._files.end_offset - self._start_offset
            )


class _Scanned(NamedTuple):
    """What `record_kernels.scan` returned, and up to where it looked. Positions are within the segment."""

    stop: int
    position: int
    records: int
    last_store_timestamp: int
    why: int


def _scan(segment: MappedFile, position: int, stop: int) -> _Scanned:
    from mqstore.store.record import record_kernels

    return _Scanned(stop, *record_kernels.scan(segment.array, position, stop, segment.start_offset))


def _scan_step(segment: MappedFile, position: int) -> _Scanned:
    """Scan the next step, and if there is more, the step after it at the same time in another thread.

    That thread begins at the first whole record that it finds. Its result counts only if the walk reaches
    exactly that place; so the answer is that of one walk.
    """
    from mqstore.store.record import record_kernels

    middle = position + _STEP_BYTES
    if not _goes_on_at(segment, middle):
        return _scan(segment, position, min(segment.size_bytes, middle))
    following = run_in_thread(lambda: _scan_from_record(segment, middle))
    scanned = _scan(segment, position, middle)
    begins_at, ahead = following.result()
    if scanned.why == record_kernels.NO_RECORD and scanned.position < begins_at:
        # The step may have ended inside a record.
        scanned = _joined(scanned, _scan(segment, scanned.position, begins_at))
    if ahead is not None and scanned.position == begins_at:
        return _joined(scanned, ahead)
    return scanned._replace(stop=middle)


def _scan_from_record(segment: MappedFile, position: int) -> tuple[int, _Scanned | None]:
    """Scan a step from the first whole record at or after `position`: (where it begins, what was found)."""
    from mqstore.store.record import record_kernels

    look_to = min(segment.size_bytes, position + _LOOK_AHEAD_BYTES)
    begins_at = int(
        record_kernels.find_record(segment.array, position, look_to, look_to, segment.start_offset)
    )
    if begins_at < 0:
        return -1, None
    return begins_at, _scan(segment, begins_at, min(segment.size_bytes, position + _STEP_BYTES))


def _joined(first: _Scanned, second: _Scanned) -> _Scanned:
    """Two scans as one; the second began where the first ended."""
    timestamps = (second.last_store_timestamp, first.last_store_timestamp)
    return second._replace(
        records=first.records + second.records,
        last_store_timestamp=next((each for each in timestamps if each >= 0), -1),
    )


def _goes_on_at(segment: MappedFile, position: int) -> bool:
    """Whether the segment seems to hold records there. It looks at one page, so that no hole is read."""
    return bool(segment.array[position : position + _PAGE_BYTES].any())


def _touch(segment: MappedFile, position: int, is_over: threading.Event) -> None:
    """Touch each page from `position` on, so that the kernel has read and mapped it before it is needed."""
    while not is_over.is_set() and _goes_on_at(segment, position):
        # One byte a page; numpy does it without the GIL.
        segment.array[position : position + _LOOK_AHEAD_BYTES : _PAGE_BYTES].max()
        position += _LOOK_AHEAD_BYTES


def _damage(log: CommitLog, offset: int) -> CorruptRecord:
    path, position = log.place_of(offset)
    segment = log.files.file_for(offset)
    if segment is None:
        return CorruptRecord(path, position, "a segment that holds this offset", "none")
    try:
        check_record(segment.view[position:], offset)
    except RecordIllegal as illegal:
        return CorruptRecord(path, position, illegal.expected, illegal.found)
    return CorruptRecord(path, position, "a whole record", "one whose CRC differs")


def _find_damage(log: CommitLog, end_offset: int, durable_offset: int | None) -> CorruptRecord | None:
    """The damage at the end of the walk; None if it is a torn tail, or nothing."""
    if durable_offset is None:
        return _damage(log, end_offset) if _has_record_behind(log, end_offset) else None
    return _damage(log, end_offset) if end_offset < durable_offset else None


def _has_record_behind(log: CommitLog, end_offset: int) -> bool:
    """Whether there is a whole record after the end of the walk."""
    # Here, not below: an empty store loads the loops when it is opened, and not with its first put.
    from mqstore.store.record import record_kernels

    return any(
        _has_record_from(segment, max(0, end_offset - segment.start_offset), record_kernels.find_record)
        for segment in log.files.files
        if segment.end_offset > end_offset
    )


def _has_record_from(segment: MappedFile, position: int, find_record: Callable[..., int]) -> bool:
    """Whether a whole record begins at or after `position`."""
    size_bytes = segment.size_bytes
    while position < size_bytes:
        # No page of a hole is read. The first bytes of a record may be zeros, and lie in one.
        position = max(position, segment.region.next_data(position) - MAGIC_CODE_POSITION)
        stop = min(position + _SEARCH_BYTES, size_bytes)
        if find_record(segment.array, position, stop, size_bytes, segment.start_offset) >= 0:
            return True
        position = stop
    return False


def _cut(log: CommitLog, end_offset: int) -> int:
    """Zero what follows the end and remove the segments after it; returns the number of bytes zeroed."""
    segment = log.files.file_for(end_offset)
    if segment is None:
        return 0
    erased = segment.erase_from(end_offset - segment.start_offset)
    log.files.delete_from(segment.end_offset)
    return erased
