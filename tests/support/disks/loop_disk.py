"""A loop disk: a small ext4, btrfs or xfs of its own, for tests of disks that fill up, fail or lose power.

The image is a file, mounted through a loop device; that takes root and a kernel that lets us, so `why_not`
says what is missing where it cannot be done. `cut_power` ends the file system as a power cut ends a machine:
nothing that is not on the disk by then will be (the ioctl by which xfstests does the same).
"""

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Self

__all__ = ["LoopDisk", "why_not"]

# The smallest that each can be made, and how.
_SIZES_MIB = {"ext4": 48, "btrfs": 128, "xfs": 300}
_MAKE = {"ext4": ("-q", "-m", "0"), "btrfs": ("-q", "-f"), "xfs": ("-q", "-f", "-m", "reflink=1")}
# Fills the disk as somebody else would, down to the last block, and says when it is done.
_FILL = """
import os, sys
with open(sys.argv[1], "ab", buffering=0) as file:
    at, piece = 0, 16 << 20
    while piece >= 512:
        try:
            if piece >= 4096:
                os.posix_fallocate(file.fileno(), at, piece)
                at += piece
            elif not file.write(bytes(piece)):
                break
        except OSError:
            piece //= 2
"""
# EXT4_IOC_SHUTDOWN, and its flag for "the journal is not written out either".
_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)


def why_not(directory: Path, kind: str = "ext4") -> str | None:
    """Why this machine cannot mount a loop disk of that kind; None when it can."""
    if os.geteuid() != 0:
        return "needs root, to mount a file system through a loop device"
    tools = (f"mkfs.{kind}", "mount", "umount")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    try:
        with LoopDisk(directory / "probe", kind=kind):
            return None
    except subprocess.CalledProcessError as error:
        return f"{' '.join(error.cmd)} failed: {error.stderr.strip()}"


class LoopDisk:
    """A small file system, mounted at `path` while the block runs. `inodes` is for ext4."""

    def __init__(
        self, directory: Path, *, kind: str = "ext4", inodes: int = 0, options: tuple[str, ...] = ()
    ) -> None:
        self.image = directory / "image"
        self.path = directory / "disk"
        self.path.mkdir(parents=True)
        with self.image.open("wb") as file:
            file.truncate(_SIZES_MIB[kind] << 20)
        options = options or (*_MAKE[kind], *(("-N", inodes) if inodes else ()))
        _run(f"mkfs.{kind}", *options, self.image)

    def __enter__(self) -> Self:
        self.mount()
        return self

    def __exit__(self, *_: object) -> None:
        # Lazily: what a failed test has left mapped goes with its last page.
        _run("umount", "--lazy", self.path)

    def mount(self) -> None:
        """Mount it; after a power cut, the file system's own recovery runs."""
        _run("mount", "-o", "loop", self.image, self.path)

    def remount(self) -> None:
        """Unmount it, wholly, and mount it again. Fails if a file of it is still in use."""
        _run("umount", self.path)
        self.mount()

    def cut_power(self) -> None:
        """Nothing reaches the disk from now on; every sync fails."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def become_read_only(self) -> None:
        """As ext4 does by itself when it finds an error (errors=remount-ro)."""
        _run("mount", "-o", "remount,abort", self.path)

    def fill(self, left_bytes: int) -> None:
        """Take all room but so much."""
        status = os.statvfs(self.path)
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_bsize - left_bytes)

    def fill_beside(self) -> "subprocess.Popen[bytes]":
        """Let another process take all room."""
        return subprocess.Popen([sys.executable, "-c", _FILL, str(self._ballast)])

    def fill_up(self) -> None:
        """Take the last block."""
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while file.write(bytes(512)):
                pass

    def make_room(self) -> None:
        """Give it all back."""
        self._ballast.unlink()

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"
