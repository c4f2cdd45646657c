"""A loop disk: a small ext4 of its own, for tests in which a real disk fills up, fails or loses its power.

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
from pathlib import Path
from typing import Self

__all__ = ["LoopDisk", "why_not"]

_TOOLS = ("mkfs.ext4", "mount", "umount")
# EXT4_IOC_SHUTDOWN, and its flag for "the journal is not written out either".
_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)


def why_not(directory: Path) -> str | None:
    """Why this machine cannot mount a loop disk; None when it can."""
    if os.geteuid() != 0:
        return "needs root, to mount a file system through a loop device"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    try:
        with LoopDisk(directory / "probe", size_mib=4):
            return None
    except subprocess.CalledProcessError as error:
        return f"{' '.join(error.cmd)} failed: {error.stderr.strip()}"


class LoopDisk:
    """An ext4 of `size_mib` MiB, mounted at `path` while the block runs."""

    def __init__(self, directory: Path, *, size_mib: int = 48, inodes: int = 0) -> None:
        self.image = directory / "image"
        self.path = directory / "disk"
        self.path.mkdir(parents=True)
        with self.image.open("wb") as file:
            file.truncate(size_mib << 20)
        _run("mkfs.ext4", "-q", "-m", "0", *(("-N", inodes) if inodes else ()), self.image)

    def __enter__(self) -> Self:
        self.mount()
        return self

    def __exit__(self, *_: object) -> None:
        # Lazily: what a failed test has left mapped goes with its last page.
        _run("umount", "--lazy", self.path)

    def mount(self) -> None:
        """Mount it; after a power cut, the file system's own recovery runs."""
        _run("mount", "-o", "loop", self.image, self.path)

    def mount_anew(self) -> None:
        """Unmount it, wholly, and mount it again. Whoever still uses a file of it makes this fail."""
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
