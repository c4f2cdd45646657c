"""Reads the manifest of an archive: whose it is, and all its entries. Changes nothing.

An archive has one root. Where two stores were archived to one place at the same moment there are two, and
nothing is read. Entries are small objects; several are read at a time, because each takes a round trip.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from mqstore.tools.archive.archive_errors import ArchiveDamaged, ArchiveRefused
from mqstore.tools.archive.archive_place import ArchivePlace
from mqstore.tools.archive.manifest import (
    ENTRY_VERSION,
    MANIFEST_FOLDER,
    VERSION,
    ArchivedSegment,
    ArchiveRoot,
    Manifest,
    decode_signed,
    entry_name,
    offset_of,
    root_identity,
    root_name,
)

if TYPE_CHECKING:
    import pyarrow.fs as pa_fs

__all__ = [
    "load_each",
    "load_entry",
    "load_manifest",
    "load_object",
    "load_root",
    "read_manifest",
    "roots_of",
]

_AT_ONCE = 16
T = TypeVar("T")
StructT = TypeVar("StructT", bound=msgspec.Struct)


def read_manifest(
    url: str | Path,
    *,
    file_system: "pa_fs.FileSystem | None" = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Manifest:
    """What an archive holds, as its manifest says; the segments themselves are not looked at.

    url, file_system, storage_options: as for `archive`. Raises ArchiveRefused (there is no archive),
    ArchiveDamaged, OSError.
    """
    return load_manifest(ArchivePlace(url, file_system, storage_options))


def load_manifest(place: ArchivePlace) -> Manifest:
    """As `read_manifest`."""
    root = load_root(place)
    if root is None:
        raise ArchiveRefused(f"{place.shown} holds no archive: is the address right?", value=place.shown)
    starts = sorted(offset for name in place.list(MANIFEST_FOLDER) if (offset := offset_of(name)) is not None)
    segments = tuple(load_each(lambda start: load_object(place, entry_name(start), ArchivedSegment), starts))
    for start, each in zip(starts, segments, strict=True):
        _refuse_later_version(place, each)
        found = (each.store, each.start_offset, each.end_offset - start, each.size_bytes)
        expected = (root.store, start, root.segment_bytes, root.segment_bytes)
        if found != expected:
            raise ArchiveDamaged(place.shown, entry_name(start), f"{expected}", f"{found}")
    return Manifest(place.shown, root.store, root.segment_bytes, segments)


def load_each(load: Callable[[int], T], starts: Sequence[int]) -> list[T]:
    """What `load` gives for each offset, several at a time: of an object store each takes tens of ms."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(load, starts))


def load_entry(place: ArchivePlace, start_offset: int) -> ArchivedSegment | None:
    """The entry of one segment, as it is now; None: there is none. Raises ArchiveRefused, ArchiveDamaged."""
    try:
        entry = load_object(place, entry_name(start_offset), ArchivedSegment)
    except ArchiveDamaged as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    _refuse_later_version(place, entry)
    return entry


def _refuse_later_version(place: ArchivePlace, entry: ArchivedSegment) -> None:
    if entry.version > ENTRY_VERSION:
        raise ArchiveRefused(
            f"{place.shown}: {entry_name(entry.start_offset)} has version {entry.version}, this release "
            f"knows {ENTRY_VERSION}",
            value=place.shown,
        )


def load_root(place: ArchivePlace) -> ArchiveRoot | None:
    """Whose archive is at the place; None: nothing is there. Raises ArchiveRefused, ArchiveDamaged."""
    names = place.list()
    roots = roots_of(names)
    if len(roots) > 1:
        raise ArchiveRefused(
            f"{place.shown} has the archives of {len(roots)} stores in it ({', '.join(roots)}): give each "
            "store a place of its own, and delete the root that does not belong here",
            value=place.shown,
        )
    if not roots:
        if names:
            raise ArchiveRefused(
                f"{place.shown} holds {min(names)!r} and no archive: give a new or an empty place",
                value=place.shown,
            )
        return None
    root = load_object(place, root_name(roots[0]), ArchiveRoot)
    if root.version != VERSION:
        raise ArchiveRefused(
            f"{place.shown} has version {root.version}, this release knows {VERSION}", value=place.shown
        )
    return root


def roots_of(names: dict[str, int]) -> list[str]:
    """The identities of the stores whose roots are among the names."""
    return sorted(identity for name in names if (identity := root_identity(name)) is not None)


def load_object(place: ArchivePlace, name: str, kind: type[StructT]) -> StructT:
    """A JSON object of the archive. Raises ArchiveDamaged if it is missing or cannot be read."""
    try:
        return decode_signed(place.read(name), kind)
    except FileNotFoundError as error:
        raise ArchiveDamaged(place.shown, name, "an object", "none") from error
    except ValueError as error:
        raise ArchiveDamaged(place.shown, name, "JSON with its CRC-32C", str(error)) from error
