"""Faults: the n-th operation on a simulated disk fails, once or from then on.

What fails is what can fail on a real disk: everything but the filling of mapped memory, which the seam
has reserved room for; on a copy-on-write disk, which keeps no reserved room, that too. The errors are those
that OsFileSystem would let through: a full disk is StoreFull where it says so, and want of a descriptor
LimitReached.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mqstore.store.errors import LimitReached, StoreFull
from support.disks.simulated_disk import ShortWrite, SimulatedDisk

__all__ = ["FAULT_KINDS", "Fault", "FaultKind"]

_MEMORY = frozenset({"write", "publish", "published"})
_NEEDS_ROOM = frozenset({"reserve", "replace", "create", "make_directory", "rename", "sync_directory"})
_NEEDS_DESCRIPTOR = _NEEDS_ROOM - {"rename"} | {"map", "read", "list", "sync"}
_TRANSLATED = frozenset({"reserve", "replace", "create"})


class FaultKind(NamedTuple):
    """`error(what, path)` is what the operation raises; None where it cannot fail like that."""

    name: str
    error: Callable[[str, Path], Exception | None]
    keeps_room: bool = True


def _os_error(number: int) -> Callable[[str, Path], Exception | None]:
    return lambda what, path: OSError(number, os.strerror(number), str(path))


def _no_space(what: str, path: Path) -> Exception | None:
    if what not in _NEEDS_ROOM:
        return None
    if what in _TRANSLATED:
        return StoreFull(path, 1, os.strerror(errno.ENOSPC))
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def _no_room_kept(what: str, path: Path) -> Exception | None:
    if what in _MEMORY:
        return ShortWrite(StoreFull(path, 1, os.strerror(errno.ENOSPC)))
    return _no_space(what, path)


def _no_descriptor(what: str, path: Path) -> Exception | None:
    return LimitReached(path, os.strerror(errno.EMFILE)) if what in _NEEDS_DESCRIPTOR else None


def _short_write(what: str, path: Path) -> Exception | None:
    return ShortWrite(StoreFull(path, 1, os.strerror(errno.ENOSPC))) if what == "replace" else None


FAULT_KINDS = (
    FaultKind("EIO", _os_error(errno.EIO)),
    FaultKind("ENOSPC", _no_space),
    FaultKind("EINTR", _os_error(errno.EINTR)),
    FaultKind("short write", _short_write),
    FaultKind("EMFILE", _no_descriptor),
    FaultKind("ENOSPC, copy-on-write", _no_room_kept, keeps_room=False),
)


class Fault:
    """Makes operation number `nth` of `disk` fail, counted over those that `kind` can make fail."""

    def __init__(self, disk: SimulatedDisk, kind: FaultKind, nth: int, *, for_good: bool) -> None:
        self.struck: tuple[str, Path] | None = None
        # Syncs of the log that were tried after one had failed: there must be none.
        self.second_syncs = 0
        self._kind = kind
        self._nth = nth
        self._for_good = for_good
        self._count = 0
        self._log_sync_failed = False
        # Whether all that failed has said why: it was a lack of room or of descriptors, and nothing was lost.
        self.is_harmless = True
        disk.keeps_room = kind.keeps_room
        disk.before = self._before

    def restart(self) -> None:
        """Another process begins: it may sync what the one before could not."""
        self._log_sync_failed = False

    def _before(self, what: str, path: Path) -> None:
        if what in _MEMORY and self._kind.keeps_room:
            return
        is_log_sync = what == "sync" and path.parent.name == "commitlog"
        if is_log_sync and self._log_sync_failed:
            self.second_syncs += 1
        error = self._kind.error(what, path)
        if error is None:
            return
        self._count += 1
        if self._count == self._nth or (self._for_good and self._count > self._nth):
            self.struck = self.struck or (what, path)
            # Without a descriptor there was no sync, and so none has failed.
            is_failed_sync = is_log_sync and not isinstance(error, LimitReached)
            self._log_sync_failed = self._log_sync_failed or is_failed_sync
            self.is_harmless = self.is_harmless and not isinstance(error, OSError)
            raise error
