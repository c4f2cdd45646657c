"""The sealed segments of a log: those that will not change any more, and what is in each.

A segment is sealed when all of it is durable: the log goes on behind it, and no power cut can bring its end
back. For a writer that is what it has synced. A reader beside it takes the recovery point, which the writer
saves about once a second, and in a directory that only RocketMQ has written the place where a recovery
would begin.

Each record is checked, CRCs too, before its segment is archived: damage must not replace the only good copy
of something. Nothing is changed. Threads: any.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mqstore.message_store import MessageStore
from mqstore.store.checksum.crc32c import crc32c
from mqstore.store.errors import CorruptRecord
from mqstore.store.files.file_names import file_name, row_entries
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.log.raw_segments import SegmentFile
from mqstore.store.record.record_format import MAX_RECORD_OVERHEAD_BYTES
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store_layout import StoreLayout
from mqstore.tools.archive.archive_place import LOCAL_PIECE_BYTES
from mqstore.verify.log_scan import Piece, scan_segment

if TYPE_CHECKING:
    from mqstore.tools.archive.segments.segment_content import SegmentContent

__all__ = [
    "durable_offset",
    "inspect_segment",
    "pieces_of",
    "sealed_starts",
    "size_and_crc32c",
]


def durable_offset(store: MessageStore) -> int:
    """The physical offset before which no byte of the log will change any more."""
    if not store.read_only:
        return store.commit_log.flushed_offset
    point = RecoveryPointFile(OsFileSystem(), StoreLayout(store.path).recovery_point).load()
    known = store.recovery.start_offset if point is None else point.log_offset
    return min(known, store.max_offset)


def sealed_starts(store: MessageStore) -> list[int]:
    """The first offsets of the sealed segments on disk, ascending."""
    segment_bytes = store.config.mapped_file_size_commit_log
    end_offset = durable_offset(store)
    entries = row_entries(OsFileSystem(), StoreLayout(store.path).commit_log)
    starts = [int(entry.name) for entry in entries if entry.size_bytes == segment_bytes]
    return [start for start in starts if start + segment_bytes <= end_offset]


def segment_path(store: MessageStore, start_offset: int) -> Path:
    """Where a segment lies."""
    return StoreLayout(store.path).commit_log / file_name(start_offset)


def pieces_of(store: MessageStore, start_offset: int, position: int = 0) -> Iterator[bytes]:
    """The bytes of a segment from a position on. Raises FileNotFoundError when retention has deleted it."""
    path, size_bytes = segment_path(store, start_offset), store.config.mapped_file_size_commit_log
    for begin in range(position, size_bytes, LOCAL_PIECE_BYTES):
        piece = OsFileSystem().read_at(path, begin, min(LOCAL_PIECE_BYTES, size_bytes - begin))
        if len(piece) != min(LOCAL_PIECE_BYTES, size_bytes - begin):
            raise CorruptRecord(path, begin + len(piece), f"{size_bytes} bytes", "the end of the file")
        yield piece


def size_and_crc32c(pieces: Iterator[bytes]) -> tuple[int, int]:
    """(number of bytes, CRC-32C) of pieces."""
    size_bytes, checksum = 0, 0
    for piece in pieces:
        size_bytes += len(piece)
        checksum = crc32c(piece, checksum)
    return size_bytes, checksum


def inspect_segment(
    store: MessageStore, start_offset: int, take: Callable[[npt.NDArray[np.uint8]], object]
) -> "SegmentContent":
    """Check a sealed segment and say what is in it. `take` gets its bytes, in their order and all of them.

    A piece goes to `take` once its records are found good: uint8, read-only. Raises CorruptRecord,
    FileNotFoundError.
    """
    from mqstore.tools.archive.segments.segment_content import ContentCounter

    path, segment_bytes = segment_path(store, start_offset), store.config.mapped_file_size_commit_log
    counter = ContentCounter(segment_bytes)
    taken_offset = start_offset

    def count_and_take(piece: Piece) -> None:
        nonlocal taken_offset
        # Behind damage nothing is taken.
        if piece.base_offset == taken_offset:
            # Counted first, while it lies in the processor's cache.
            counter.count(piece.data)
            take(piece.data)
            taken_offset = piece.end_offset

    scanned = scan_segment(
        OsFileSystem(),
        SegmentFile(path, start_offset, segment_bytes),
        count_and_take,
        segment_bytes=segment_bytes,
        max_record_bytes=store.config.max_message_size + MAX_RECORD_OVERHEAD_BYTES,
    )
    if scanned.damages:
        damage = scanned.damages[0]
        position = damage.start_offset - start_offset
        raise CorruptRecord(path, position, damage.expected, damage.found)
    position = scanned.end_offset - start_offset
    if not scanned.is_closed or scanned.unreadable:
        if not path.exists():
            raise FileNotFoundError(path)
        raise CorruptRecord(path, position, "records up to a BLANK", scanned.tail_found)
    for blank in pieces_of(store, start_offset, position):
        take(np.frombuffer(blank, np.uint8))
    return counter.content()
