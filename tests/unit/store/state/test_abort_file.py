"""The abort file: there while a writer is at work, with its process id, durable in both directions."""

import os
from pathlib import Path

from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.abort_file import AbortFile
from support.disks.watched_file_system import WatchedFileSystem


def test_it_is_there_between_create_and_delete(file_system: FileSystem, root: Path) -> None:
    """Both are durable on return; deleting twice is no error."""
    watched = WatchedFileSystem(file_system)
    abort = AbortFile(watched, root / "abort")
    assert not abort.exists()
    abort.create()
    assert abort.exists()
    assert watched.read(root / "abort") == str(os.getpid()).encode()
    assert [step for step, _ in watched.steps] == ["write", "sync", "sync_directory"]
    watched.steps.clear()
    abort.delete()
    assert not abort.exists()
    assert [step for step, _ in watched.steps] == ["delete", "sync_directory"]
    abort.delete()
