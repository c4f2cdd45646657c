"""A commit log with keys in it, and the plain twins of the key index's kernel.

`KeyLog` appends messages to a real commit log, lets a test feed it to an index in pieces of any size, and
can cut its end off as recovery does.
"""

from collections.abc import Sequence
from pathlib import Path

from mqstore.index.keys.key_index import KeyIndex, key_hash
from mqstore.store.config import StoreConfig
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.message.message import Message
from mqstore.store.message.message_encoder import MessageEncoder
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from support.manual_clock import ManualClock

__all__ = ["SEGMENT_BYTES", "KeyLog", "keys_of", "open_log", "plain_key_rows"]

SEGMENT_BYTES = 131_072
_CONFIG = StoreConfig(mapped_file_size_commit_log=SEGMENT_BYTES, max_message_size=4_096)


def open_log(
    file_system: FileSystem, directory: Path, clock: ManualClock, *, read_only: bool = False
) -> CommitLog:
    """The log in a directory, its end at the end of its last file; set it with `set_end`."""
    log = CommitLog(file_system, directory, _CONFIG, clock, read_only=read_only)
    log.load()
    return log


class KeyLog:
    """A commit log, in memory unless another file system is given."""

    def __init__(
        self,
        file_system: FileSystem | None = None,
        directory: Path = Path("/log"),
        clock: ManualClock | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.log = open_log(file_system or MemoryFileSystem(), directory, self.clock)
        self._encoder = MessageEncoder(_CONFIG)

    def put(
        self,
        keys: str | Sequence[str] = (),
        *,
        topic: str = "T",
        unique: str | None = None,
        tags: str | None = None,
        sys_flag: int = 0,
    ) -> int:
        """Append one message; returns its physical offset."""
        properties = {} if unique is None else {"UNIQ_KEY": unique}
        message = Message(topic, b"body", tags=tags, keys=keys, properties=properties, sys_flag=sys_flag)
        return self.log.append(self._encoder.encode(message)).physical_offset

    def feed(self, index: KeyIndex, limit_bytes: int = 1 << 20) -> int:
        """Let the index absorb all that it has not yet; returns where it stands then."""
        return self.feed_from(index, index.dispatched_offset, limit_bytes)

    def feed_from(self, index: KeyIndex, offset: int, limit_bytes: int = 1 << 20) -> int:
        """As `feed`, beginning at an offset, absorbed or not."""
        while (chunk := self.log.chunk(offset, limit_bytes)) is not None:
            used_bytes = index.absorb(chunk)
            if not used_bytes:
                break
            offset += used_bytes
        return index.dispatched_offset

    def cut(self, offset: int) -> None:
        """Take everything from `offset` on away, as recovery does with a torn tail."""
        for mapped_file in self.log.files.files:
            if mapped_file.end_offset > offset:
                mapped_file.erase_from(max(0, offset - mapped_file.start_offset))
        self.log.set_end(offset, 0)


def keys_of(message: StoredMessage) -> list[str]:
    """The keys under which a message is indexed, repeated ones too, the unique key first."""
    if message.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return []
    return [key for key in (message.unique_key, *message.keys) if key]


def plain_key_rows(log: CommitLog, offsets: Sequence[int]) -> list[tuple[int, int, int]]:
    """What `key_entries` makes of the records at these offsets."""
    messages = [log.look_message_by_offset(offset) for offset in offsets]
    return [
        (key_hash(message.topic, key), message.store_timestamp, message.physical_offset)
        for message in messages
        if message is not None
        for key in keys_of(message)
    ]
