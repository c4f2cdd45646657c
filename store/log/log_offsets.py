"""The offsets of one log: where it begins, how far it is written, durable and visible.

At every moment min offset <= flushed offset <= max offset (I3). Readers see nothing at or behind the visible
offset: that is the flushed offset with SYNC_FLUSH, else the max offset.

Threads: `current` and `unfinished` are written by log_appender.py under the append lock, `flushed_offset` by
flusher.py. Any thread reads without a lock.
"""

from typing import TypeAlias

from mqstore.store.files.mapped_file import MappedFile
from mqstore.store.files.mapped_file_queue import MappedFileQueue

__all__ = ["END_OF_LOG", "LogOffsets", "UnfinishedAppend"]

END_OF_LOG = 2**63 - 1
"""A physical offset that no record has: no upper bound."""


UnfinishedAppend: TypeAlias = tuple[MappedFile, int, int, dict[tuple[str, int], int]]
"""An append from its first change on: its segment, position and bytes, and the queue offsets before it.

A plain tuple: no code of Python, which may be interrupted, runs when it is made.
"""


class LogOffsets:
    """Physical offsets of the log in `files`."""

    def __init__(self, files: MappedFileQueue, *, is_sync_flush: bool) -> None:
        # The segment that is appended to; None before the first append to an empty log.
        self.current: MappedFile | None = None
        # The log is durable up to this byte. Never ahead of max_offset.
        self.flushed_offset = 0
        # Found by the next append, if an interrupt kept this one from its end and from undoing itself.
        self.unfinished: UnfinishedAppend | None = None
        self._files = files
        self._is_sync_flush = is_sync_flush

    @property
    def min_offset(self) -> int:
        """Physical offset of the first byte that is kept."""
        return self._files.min_offset

    @property
    def max_offset(self) -> int:
        """Physical offset behind the last record written."""
        current = self.current
        return current.start_offset + current.wrote_position if current is not None else self.min_offset

    @property
    def visible_offset(self) -> int:
        """Physical offset that readers may read up to."""
        if self._is_sync_flush:
            return self.flushed_offset
        current = self.current
        return current.start_offset + current.wrote_position if current is not None else self.min_offset

    def set_end(self, end_offset: int) -> None:
        """Make `end_offset` the end of the log, written and durable up to there."""
        files = self._files.files
        for mapped_file in files:
            position = end_offset - mapped_file.start_offset
            mapped_file.wrote_position = max(0, min(position, mapped_file.size_bytes))
        self.current = self._files.file_for(end_offset) or (files[-1] if files else None)
        self.flushed_offset = end_offset

    def __repr__(self) -> str:
        return (
            f"LogOffsets(min_offset={self.min_offset}, flushed_offset={self.flushed_offset}, "
            f"max_offset={self.max_offset})"
        )
