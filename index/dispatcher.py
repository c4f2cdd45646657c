"""The dispatcher: reads the log behind the writer and hands it to what is derived from it, chunk by chunk.

One dispatcher feeds one sink (the consume queues, or the key index) and remembers how far it has come. It
does not know what the sink makes of the bytes, nor how durable that is.

Threads: `run_once` and `catch_up` may be called from any thread; one lock lets one of them work at a time.
A reader that needs what was just written calls `catch_up` and does the work itself if no one else has.
A step that fails moves nothing: the error is kept in `error`, raised to whoever asked, and the same chunk
is tried again by the next call.
Source: DefaultMessageStore.ReputMessageService.
"""

import threading
from typing import Protocol

from mqstore.store.errors import CorruptRecord
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.log_reader import LogChunk

__all__ = ["DEFAULT_LIMIT_BYTES", "Dispatcher", "Sink"]

DEFAULT_LIMIT_BYTES = 4 << 20
"""Bytes of the log that one step takes: long enough for the compiled loops, short enough to wait for."""


class Sink(Protocol):
    """Something that is derived from the log."""

    def absorb(self, chunk: LogChunk) -> int:
        """Take the whole records at the beginning of `chunk`; returns the bytes that are done with.

        0 when there is no whole record; up to the segment's end behind a BLANK. Bytes absorbed before
        may come again and change nothing.
        """
        ...


class Dispatcher:
    """Feeds `sink` from `start_offset` on."""

    def __init__(
        self,
        commit_log: CommitLog,
        sink: Sink,
        start_offset: int,
        name: str,
    ) -> None:
        self.name = name
        # Physical offset up to which the sink has absorbed the log. Written under _lock, read by anyone.
        self.dispatched_offset = start_offset
        # Why the last step failed; None when it did not. Written under _lock.
        self.error: Exception | None = None
        self._commit_log = commit_log
        self._sink = sink
        self._lock = threading.Lock()

    def run_once(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> int:
        """Dispatch up to `limit_bytes` (or one longer record); returns the bytes done, 0 for none to do.

        Raises CorruptRecord when the visible log goes on with something that is no record, and whatever
        the sink raises.
        """
        with self._lock:
            return self._step(limit_bytes)

    def catch_up(self, to_offset: int) -> None:
        """Return once everything visible before `to_offset` is dispatched. Raises as `run_once`."""
        if self.dispatched_offset >= to_offset:
            return
        with self._lock:
            while self.dispatched_offset < to_offset and self._step(DEFAULT_LIMIT_BYTES):
                pass

    def _step(self, limit_bytes: int) -> int:
        try:
            # Retention may have overtaken it.
            offset = max(self.dispatched_offset, self._commit_log.min_offset)
            done_bytes = self._absorb(offset, limit_bytes)
        except Exception as error:
            self.error = error
            raise
        self.error = None
        if done_bytes:
            self.dispatched_offset = offset + done_bytes
        return done_bytes

    def _absorb(self, offset: int, limit_bytes: int) -> int:
        chunk = self._commit_log.chunk(offset, limit_bytes)
        if chunk is None:
            return 0
        done_bytes = self._sink.absorb(chunk)
        if done_bytes == 0 and len(chunk.data) >= limit_bytes:
            # The limit may have cut the one record there is; a segment is the most that it can take.
            return self._absorb(offset, chunk.segment_end - offset + 1)
        if done_bytes == 0:
            raise self._no_record(chunk)
        return done_bytes

    def _no_record(self, chunk: LogChunk) -> CorruptRecord:
        path, position = self._commit_log.place_of(chunk.base_offset)
        found = chunk.data[:8].tobytes().hex(" ")
        return CorruptRecord(path, position, f"a record at physical offset {chunk.base_offset}", found)

    def __repr__(self) -> str:
        return f"Dispatcher({self.name!r}, dispatched_offset={self.dispatched_offset}, error={self.error!r})"
