"""The sealed segments of a log: those that will not change any more, and what is in each.

A segment is sealed when all of it is durable: the log goes on behind it, and no power cut can bring its end
back. For a writer that is what it has synced. A reader beside it takes the recovery point, which the writer
saves about once a second, and in a directory that only RocketMQ has written the place where a recovery
would begin.

Each record is checked, CRCs too, before its segment is archived: damage must not replace the only good copy
of something. Nothing is changed. Threads: any.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.message_store import MessageStore
from mqstore.store.checksum.crc32c import crc32c
from mqstore.store.errors import CorruptRecord
from mqstore.store.files.file_names import file_name, row_entries
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.log.raw_segments import SegmentFile
from mqstore.store.record.record_format import (
    MAX_RECORD_OVERHEAD_BYTES,
    QUEUE_ID_POSITION,
    QUEUE_OFFSET_POSITION,
)
from mqstore.store.record.sys_flag import TRANSACTION_PREPARED
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store_layout import StoreLayout
from mqstore.tools.archive.archive_place import LOCAL_PIECE_BYTES
from mqstore.tools.archive.manifest import ArchivedPart, ArchivedTopic
from mqstore.verify.log_scan import Piece, scan_segment

if TYPE_CHECKING:
    from mqstore.index.arrow.records import Records

__all__ = [
    "SegmentContent",
    "durable_offset",
    "inspect_segment",
    "pieces_of",
    "sealed_starts",
    "size_and_crc32c",
]


_PARTS = 128
"""A segment has about so many parts: one of 1 GiB has parts of 8 MiB, which is what one request reads."""
_LEAST_PART_BYTES = 64 << 10
_MOST_TOPICS = 256


class SegmentContent(NamedTuple):
    """What is in a segment. Timestamps: the least and the greatest store time, epoch ms.

    parts: of the records, in their order; see `ArchivedPart`.
    """

    records: int
    min_store_timestamp: int
    max_store_timestamp: int
    topics: dict[str, ArchivedTopic]
    parts: tuple[ArchivedPart, ...]


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
) -> SegmentContent:
    """Check a sealed segment and say what is in it. `take` gets its bytes, in their order and all of them.

    A piece goes to `take` once its records are found good: uint8, read-only. Raises CorruptRecord,
    FileNotFoundError.
    """
    path, segment_bytes = segment_path(store, start_offset), store.config.mapped_file_size_commit_log
    part_bytes = max(segment_bytes // _PARTS, _LEAST_PART_BYTES)
    taken_offset = start_offset

    def digest_and_take(piece: Piece) -> _Digest:
        nonlocal taken_offset
        # Before it is taken, while it lies in the processor's cache.
        digest = _digest(part_bytes, piece)
        # Behind damage nothing is taken.
        if piece.base_offset == taken_offset:
            take(piece.data)
            taken_offset = piece.end_offset
        return digest

    scanned = scan_segment(
        OsFileSystem(),
        SegmentFile(path, start_offset, segment_bytes),
        digest_and_take,
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
    return _joined(start_offset, scanned.digests)


class _Part(NamedTuple):
    """Some records. start_offset: physical. topics: their names."""

    start_offset: int
    size_bytes: int
    records: int
    min_store_timestamp: int
    max_store_timestamp: int
    topics: set[str]


class _Queue(NamedTuple):
    """Messages of a queue. end_offset: behind the greatest queue offset."""

    topic: str
    queue_id: int
    messages: int
    start_offset: int
    end_offset: int


class _Digest(NamedTuple):
    """What is in a piece of whole records."""

    parts: list[_Part]
    queues: list[_Queue]


def _digest(part_bytes: int, piece: Piece) -> _Digest:
    """Its parts are of at most about `part_bytes`."""
    from mqstore.index.arrow import column_kernels
    from mqstore.index.arrow.records import Records

    size = len(piece.data)
    layout = np.empty((column_kernels.LAYOUT_FIELDS, size // column_kernels.MIN_RECORD_BYTES), np.int32)
    count, _ = column_kernels.walk(piece.data, size, piece.base_offset, size, layout)
    records = Records(piece.data, np.ascontiguousarray(layout[:, :count]))
    firsts = np.unique(np.searchsorted(records.starts, np.arange(0, size, part_bytes)))
    firsts = firsts[firsts < count]
    begins = records.starts[firsts].astype(np.int64)
    messages = records.select(records.sys_flags & TRANSACTION_PREPARED == 0)
    topic_of_message, names = _distinct_topics(messages)
    in_parts = _topics_in_parts(topic_of_message, names, messages.starts, begins)
    times = records.store_timestamps_ms
    parts = [
        _Part(
            piece.base_offset + begin,
            end - begin,
            behind - first,
            int(times[first:behind].min()),
            int(times[first:behind].max()),
            within,
        )
        for begin, end, first, behind, within in zip(
            begins.tolist(),
            [*begins[1:].tolist(), size],
            firsts.tolist(),
            [*firsts[1:].tolist(), count],
            in_parts,
            strict=True,
        )
    ]
    return _Digest(parts, _queues(topic_of_message, names, messages))


def _distinct_topics(messages: "Records") -> tuple[npt.NDArray[np.int32], list[str]]:
    """The number of each message's topic, and the topics by their numbers."""
    from mqstore.index.arrow.column_kernels import TOPIC_LENGTH, TOPIC_START

    starts, lengths = messages.layout[TOPIC_START], messages.layout[TOPIC_LENGTH]
    topic_of_message, firsts = messages.distinct(starts, lengths)
    topics = zip(starts[firsts].tolist(), lengths[firsts].tolist(), strict=True)
    names = [
        messages.buffer[start : start + length].tobytes().decode("utf-8", "replace")
        for start, length in topics
    ]
    return topic_of_message, names


