"""A message store with small files, opened by hand: no services, a clock that stands still.

`SmallStore` is a directory that is opened, closed, killed and opened again; `content` is every byte of it.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mqstore import MessageStore, StoredMessage
from mqstore.index.keys.lmdb_key_index import LmdbKeyIndex
from mqstore.store.config import StoreConfig
from mqstore.store.files.file_system import FileSystem
from support.manual_clock import ManualClock
from support.stores.small_log import small_config

__all__ = ["SmallStore", "bodies_of", "directory_content", "messages_of"]


def directory_content(file_system: FileSystem, path: Path) -> dict[str, bytes]:
    """Every file under `path`."""
    content = {}
    for entry in file_system.list(path):
        child = path / entry.name
        if entry.is_directory:
            below = directory_content(file_system, child)
            content |= {f"{entry.name}/{name}": data for name, data in below.items()}
        else:
            content[entry.name] = file_system.read_at(child, 0, entry.size_bytes)
    return content


def messages_of(store: MessageStore, topic: str, queue_id: int = 0, tags: str = "*") -> list[StoredMessage]:
    """Every message of a queue, pulled as a consumer does."""
    offset, pulled = store.get_min_offset_in_queue(topic, queue_id), []
    while offset < store.get_max_offset_in_queue(topic, queue_id):
        result = store.get_message("test", topic, queue_id, offset, tags=tags)
        assert result.next_begin_offset > offset, result
        pulled += result.messages
        offset = result.next_begin_offset
    return pulled


def bodies_of(store: MessageStore, topic: str, queue_id: int = 0, tags: str = "*") -> list[bytes]:
    """The bodies of those messages."""
    return [message.body for message in messages_of(store, topic, queue_id, tags)]


class SmallStore:
    """A store directory on a file system."""

    def __init__(self, file_system: FileSystem, path: Path, *, clock: ManualClock | None = None) -> None:
        self.file_system = file_system
        self.path = path
        self.clock = clock or ManualClock()

    def open(
        self,
        config: StoreConfig | None = None,
        *,
        read_only: bool = False,
        start: bool = False,
        **settings: Any,
    ) -> MessageStore:
        """Open it; the settings are those of StoreConfig."""
        return MessageStore.open(
            self.path,
            config or small_config(**settings),
            read_only=read_only,
            clock=self.clock,
            file_system=self.file_system,
            start=start,
        )

    @contextlib.contextmanager
    def killed(self, **settings: Any) -> Iterator[MessageStore]:
        """Open it, and at the end drop it without closing, as a killed process does."""
        store = self.open(**settings)
        try:
            yield store
        finally:
            kill(store)

    @property
    def content(self) -> dict[str, bytes]:
        """Every file of it, but for LMDB's own lock file, which says who looked last."""
        content = directory_content(self.file_system, self.path)
        return {name: data for name, data in content.items() if not name.endswith("lock.mdb")}


def kill(store: MessageStore) -> None:
    """Let a store go as the end of its process would: locks and mappings go, nothing is written."""
    store.delivery.stop()
    store._services.stop()
    store._closed = True
    for feed in store._parts.key_feeds:
        if isinstance(feed.index, LmdbKeyIndex):
            feed.index._release()
    if store._parts.lock is not None:
        store._parts.lock.release()
