"""A walk over the log on any file system, record by record, in plain Python.

Written from the record's description, without the decoder and the kernels of mqstore: the oracle of the
crash tests must not share a mistake with what it judges.
"""

import functools
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mqstore.store.files.file_system import FileSystem

__all__ = ["SCHEDULE_TOPIC", "LogEnd", "LogRecord", "java_hash", "walk_log"]

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
_V1, _V2, _BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
_START = struct.Struct(">iIiiiqqi")


class LogRecord(NamedTuple):
    """One record. `is_whole`: its lengths add up and its CRCs match."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    store_timestamp: int
    reconsume_times: int
    body: bytes
    properties: dict[str, str]
    is_whole: bool

    @property
    def number(self) -> int:
        """The number that the body begins with (witness.py)."""
        return int(self.body[:6])


class LogEnd(NamedTuple):
    """Where the walk ended, and how many bytes other than zero follow."""

    offset: int
    bytes_behind: int


def walk_log(disk: "FileSystem", directory: Path) -> tuple[list[LogRecord], LogEnd]:
    """All records from the first segment on, up to the first thing that is none."""
    records: list[LogRecord] = []
    end, bytes_behind, ended = 0, 0, False
    for entry in disk.list(directory):
        start, data = int(entry.name), disk.read(directory / entry.name)
        at = 0
        if not ended:
            end = start
            at, ended = _walk_segment(data, start, records)
            end = start + at
        bytes_behind += len(data) - at - data.count(0, at) if at < len(data) else 0
    return records, LogEnd(end, bytes_behind)


def _walk_segment(data: bytes, start: int, records: list[LogRecord]) -> tuple[int, bool]:
    """(position behind the last record or the segment, whether the log ends there)."""
    at = 0
    while at + 8 <= len(data):
        size, magic = struct.unpack_from(">iI", data, at)
        if magic == _BLANK and size == len(data) - at:
            return len(data), False
        if magic not in (_V1, _V2) or not 88 <= size <= len(data) - at:
            return at, True
        record = _decode(data[at : at + size])
        if record is None or record.physical_offset != start + at:
            return at, True
        records.append(record)
        at += size
    return at, at < len(data)


@functools.lru_cache(maxsize=8192)
def _decode(data: bytes) -> LogRecord | None:
    size, magic, crc, queue_id, _, queue_offset, physical_offset, sys_flag = _START.unpack_from(data)
    at = 48 + (20 if sys_flag & 0x10 else 8)
    (store_timestamp,) = struct.unpack_from(">q", data, at)
    at += 8 + (20 if sys_flag & 0x20 else 8)
    (reconsume_times,) = struct.unpack_from(">i", data, at)
    body, at = _field(data, at + 12, ">i")
    topic, at = _field(data, at, ">b" if magic == _V1 else ">h")
    stored, at = _field(data, at, ">h")
    digits = b"%010d" % (zlib.crc32(data[:-20]) & 0x7FFF_FFFF)
    is_whole = (
        at == size == len(data)
        and crc == zlib.crc32(body) & 0x7FFF_FFFF
        and data[-20:] == b"__CRC32#\x01" + digits[::-1] + b"\x02"
    )
    return LogRecord(
        physical_offset,
        size,
        topic.decode(errors="replace"),
        queue_id,
        queue_offset,
        store_timestamp,
        reconsume_times,
        body,
        _properties(stored),
        is_whole,
    )


def _field(data: bytes, at: int, length_format: str) -> tuple[bytes, int]:
    try:
        (length,) = struct.unpack_from(length_format, data, at)
    except struct.error:
        return b"", len(data) + 1
    start = at + struct.calcsize(length_format)
    return data[start : start + length], start + length


def _properties(stored: bytes) -> dict[str, str]:
    pairs = (chunk.split("\x01", 1) for chunk in stored.decode(errors="replace").split("\x02"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


@functools.lru_cache(maxsize=256)
def java_hash(text: str) -> int:
    """Java's String.hashCode of a text of the basic plane."""
    code = 0
    for character in text:
        code = (31 * code + ord(character)) % 2**32
    return code - 2**32 if code >= 2**31 else code
