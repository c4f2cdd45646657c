"""What a key index can do, and what it means that a message has a key.

Two implementations: `LmdbKeyIndex` (lmdb_key_index.py: LMDB, on the disk) and `MemoryKeyIndex`
(memory_key_index.py: for a store in memory, and the plain twin of the other). Both are fed by the
dispatcher, in the order of the log, and both are asked by `MessageStore.query_message`.

A message has a key when it is its UNIQ_KEY or one of the blank-separated words of its KEYS. Half records
have keys, rollback records have none (spec: IndexService#buildIndex). Answers are exact: a hash leads to
candidates, and each is compared with its record in the log before it is returned.
Threads: every method may be called from any thread.
"""

from pathlib import Path
from typing import Protocol

from mqstore.store.clock import END_OF_TIME_MS
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.log_reader import LogChunk
from mqstore.store.message.stored_message import StoredMessage

__all__ = ["KeyIndex", "has_key", "key_hash", "message_with_key"]

_FNV_OFFSET_BASIS = 0xCBF2_9CE4_8422_2325
_FNV_PRIME = 0x100_0000_01B3
_64_BITS = 2**64 - 1


class KeyIndex(Protocol):
    """From (topic, key) to messages."""

    @property
    def dispatched_offset(self) -> int:
        """Physical offset up to which keys have been taken in: the dispatcher continues there."""
        ...

    @property
    def entry_count(self) -> int:
        """Approximate number of (key, message) pairs."""
        ...

    def absorb(self, chunk: LogChunk) -> int:
        """Take in the keys of the whole records at the beginning of `chunk`; returns the bytes used up.

        0 where no whole record begins. A BLANK uses up the rest of the segment. Records below
        `dispatched_offset` change nothing, so a chunk may come twice. Raises StoreFull; then nothing of
        the chunk was taken, and the same call may be made again.
        """
        ...

    def query(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = END_OF_TIME_MS, max_num: int = 32
    ) -> list[StoredMessage]:
        """The newest `max_num` messages of `topic` with `key`, ascending by physical offset.

        begin_ms, end_ms: store time in epoch ms, both inclusive. Only what was absorbed is found.
        """
        ...

    def truncate(self, physical_offset: int) -> None:
        """Drop the entries of records at or above `physical_offset`: the log was truncated there."""
        ...

    def delete_expired(self, min_physical_offset: int) -> None:
        """Free the space of entries whose records lie below `min_physical_offset`; some may stay."""
        ...

    def flush(self) -> None:
        """Make what was absorbed durable. Raises StoreFull; nothing is lost, and a later call may succeed."""
        ...

    def copy_to(self, directory: Path) -> None:
        """Copy a snapshot, if there is one, into a new directory; durable, except for its name."""
        ...

    def close(self) -> None:
        """Flush, and release everything. Safe to call twice."""
        ...

    def drop(self) -> None:
        """As `close`, but write nothing: the files may be another writer's by now."""
        ...

    def destroy(self) -> None:
        """Close and remove the files: the next open begins at the log's first record."""
        ...


def has_key(message: StoredMessage, key: str) -> bool:
    """Whether `key` is the message's unique key or one of its keys."""
    return key == message.unique_key or key in message.keys


def message_with_key(
    commit_log: CommitLog, physical_offset: int, topic: str, key: str, begin_ms: int, end_ms: int
) -> StoredMessage | None:
    """The message at `physical_offset` if it is one of those asked for, else None."""
    message = commit_log.look_message_by_offset(physical_offset)
    if message is None or not begin_ms <= message.store_timestamp <= end_ms:
        return None
    return message if message.topic == topic and has_key(message, key) else None


def key_hash(topic: str, key: str) -> int:
    """FNV-1a, 64 bits, of the UTF-8 bytes of `topic#key`, signed. Never change it: it is on disk.

    The compiled twin is in key_kernels.py (`key_entries`).

    >>> key_hash("TopicTest", "order-1").to_bytes(8, "big", signed=True).hex()
    'c324695ee2d21099'
    """
    code = _FNV_OFFSET_BASIS
    # No stored key holds a lone surrogate or its bytes, so nothing is found.
    for byte in f"{topic}#{key}".encode("utf-8", "surrogatepass"):
        code = (code ^ byte) * _FNV_PRIME & _64_BITS
    return code - 2**64 if code >= 2**63 else code
