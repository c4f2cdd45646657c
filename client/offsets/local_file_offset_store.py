"""The offsets of a broadcasting consumer: a file of its own, since no two members share a queue.

    <directory>/<client id>/<group>/offsets.json       and the one before it in offsets.json.bak

A persist reads the file, puts in the queues that are owned, and replaces it as a whole: queues of topics
that are not subscribed now keep their offsets. Two consumers with one client id and group overwrite each
other's file, as they do in RocketMQ: give each an instance name.
Threads: any; one persist at a time. Durability: `persist` returns once the file survives a power cut.
Bytes: local_offset_format.py. Source: docs/spec/client_consume.md section 6; LocalFileOffsetStore.
"""

from collections.abc import Iterable
from pathlib import Path

from mqstore.broker.broker import MessageQueue
from mqstore.client.offsets import local_offset_format
from mqstore.client.offsets.offset_store import NO_OFFSET, OffsetTable
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.state_file import StateFile
from mqstore.store.threads.lock import Lock

__all__ = ["OFFSETS_FILE_NAME", "LocalFileOffsetStore"]

OFFSETS_FILE_NAME = "offsets.json"


class LocalFileOffsetStore:
    """An `OffsetStore` over a file. path: where it is."""

    def __init__(self, file_system: FileSystem, directory: Path, client_id: str, group: str) -> None:
        """directory: of all clients; RocketMQ's is `~/.rocketmq_offsets`."""
        self.path = directory / client_id / group / OFFSETS_FILE_NAME
        self._file = StateFile(file_system, self.path)
        self._table = OffsetTable()
        # Held while the file is read and replaced.
        self._file_lock = Lock()
        self.update = self._table.update
        self.update_and_freeze = self._table.update_and_freeze
        self.read = self._table.read
        self.remove = self._table.remove

    def load(self) -> None:
        """Read the file into memory. Raises StateFileCorrupt if neither it nor its .bak can be read."""
        for queue, offset in self._kept().items():
            self._table.update(queue, offset, increase_only=False)

    def read_kept(self, queue: MessageQueue) -> int:
        """What the file has; NO_OFFSET if nothing. Raises StateFileCorrupt, OSError."""
        return self._kept().get(queue, NO_OFFSET)

    def persist(self, queue: MessageQueue) -> None:
        """Write the offset of one queue. Raises StateFileCorrupt, StoreFull, OSError."""
        self.persist_all([queue])

    def persist_all(self, owned: Iterable[MessageQueue]) -> None:
        """Write the offsets of the queues that are owned. Raises StateFileCorrupt, StoreFull, OSError."""
        known = {queue: offset for queue in owned if (offset := self._table.read(queue)) != NO_OFFSET}
        if known:
            with self._file_lock:
                kept = self._file.load(local_offset_format.decode) or {}
                self._file.save(local_offset_format.encode(kept | known))

    def _kept(self) -> dict[MessageQueue, int]:
        with self._file_lock:
            return self._file.load(local_offset_format.decode) or {}

    def __repr__(self) -> str:
        return f"LocalFileOffsetStore({str(self.path)!r}, {self._table!r})"
