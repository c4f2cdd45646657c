"""Errors of archives, one for each thing that a caller would do.

StoreError
    ArchiveRefused    another store's archive, a taken directory, an address that is none: give another
    ArchiveDamaged    what the manifest promises is not there: archive again, or restore what is behind it
    PyarrowMissing    install the extra `arrow`
    ArchiverAtWork    another process archives this directory: wait for it

Errors of the file system or the network are the OSErrors of pyarrow.
"""

from pathlib import Path

from mqstore.store.errors import StoreError

__all__ = ["ArchiveDamaged", "ArchiveRefused", "ArchiverAtWork", "PyarrowMissing"]


class ArchiveRefused(StoreError, ValueError):
    """Nothing is archived or restored like that; nothing was changed. `value`: what does not fit."""

    def __init__(self, reason: str, *, value: object = None) -> None:
        super().__init__(reason)
        self.value = value


class ArchiveDamaged(StoreError):
    """An object of an archive is missing, or is not what was archived.

    place: the archive. name: the object, within it. expected, found: how they differ.
    """

    def __init__(self, place: str, name: str, expected: str, found: str, way_out: str = "") -> None:
        super().__init__(f"{place}: {name}: expected {expected}, found {found}{way_out and ': '}{way_out}")
        self.place, self.name, self.expected, self.found = place, name, expected, found


class ArchiverAtWork(StoreError):
    """Another archiver holds the lock of the directory `path`."""

    def __init__(self, path: Path, holder_pid: int | None) -> None:
        holder = "another process" if holder_pid is None else f"process {holder_pid}"
        super().__init__(f"{path} is being archived by {holder}: wait until that has ended")
        self.path, self.holder_pid = path, holder_pid


class PyarrowMissing(StoreError):
    """Archives are reached through pyarrow."""

    def __init__(self) -> None:
        super().__init__("an archive needs pyarrow: pip install pyarrow")
