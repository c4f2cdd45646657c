"""Whether a file system keeps the room that it has reserved, and so whether mapped memory may be written.

Where it does, writing to a reserved page never fails. Where it does not, a full disk shows at the first touch
of a page, as a SIGBUS, which ends the process; there the store writes by calls, which return an error.

    ext2, ext3, ext4, tmpfs    keep it: a block that was given is overwritten in place; quotas count it then
    xfs                        keeps it without reflink; with it, a copy shares the blocks, and each write to
                               one that is shared takes a new one (cp makes such copies by itself)
    overlay                    as the file system of its upper directory, where that can be seen
    btrfs, zfs, bcachefs, f2fs write to a new place each time: promise nothing
    all others                 are not known, so nothing is promised

This is determined each time, in a few microseconds: mounts may change.
Linux only (statfs, XFS_IOC_FSGEOMETRY, /proc/self/mountinfo). Threads: any.
"""

import ctypes
import fcntl
import os
import re
import struct
from pathlib import Path

from mqstore.store.foreign_error import raise_foreign

__all__ = ["keeps_reserved_room"]

# f_type of statfs(2).
_EXT, _TMPFS, _XFS, _OVERLAY = 0xEF53, 0x01021994, 0x58465342, 0x794C7630
_STATFS_BYTES = 256
_LONG = struct.Struct("l")
# _IOR('X', 126, struct xfs_fsop_geom), since Linux 5.2; where its flags lie, and the one for reflink.
_XFS_IOC_FSGEOMETRY = 0x8100587E
_XFS_GEOMETRY_BYTES = 256
_XFS_FLAGS = struct.Struct("92xI")
_XFS_REFLINK = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fstatfs.argtypes = [ctypes.c_int, ctypes.c_char_p]


def keeps_reserved_room(descriptor: int) -> bool:
    """Whether a write to reserved pages of this file, or of those in this directory, can never lack room."""
    kind = _type_of(descriptor)
    if kind in (_EXT, _TMPFS):
        return True
    if kind == _XFS:
        return not _has_reflink(descriptor)
    return kind == _OVERLAY and _upper_keeps_it(descriptor)


def _type_of(descriptor: int) -> int:
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.fstatfs(descriptor, buffer):
        return 0
    kind: int = _LONG.unpack_from(buffer)[0]
    return kind


def _has_reflink(descriptor: int) -> bool:
    geometry = bytearray(_XFS_GEOMETRY_BYTES)
    try:
        fcntl.ioctl(descriptor, _XFS_IOC_FSGEOMETRY, geometry)
    except OSError as error:
        raise_foreign(error)
        return True
    return bool(_XFS_FLAGS.unpack_from(geometry)[0] & _XFS_REFLINK)


def _upper_keeps_it(descriptor: int) -> bool:
    """Ask the upper directory of an overlay. In a container it is seldom visible: then False."""
    try:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        upper = _upper_of(path, Path("/proc/self/mountinfo").read_text())
        if upper is None:
            return False
        found = os.open(upper, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise_foreign(error)
        return False
    try:
        # Another directory may have that name here. Inode numbers do not help: they always differ.
        is_same = _attributes(found) == _attributes(descriptor)
        return is_same and _type_of(found) != _OVERLAY and keeps_reserved_room(found)
    finally:
        os.close(found)


def _attributes(descriptor: int) -> tuple[int, ...]:
    status = os.fstat(descriptor)
    return status.st_mode, status.st_uid, status.st_mtime_ns, status.st_ctime_ns


def _upper_of(path: Path, mounts: str) -> Path | None:
    """The path of an overlay's file in the upper directory, by the last of the longest mounts above it."""
    best: tuple[int, Path] | None = None
    for line in mounts.splitlines():
        mounted, _, described = line.partition(" - ")
        point = Path(_unescaped(mounted.split(" ")[4]))
        found = re.search(r"(?:^|[ ,])upperdir=([^, ]*)", described)
        if path.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            upper = Path(_unescaped(found[1])) / path.relative_to(point) if found else None
            best = (len(point.parts), upper) if upper is not None else (len(point.parts), Path())
    return best[1] if best is not None and best[1] != Path() else None


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
