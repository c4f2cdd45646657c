"""The file `mqstore/queue-names`: replaced as a whole, and a damaged one misses nothing."""

from pathlib import Path

from mqstore.index.queue.queue_manifest_file import QueueManifestFile
from mqstore.index.queue.queue_manifest_format import QueueFiles, QueueManifest
from mqstore.store.files.file_system import FileSystem
from support.disks.watched_file_system import WatchedFileSystem

NOTHING = QueueManifest(0, {})


def manifest() -> QueueManifest:
    """The same content in another object each time."""
    return QueueManifest(4096, {("orders", 0): QueueFiles(0, 6000)})


def test_what_was_saved_is_loaded(file_system: FileSystem, root: Path) -> None:
    """Through a file beside it, which is synced before it takes the name; the same again writes nothing."""
    watched = WatchedFileSystem(file_system)
    path = root / "mqstore" / "queue-names"
    file_system.make_directories(path.parent)
    saved = QueueManifestFile(watched, path)
    assert saved.load() == NOTHING
    saved.save(manifest())
    kinds = [kind for kind, _ in watched.steps if kind in ("write", "sync", "rename", "sync_directory")]
    assert kinds == ["write", "sync", "rename", "sync_directory"]
    loaded = QueueManifestFile(watched, path)
    assert loaded.load() == manifest()
    assert repr(loaded) == f"QueueManifestFile({str(path)!r}, queues=1)"
    count = len(watched.steps)
    loaded.save(manifest())
    saved.save(manifest())
    assert len(watched.steps) == count


def test_a_damaged_file_misses_nothing(file_system: FileSystem, root: Path) -> None:
    """It is as good as none, and the next save replaces it."""
    path = root / "mqstore" / "queue-names"
    file_system.make_directories(path.parent)
    kept = QueueManifestFile(file_system, path)
    kept.save(manifest())
    file_system.write(path, file_system.read(path)[:-1])
    assert kept.load() == NOTHING
    kept.save(manifest())
    assert kept.load() == manifest()
