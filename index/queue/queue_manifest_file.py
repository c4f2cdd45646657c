"""The file `mqstore/queue-names`: which consume queues there were, so that a lost one is noticed.

Without it, a queue whose directory was deleted by hand looks as if it had never existed and would count from
0 again; one whose last file was deleted would count on from where that file began. The file is replaced as a
whole, after the sync of the queues that it names. Without it, or when it is damaged, no loss is noticed. If
it names a file too many (a broker has deleted a topic), the queues are rebuilt.
Durability: when `save` returns. Threads: one saver at a time.
"""

from pathlib import Path

from mqstore.index.queue.queue_manifest_format import QueueManifest, decode_queue_names, encode_queue_names
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.atomic_file import read_if_present, replace_file

__all__ = ["QueueManifestFile"]

_NOTHING = QueueManifest(0, {})


class QueueManifestFile:
    """`<root>/mqstore/queue-names`."""

    def __init__(self, file_system: FileSystem, path: Path) -> None:
        self._file_system = file_system
        self._path = path
        # As on disk; empty when there is no file to trust.
        self.known = _NOTHING

    def load(self) -> QueueManifest:
        """What the file says."""
        data = read_if_present(self._file_system, self._path)
        self.known = (data is not None and decode_queue_names(data)) or _NOTHING
        return self.known

    def save(self, known: QueueManifest) -> None:
        """Replace the file; nothing is written when nothing changed. Raises StoreFull, OSError."""
        # Called every second, and there may be ten thousand queues.
        if known is self.known or known == self.known:
            self.known = known
            return
        replace_file(self._file_system, self._path, encode_queue_names(known))
        self.known = known

    def __repr__(self) -> str:
        return f"QueueManifestFile({str(self._path)!r}, queues={len(self.known.files)})"