def _topics_in_parts(
    topic_of_message: npt.NDArray[np.int32],
    names: list[str],
    starts: npt.NDArray[np.int32],
    begins: npt.NDArray[np.int64],
) -> list[set[str]]:
    """The topics of each part. starts: where the messages begin; begins: where the parts do."""
    found: list[set[str]] = [set() for _ in begins]
    part_of_message = np.searchsorted(begins, starts, side="right") - 1
    is_within = np.zeros((len(begins), len(names)), np.bool_)
    is_within[part_of_message, topic_of_message] = True
    for part, topic in np.argwhere(is_within).tolist():
        found[part].add(names[topic])
    return found


def _queues(topic_of_message: npt.NDArray[np.int32], names: list[str], messages: "Records") -> list[_Queue]:
    if not len(messages):
        return []
    queue_ids = messages.int32(messages.starts, QUEUE_ID_POSITION)
    queue_offsets = messages.int64(messages.starts, QUEUE_OFFSET_POSITION)
    queue_of_message = topic_of_message.astype(np.int64) << 32 | queue_ids.view(np.uint32)
    order = np.argsort(queue_of_message)
    _, firsts, counts = np.unique(queue_of_message[order], return_index=True, return_counts=True)
    of_queues = zip(
        topic_of_message[order[firsts]].tolist(),
        queue_ids[order[firsts]].tolist(),
        counts.tolist(),
        np.minimum.reduceat(queue_offsets[order], firsts).tolist(),
        np.maximum.reduceat(queue_offsets[order], firsts).tolist(),
        strict=True,
    )
    return [
        _Queue(names[topic], queue_id, messages, least, greatest + 1)
        for topic, queue_id, messages, least, greatest in of_queues
    ]


def _joined_topics(digests: Sequence[_Digest]) -> dict[str, ArchivedTopic]:
    messages: dict[str, int] = {}
    queues: dict[str, dict[int, tuple[int, int]]] = {}
    for digest in digests:
        for topic, queue_id, count, begin, end in digest.queues:
            messages[topic] = messages.get(topic, 0) + count
            of_topic = queues.setdefault(topic, {})
            known_begin, known_end = of_topic.get(queue_id, (begin, end))
            of_topic[queue_id] = min(known_begin, begin), max(known_end, end)
    return {
        topic: ArchivedTopic(messages=messages[topic], queues=dict(sorted(queues[topic].items())))
        for topic in sorted(messages)
    }


def _joined(start_offset: int, digests: Sequence[_Digest]) -> SegmentContent:
    topics = _joined_topics(digests)
    places = {topic: place for place, topic in enumerate(topics)}
    # With more topics the parts would tell of all of them anyway.
    tells_topics = len(topics) <= _MOST_TOPICS
    parts = [part for digest in digests for part in digest.parts]
    return SegmentContent(
        sum(part.records for part in parts),
        min((part.min_store_timestamp for part in parts), default=0),
        max((part.max_store_timestamp for part in parts), default=0),
        topics,
        tuple(
            ArchivedPart(
                part.start_offset - start_offset,
                part.size_bytes,
                part.records,
                part.min_store_timestamp,
                part.max_store_timestamp,
                tuple(sorted(places[topic] for topic in part.topics)) if tells_topics else None,
            )
            for part in parts
        ),
    )
