"""The file `checkpoint`: up to which store times log and queues are durable, for a RocketMQ broker.

It is written only after log and queues were synced, with timestamps of what was synced. Our own recovery
uses offsets instead (recovery_point_file.py). The checkpoint is for a broker that opens the directory after
us. Our recovery begins from it in a directory that only a broker has written.
Durability: when `save` returns. Threads: any.
"""

from pathlib import Path

from mqstore.store.files.file_system import FileSystem, MappedRegion
from mqstore.store.state.checkpoint_format import (
    CHECKPOINT_FILE_BYTES,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from mqstore.store.threads.lock import Lock

__all__ = ["CheckpointFile"]


class CheckpointFile:
    """`<root>/checkpoint`."""

    def __init__(self, file_system: FileSystem, path: Path) -> None:
        self._file_system = file_system
        self._path = path
        self._region: MappedRegion | None = None
        self._lock = Lock()
        self.checkpoint = Checkpoint()

    def load(self) -> Checkpoint:
        """Read the file; a missing one reads as zeros."""
        if self._file_system.exists(self._path):
            self.checkpoint = decode_checkpoint(self._file_system.read(self._path))
        return self.checkpoint

    def save(
        self,
        physic_msg_timestamp: int,
        logics_msg_timestamp: int,
        index_msg_timestamp: int = 0,
        logics_physical_offset: int = 0,
    ) -> None:
        """Write and sync the timestamps that are ours; the other fields stay as they were found.

        0 means: no message since the store was opened. Such a timestamp is not changed either.
        """
        ours = {
            "physic_msg_timestamp": physic_msg_timestamp,
            "logics_msg_timestamp": logics_msg_timestamp,
            "index_msg_timestamp": index_msg_timestamp,
            "logics_physical_offset": logics_physical_offset,
        }
        given = {name: value for name, value in ours.items() if value}
        with self._lock:
            self._save(self.checkpoint._replace(**given))

    def _save(self, checkpoint: Checkpoint) -> None:
        if checkpoint == self.checkpoint and self._region is not None:
            return
        if self._region is None:
            self._region = self._map()
        self._region.write(0, encode_checkpoint(checkpoint))
        self._region.sync()
        self.checkpoint = checkpoint

    def _map(self) -> MappedRegion:
        if self._file_system.exists(self._path):
            whole = self._file_system.read(self._path)[:CHECKPOINT_FILE_BYTES]
            if len(whole) < CHECKPOINT_FILE_BYTES:
                self._file_system.delete(self._path)
        region = self._file_system.map(self._path, CHECKPOINT_FILE_BYTES, create=True)
        region.reserve(0, CHECKPOINT_FILE_BYTES)
        self._file_system.sync_directory(self._path.parent)
        return region

    def __repr__(self) -> str:
        return f"CheckpointFile({str(self._path)!r}, {self.checkpoint})"
