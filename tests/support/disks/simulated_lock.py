"""The lock of a simulated disk: it belongs to a file and not to a name, as locks do.

So a lock file that is deleted, or replaced by another, leaves its holder with a lock on a file that has
no name any more, and the next process that asks gets a lock of its own. The holder finds out by `loss`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from mqstore.store.errors import StoreLocked

if TYPE_CHECKING:
    from support.disks.simulated_disk import SimulatedDisk

__all__ = ["SimulatedLock"]


class SimulatedLock:
    """A lock on the file that has the name `path` now; it is made where it is missing."""

    def __init__(self, disk: "SimulatedDisk", path: Path) -> None:
        self._disk = disk
        self._path = path
        inode = disk.inode_number(path)
        if inode is not None and disk.locked.get(path) == inode:
            raise StoreLocked(path, None)
        if inode is None:
            disk.write(path, b"lock")
        self._inode = disk.locked[path] = disk.inode_number(path)

    def loss(self) -> str | None:
        found = self._disk.inode_number(self._path)
        if found == self._inode:
            return None
        return "its lock file was deleted" if found is None else "its lock file was replaced by another"

    def release(self) -> None:
        if self._disk.locked.get(self._path) == self._inode:
            del self._disk.locked[self._path]
