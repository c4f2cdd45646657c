"""The dispatcher: reads the log behind the writer and hands it, chunk by chunk, to what is derived from it.

One dispatcher feeds one sink (the consume queues, or a key index) and keeps the offset that it has reached.
It does not know what the sink does with the bytes, nor how durable that is.

Threads: any thread may call `run_once` and `catch_up`; under a lock one of them works at a time. A reader
that needs what was just written calls `catch_up`, and does the work itself if no other thread has.
A step that fails advances nothing: the error is kept in `error` and raised to the caller, and the next call
tries the same chunk again.
Source: DefaultMessageStore.ReputMessageService.
"""

from typing import Protocol

from mqstore.store.errors import CorruptRecord
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.log_reader import LogChunk
from mqstore.store.threads.lock import Lock

__all__ = ["DEFAULT_LIMIT_BYTES", "Dispatcher", "Sink"]

DEFAULT_LIMIT_BYTES = 4 << 20
"""Bytes of the log in one step: enough for the compiled loops to pay, and few enough to wait for."""


class Sink(Protocol):
    """Something that is derived from the log."""

    def absorb(self, chunk: LogChunk) -> int:
        """Take the whole records at the beginning of `chunk`; returns how many bytes are done.

        0 if there is no whole record; after a BLANK, all up to the segment's end. Bytes that were absorbed
        before may come again; they change nothing.
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
        self._lock = Lock()

    def run_once(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> int:
        """Dispatch up to `limit_bytes`, or one longer record; returns the bytes done, 0 if there were none.

        Raises CorruptRecord if the visible log continues with bytes that are no record, and any error of the
        sink.
        """
        with self._lock:
            return self._step(limit_bytes)

    def catch_up(self, to_offset: int) -> None:
        """Return once everything visible before `to_offset` is dispatched. Raises as `run_once`."""
        if self.dispatched_offset >= to_offset:
            return
        with self._lock:
            self._step_to(to_offset)

    def _step_to(self, to_offset: int) -> None:
        while self.dispatched_offset < to_offset and self._step(DEFAULT_LIMIT_BYTES):
            pass

    def _step(self, limit_bytes: int) -> int:
        try:
            # Retention may have deleted the segment that was next.
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
            # The limit may have cut the first record. It ends within the segment.
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
