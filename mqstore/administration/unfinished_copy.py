"""An unfinished copy of a store: a directory that gets its name when it is complete, durable and was opened.

    TARGET.unfinished/                      while the work goes on
    TARGET.unfinished/unfinished-backup     the mark, locked: no store opens there
    TARGET                                  renamed at the end, in one step

Work that is killed leaves `TARGET.unfinished` with the mark in it; the next work with the same target deletes
it. Backups (backup.py) and restored archives (tools/archive/store_restore.py) are made so.
Threads: one a target; the lock keeps other processes away. Durability: as each function says.
"""

from pathlib import Path

from mqstore.store.errors import BackupRefused, StoreFull
from mqstore.store.files.file_system import FileLock, FileSystem
from mqstore.store.files.file_tree import delete_tree
from mqstore.store.foreign_error import raise_foreign
from mqstore.store_layout import StoreLayout

__all__ = ["begin_copy", "check_closed", "end_copy", "name_copy", "refuse_taken", "unfinished_layout"]


def unfinished_layout(target: Path) -> StoreLayout:
    """Where the copy is made that becomes `target`."""
    return StoreLayout(target.with_name(target.name + ".unfinished"))


def refuse_taken(file_system: FileSystem, target: Path) -> None:
    """Raises BackupRefused unless `target` is missing, or an empty directory, which is deleted."""
    try:
        if file_system.list(target):
            raise BackupRefused(target, "it is not empty")
        # The copy is renamed to this path in one step, which a mount point would prevent.
        file_system.delete_directory(target)
    except OSError as error:
        raise_foreign(error)
        reason = f"{error.strerror or error}; name a directory that is not there"
        raise BackupRefused(target, reason) from error


def begin_copy(file_system: FileSystem, unfinished: StoreLayout) -> FileLock:
    """Make the directory with the mark in it, which is locked. Raises StoreLocked, BackupRefused."""
    if file_system.exists(unfinished.root) and file_system.list(unfinished.root):
        if not file_system.exists(unfinished.unfinished_backup):
            raise BackupRefused(unfinished.root, "it is no backup that was cut short: move it away")
        leftover = file_system.lock(unfinished.unfinished_backup)
        delete_tree(file_system, unfinished.root)
        leftover.release()
    file_system.make_directories(unfinished.root)
    mark = file_system.lock(unfinished.unfinished_backup)
    file_system.sync_directory(unfinished.root)
    return mark


def end_copy(file_system: FileSystem, unfinished: StoreLayout) -> None:
    """Delete the mark, durably: all else is durable, and a store may be opened there."""
    file_system.delete(unfinished.unfinished_backup)
    file_system.sync_directory(unfinished.root)


def check_closed(file_system: FileSystem, unfinished: StoreLayout) -> None:
    """After the copy was opened and closed. Raises StoreFull where it was closed without room."""
    if file_system.exists(unfinished.abort):
        # It was closed all the same, with the logged warning of a full disk.
        raise StoreFull(unfinished.root, 0, "no room for what is derived from the log")
    file_system.delete(unfinished.lock)
    file_system.sync_directory(unfinished.root)


def name_copy(file_system: FileSystem, unfinished: StoreLayout, target: Path) -> None:
    """Give the copy its name, durably."""
    file_system.rename(unfinished.root, target)
    file_system.sync_directory(target.parent)
