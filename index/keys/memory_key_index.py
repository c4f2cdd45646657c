"""The key index in memory: for a store that lives in memory, where LMDB has no files to work on.

A dictionary from (topic, key) to the offsets of its messages, filled by decoding each record in plain Python.
It shares only the contract (key_index.py) with the index on disk (lmdb_key_index.py), so that tests can check
one against the other.

Rebuilt from the commit log at every open. Threads: one lock around everything.
"""

import struct
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from mqstore.index.keys.key_index import message_with_key
from mqstore.store.clock import END_OF_TIME_MS
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.log_reader import LogChunk
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.record_format import BLANK_MAGIC_CODE, BLANK_MIN_BYTES, FIXED_BYTES
from mqstore.store.record.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from mqstore.store.threads.lock import Lock

__all__ = ["MemoryKeyIndex"]

_PREFIX = struct.Struct(">ii")


class MemoryKeyIndex:
    """The keys of one store, in a dictionary; see key_index.py for what the methods promise."""

    def __init__(self, commit_log: CommitLog) -> None:
        self._commit_log = commit_log
        self._lock = Lock()
        # Offsets of each (topic, key), ascending. Under _lock.
        self._offsets: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._dispatched_offset = 0

    @property
    def dispatched_offset(self) -> int:
        """Physical offset up to which keys have been taken in."""
        return max(self._dispatched_offset, self._commit_log.min_offset)

    @property
    def entry_count(self) -> int:
        """Entries held."""
        with self._lock:
            return sum(map(len, self._offsets.values()))

    def absorb(self, chunk: LogChunk) -> int:
        with self._lock:
            consumed_bytes = 0
            for message in self._whole_records(chunk):
                self._put(message)
                consumed_bytes += message.store_size
            if self._is_blank(chunk, consumed_bytes):
                consumed_bytes = chunk.segment_end - chunk.base_offset
            if consumed_bytes:
                self._dispatched_offset = max(self._dispatched_offset, chunk.base_offset + consumed_bytes)
            return consumed_bytes

    @staticmethod
    def _whole_records(chunk: LogChunk) -> Iterator[StoredMessage]:
        data, at = chunk.data.data, 0
        while at + FIXED_BYTES <= len(data):
            size = _PREFIX.unpack_from(data, at)[0]
            message = StoredMessage.of(data[at : at + size])
            if not FIXED_BYTES <= size <= len(data) - at or not message.is_whole:
                return
            if message.physical_offset != chunk.base_offset + at:
                return
            yield message
            at += size

    @staticmethod
    def _is_blank(chunk: LogChunk, at: int) -> bool:
        has_prefix = at + BLANK_MIN_BYTES <= len(chunk.data)
        return has_prefix and bool(_PREFIX.unpack_from(chunk.data.data, at)[1] == BLANK_MAGIC_CODE)

    def _put(self, message: StoredMessage) -> None:
        offset = message.physical_offset
        if offset < self._dispatched_offset or message.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
            return
        for key in {*message.keys, message.unique_key}:
            if key:
                insort(self._offsets[message.topic, key], offset)

    def query(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = END_OF_TIME_MS, max_num: int = 32
    ) -> list[StoredMessage]:
        with self._lock:
            offsets = tuple(self._offsets.get((topic, key), ()))
        found: list[StoredMessage] = []
        for offset in reversed(offsets):
            if len(found) >= max_num:
                break
            message = message_with_key(self._commit_log, offset, topic, key, begin_ms, end_ms)
            if message is not None:
                found.append(message)
        return found[::-1]

    def truncate(self, physical_offset: int) -> None:
        with self._lock:
            self._keep(lambda offsets: offsets[: bisect_left(offsets, physical_offset)])
            self._dispatched_offset = min(self._dispatched_offset, physical_offset)

    def delete_expired(self, min_physical_offset: int) -> None:
        with self._lock:
            self._keep(lambda offsets: offsets[bisect_left(offsets, min_physical_offset) :])

    def _keep(self, part: Callable[[list[int]], list[int]]) -> None:
        """Keep that part of each key's offsets; drop keys that have none left."""
        kept = {key: left for key, offsets in self._offsets.items() if (left := part(offsets))}
        self._offsets = defaultdict(list, kept)

    def flush(self) -> None:
        """There is nothing to make durable."""

    def copy_to(self, directory: Path) -> None:
        """There is nothing to copy."""

    def close(self) -> None:
        """There is nothing to release."""

    def drop(self) -> None:
        """There is nothing to release."""

    def destroy(self) -> None:
        self.truncate(0)

    def __repr__(self) -> str:
        return f"MemoryKeyIndex(dispatched_offset={self._dispatched_offset})"
