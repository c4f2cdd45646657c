"""The sealed segments of a log: those that will not change any more, and what is in each.

A segment is sealed when all of it is durable: the log goes on behind it, and no power cut can bring its end
back. For a writer that is what it has synced. A reader beside it takes the recovery point, which the writer
saves about once a second, and in a directory that only RocketMQ has written the place where a recovery
would begin.

Each record is checked, CRCs too, before its segment is archived: damage must not replace the only good copy
of something. Nothing is changed. Threads: any.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue_format import ENTRY_DTYPE
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
from mqstore.tools.archive.manifest import ArchivedPart, ArchivedTopic
from mqstore.verify.log_scan import Piece, scan_segments

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


def pieces_of(store: MessageStore, start_offset: int) -> Iterator[bytes]:
    """The bytes of a segment. Raises FileNotFoundError when retention has deleted it."""
    path, size_bytes = segment_path(store, start_offset), store.config.mapped_file_size_commit_log
    for position in range(0, size_bytes, LOCAL_PIECE_BYTES):
        piece = OsFileSystem().read_at(path, position, min(LOCAL_PIECE_BYTES, size_bytes - position))
        if len(piece) != min(LOCAL_PIECE_BYTES, size_bytes - position):
            raise CorruptRecord(path, position + len(piece), f"{size_bytes} bytes", "the end of the file")
        yield piece


def size_and_crc32c(pieces: Iterator[bytes]) -> tuple[int, int]:
    """(number of bytes, CRC-32C) of pieces."""
    size_bytes, checksum = 0, 0
    for piece in pieces:
        size_bytes += len(piece)
        checksum = crc32c(piece, checksum)
    return size_bytes, checksum


def inspect_segment(store: MessageStore, start_offset: int) -> SegmentContent:
    """Check a sealed segment and say what is in it. Raises CorruptRecord, FileNotFoundError."""
    path, segment_bytes = segment_path(store, start_offset), store.config.mapped_file_size_commit_log
    part_bytes = max(segment_bytes // _PARTS, _LEAST_PART_BYTES)
    scan = scan_segments(
        OsFileSystem(),
        [SegmentFile(path, start_offset, segment_bytes)],
        partial(_digest, np.zeros((1, 2), np.int64), part_bytes),
        segment_bytes=segment_bytes,
        max_record_bytes=store.config.max_message_size + MAX_RECORD_OVERHEAD_BYTES,
        workers=1,
    )
    (scanned,) = scan
    if scanned.damages:
        damage = scanned.damages[0]
        position = damage.start_offset - start_offset
        raise CorruptRecord(path, position, damage.expected, damage.found)
    if not scanned.is_closed or scanned.unreadable:
        if not path.exists():
            raise FileNotFoundError(path)
        position = scanned.end_offset - start_offset
        raise CorruptRecord(path, position, "records up to a BLANK", scanned.tail_found)
    return _joined(start_offset, scanned.digests)


class _Part(NamedTuple):
    """Some records. start_offset: physical. topics: their names."""

    start_offset: int
    size_bytes: int
    records: int
    min_store_timestamp: int
    max_store_timestamp: int
    topics: set[str]


class _Digest(NamedTuple):
    """What is in a piece of whole records."""

    parts: list[_Part]
    topics: dict[str, ArchivedTopic]


def _digest(delay_tables: npt.NDArray[np.int64], part_bytes: int, piece: Piece) -> _Digest:
    """Its parts are of at most about `part_bytes`."""
    from mqstore.index.arrow import column_kernels
    from mqstore.index.arrow.records import Records
    from mqstore.index.queue import entry_kernels

    size = len(piece.data)
    layout = np.empty((column_kernels.LAYOUT_FIELDS, size // column_kernels.MIN_RECORD_BYTES), np.int32)
    count, _ = column_kernels.walk(piece.data, size, piece.base_offset, size, layout)
    times = Records(piece.data, np.ascontiguousarray(layout[:, :count])).store_timestamps_ms
    starts = layout[column_kernels.POSITION, :count]
    firsts = np.unique(np.searchsorted(starts, np.arange(0, size, part_bytes)))
    firsts = firsts[firsts < count]
    begins = starts[firsts].astype(np.int64)
    entries, runs, *_ = entry_kernels.consume_queue_entries(piece.data, piece.base_offset, delay_tables)
    names, topics = _topics_of_runs(piece.data, runs)
    in_parts = _topics_in_parts(names, runs, entries, piece.base_offset + begins)
    ends = [*begins[1:].tolist(), size]
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
            begins.tolist(), ends, firsts.tolist(), [*firsts[1:].tolist(), count], in_parts, strict=True
        )
    ]
    return _Digest(parts, topics)


def _topics_of_runs(
    data: npt.NDArray[np.uint8], runs: npt.NDArray[np.int64]
) -> tuple[list[str], dict[str, ArchivedTopic]]:
    """The topic of each run of entries; what all runs together have of each."""
    names: list[str] = []
    topics: dict[str, ArchivedTopic] = {}
    for _, messages, queue_offset, topic_at, topic_length, queue_id in runs.tolist():
        topic = data[topic_at : topic_at + topic_length].tobytes().decode("utf-8", "replace")
        run = ArchivedTopic(messages=messages, queues={queue_id: (queue_offset, queue_offset + messages)})
        topics[topic] = _joined_topic(topics.get(topic), run)
        names.append(topic)
    return names, topics


def _topics_in_parts(
    names: list[str],
    runs: npt.NDArray[np.int64],
    entries: npt.NDArray[np.uint8],
    begins: npt.NDArray[np.int64],
) -> list[set[str]]:
    """The topics of each part. begins: physical offsets of the parts."""
    found: list[set[str]] = [set() for _ in begins]
    part_of_entry = np.searchsorted(begins, entries.view(ENTRY_DTYPE)["physical_offset"], side="right") - 1
    run_of_entry = np.repeat(np.arange(len(runs)), runs[:, 1])
    for pair in np.unique(run_of_entry * len(begins) + part_of_entry).tolist():
        run, part = divmod(pair, len(begins))
        found[part].add(names[run])
    return found


def _joined(start_offset: int, digests: Sequence[_Digest]) -> SegmentContent:
    topics: dict[str, ArchivedTopic] = {}
    for digest in digests:
        for topic, found in digest.topics.items():
            topics[topic] = _joined_topic(topics.get(topic), found)
    places = {topic: place for place, topic in enumerate(sorted(topics))}
    # With more topics the parts would tell of all of them anyway.
    tells_topics = len(topics) <= _MOST_TOPICS
    parts = [part for digest in digests for part in digest.parts]
    return SegmentContent(
        sum(part.records for part in parts),
        min((part.min_store_timestamp for part in parts), default=0),
        max((part.max_store_timestamp for part in parts), default=0),
        dict(sorted(topics.items())),
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


def _joined_topic(one: ArchivedTopic | None, other: ArchivedTopic) -> ArchivedTopic:
    if one is None:
        return other
    queues = dict(one.queues)
    for queue_id, (begin, end) in other.queues.items():
        known_begin, known_end = queues.get(queue_id, (begin, end))
        queues[queue_id] = min(known_begin, begin), max(known_end, end)
    return ArchivedTopic(messages=one.messages + other.messages, queues=dict(sorted(queues.items())))
