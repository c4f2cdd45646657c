"""Deletes and copies trees of files, and copies pieces of files, through the seam.

For repair, rebuild and backup, which may be killed at any moment: each call can be repeated, and says what
is durable when it returns. Zeros are not copied, so files with holes keep them.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mqstore.store.files.file_system import BytesLike, FileSystem, MappedRegion

__all__ = ["copy_data", "copy_file", "copy_range", "copy_tree", "delete_tree", "zero_range"]

_CHUNK_BYTES = 4 << 20
# Small: a queue file of megabytes may hold one entry.
_PIECE_BYTES = 128 << 10


def delete_tree(file_system: FileSystem, directory: Path) -> None:
    """Remove a directory and all in it; a missing one is no error."""
    if not file_system.exists(directory):
        return
    for entry in file_system.list(directory):
        path = directory / entry.name
        if entry.is_directory:
            delete_tree(file_system, path)
        else:
            file_system.delete(path)
    file_system.delete_directory(directory)
    file_system.sync_directory(directory.parent)


def copy_tree(file_system: FileSystem, source: Path, target: Path) -> None:
    """Copy a directory; all is durable on return but the name of `target`."""
    file_system.make_directories(target)
    for entry in file_system.list(source):
        if entry.is_directory:
            copy_tree(file_system, source / entry.name, target / entry.name)
        else:
            copy_file(file_system, source / entry.name, target / entry.name, entry.size_bytes)
    file_system.sync_directory(target)


def copy_file(
    file_system: FileSystem,
    source: Path,
    target: Path,
    length_bytes: int,
    *,
    position: int = 0,
    size_bytes: int | None = None,
) -> None:
    """Copy a piece of `source`, or all of it, to a new file; its bytes are durable, its name is not.

    size_bytes: length of the new file; zeros follow what is copied.
    """
    if not (size_bytes or length_bytes):
        file_system.write(target, b"")
        return
    file_system.delete(target)
    region = file_system.map(target, size_bytes or length_bytes, create=True)
    # Only searched for holes: no page of it is touched, so it may be longer than any disk.
    holes = file_system.map(source, position + length_bytes, read_only=True)
    at = 0
    while (at := holes.next_data(position + at) - position) < length_bytes:
        stop = min(at + _CHUNK_BYTES, length_bytes)
        copy_range(lambda at, length: file_system.read_at(source, position + at, length), region, at, stop)
        at = stop
    holes.release_descriptor()
    region.sync()
    region.release_descriptor()


def copy_data(
    file_system: FileSystem,
    source: Path,
    target: Path,
    length_bytes: int,
    *,
    size_bytes: int,
    on_copied: Callable[[int], None],
) -> MappedRegion | None:
    """Copy the beginning of a sparse file to a new one of `size_bytes`; holes and zeros take no room there.

    Returns the new file's region, None for an empty file; the copy is durable once that is synced. on_copied
    gets the number of bytes of each piece. Raises FileNotFoundError if the source is deleted meanwhile.
    """
    file_system.delete(target)
    if not size_bytes:
        file_system.write(target, b"")
        return None
    holes = file_system.map(source, size_bytes, read_only=True)
    region = file_system.map(target, size_bytes, create=True)
    at = 0
    while (at := holes.next_data(at)) < length_bytes:
        stop = min(at - at % _PIECE_BYTES + _PIECE_BYTES, length_bytes)
        piece = file_system.read_at(source, at, stop - at)
        if not piece:
            break
        if piece.count(0) < len(piece):
            region.reserve(at, len(piece))
            region.write(at, piece)
        on_copied(len(piece))
        at += len(piece)
    holes.release_descriptor()
    return region


def copy_range(
    read: Callable[[int, int], BytesLike | npt.NDArray[np.uint8]],
    target: MappedRegion,
    start: int,
    stop: int,
) -> None:
    """Copy bytes to the same place in `target`; chunks of zeros are not written."""
    for at in range(start, stop, _CHUNK_BYTES):
        chunk = bytes(read(at, min(_CHUNK_BYTES, stop - at)))
        if chunk.count(0) < len(chunk):
            target.reserve(at, len(chunk))
            target.write(at, chunk)


def zero_range(region: MappedRegion, start: int, stop: int) -> None:
    """Zero the bytes from `start` to `stop`; chunks that are zero already are not touched."""
    for at in range(start, stop, _CHUNK_BYTES):
        end = min(at + _CHUNK_BYTES, stop)
        if np.frombuffer(region.view[at:end], np.uint8).any():
            region.reserve(at, end - at)
            region.write(at, bytes(end - at))
