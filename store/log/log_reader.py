"""The log reader: bytes and messages of the log by their physical offset.

It reads below the visible offset (log_offsets.py) and finds nothing that retention has deleted.

Threads: any, without a lock. What it returns are views, which keep their mapping alive.
"""

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.store.files.mapped_file_queue import MappedFileQueue
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.log.log_offsets import LogOffsets
from mqstore.store.message.compiled_read import READS, DirectReader
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.record_format import (
    HEADER_BYTES,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    SYS_FLAG_POSITION,
    store_timestamp_position,
)
from mqstore.store.record.sys_flag import BORN_HOST_V6, COMPRESSED, STORE_HOST_V6

__all__ = ["LogChunk", "LogReader"]

_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
# Size, magic, physical offset, sys flag, and the body's length where both hosts are IPv4.
_LOOKED_AT = struct.Struct(">ii20xqi44xi")
assert _LOOKED_AT.size == HEADER_BYTES
# With one of these flags, a body begins elsewhere, or must be decompressed.
_RARE_BITS = BORN_HOST_V6 | STORE_HOST_V6 | COMPRESSED


class LogChunk(NamedTuple):
    """Consecutive bytes of one segment, beginning at a record.

    base_offset: physical offset of data[0]. data: uint8, a view. segment_end: physical offset where the
    segment ends.
    """

    base_offset: int
    data: npt.NDArray[np.uint8]
    segment_end: int


class LogReader:
    """Reads the log in `files`."""

    def __init__(self, files: MappedFileQueue, offsets: LogOffsets) -> None:
        self._files = files
        self._offsets = offsets
        self.direct: DirectReader | None = None
        if READS is not None:
            self.direct = READS.DirectReader(files, offsets, StoredMessage, self.look_message_by_offset)
            # Of the compiled way itself, so that a look is no call longer.
            self.look_message_by_offset = self.direct.look_message_by_offset  # type: ignore[method-assign]

    def chunk(self, offset: int, limit_bytes: int) -> LogChunk | None:
        """Up to `limit_bytes` visible bytes from the record at `offset`; None if there are none.

        The limit may cut the last record. None for an offset below `min_offset`, too.
        """
        mapped_file = self._files.file_for(offset)
        if mapped_file is None:
            return None
        position = offset - mapped_file.start_offset
        stop = min(
            self._offsets.visible_offset - mapped_file.start_offset,
            position + limit_bytes,
            mapped_file.size_bytes,
        )
        if stop <= position:
            return None
        try:
            return LogChunk(offset, mapped_file.array[position:stop], mapped_file.end_offset)
        except FileNotFoundError as error:
            raise_foreign(error)
            return None

    def record_at(self, physical_offset: int, size_bytes: int) -> memoryview | None:
        """The bytes of a record whose place and size an index has; None if not all of them are visible."""
        mapped_file = self._files.file_for(physical_offset)
        end = physical_offset + size_bytes
        if mapped_file is None or end > min(self._offsets.visible_offset, mapped_file.end_offset):
            return None
        position = physical_offset - mapped_file.start_offset
        try:
            return mapped_file.view[position : position + size_bytes]
        except FileNotFoundError as error:
            raise_foreign(error)
            # Retention (perhaps of another process) deleted the file before it was first mapped here.
            return None

    def look_message_by_offset(self, physical_offset: int) -> StoredMessage | None:
        """The message whose record begins at `physical_offset`; None if no record begins there.

        Any number may be asked for: magic, stored physical offset and size are checked.
        """
        mapped_file = self._files.file_for(physical_offset)
        if mapped_file is None:
            return None
        start_offset = mapped_file.start_offset
        start, visible = physical_offset - start_offset, self._offsets.visible_offset - start_offset
        stop = min(visible, mapped_file.size_bytes)
        if start + HEADER_BYTES > stop:
            return None
        try:
            view = mapped_file.view
        except FileNotFoundError as error:
            raise_foreign(error)
            return None
        total_size, magic, stored_offset, sys_flag, body_length = _LOOKED_AT.unpack_from(view, start)
        if stored_offset != physical_offset or magic not in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2):
            return None
        if not HEADER_BYTES <= total_size <= stop - start:
            return None
        stop = start + total_size
        if magic == MESSAGE_MAGIC_CODE and not sys_flag & _RARE_BITS:
            body_stop = start + HEADER_BYTES + body_length
            if body_length >= 0 and _is_text_behind(view, body_stop, stop):
                return StoredMessage(view, start, stop, start + HEADER_BYTES, body_stop)
        message = StoredMessage(view, start, stop)
        return message if message.is_whole else None

    def store_timestamp_at(self, physical_offset: int) -> int:
        """Store time of the record at `physical_offset`, epoch ms; -1 if it cannot be read."""
        prefix = self.record_at(physical_offset, HEADER_BYTES)
        if prefix is None or physical_offset < self._offsets.min_offset:
            return -1
        at = store_timestamp_position(_INT.unpack_from(prefix, SYS_FLAG_POSITION)[0])
        timestamp: int = _LONG.unpack_from(prefix, at)[0]
        return timestamp

    def __repr__(self) -> str:
        return f"LogReader({self._offsets!r})"


def _is_text_behind(view: memoryview, body_stop: int, stop: int) -> bool:
    """Whether exactly the topic and the properties of a V1 record fill the bytes from its body to its end.

    True for nearly all records, which are then whole. For others call `StoredMessage.is_whole`.
    """
    if body_stop > stop - 3:
        return False
    at = body_stop + 1 + view[body_stop]
    return (
        at + 2 <= stop
        and at + 2 + (view[at] << 8 | view[at + 1]) == stop
        and view[at] | view[body_stop] < 128
    )
