"""A recorded disk: a real file system whose block device writes a log of all that it is told to do.

    file system -> loop device -> file exported by FUSE -> QEMU's blklogwrites -> image and block log

QEMU's storage daemon does the recording, in a process of its own; the kernel needs neither device mapper
nor NBD. `ImageMount` mounts an image without recording. Both release what they took (mount, loop device,
daemon) when their block ends; `sweep` removes what a killed process has left. `why_not` says
what this machine lacks.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from support.powercut.block_log import entry_count

__all__ = [
    "FILE_SYSTEMS",
    "FileSystemKind",
    "ImageMount",
    "MountFailed",
    "RecordedDisk",
    "copy_image",
    "why_not",
]

_PATIENCE_S = 30
_LOG_BYTES = 16 << 30  # Sparse; QEMU does not let the log grow by itself.
_PID_FILE = "daemon.pid"
_PACKAGES = {
    "qemu-storage-daemon": "qemu-system-common",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "mkfs.btrfs": "btrfs-progs",
    "losetup": "mount",
    "mount": "mount",
    "umount": "mount",
}


class FileSystemKind(NamedTuple):
    """A file system, how it is made and mounted, and the least that it needs.

    super_blocks: (sector, sectors) that it takes to be written whole: torn, it does not mount any more.
    """

    name: str
    size_mib: int
    make: tuple[str, ...]
    mount_options: str
    super_blocks: tuple[tuple[int, int], ...]

    @property
    def kernel_name(self) -> str:
        """As mount and the kernel call it."""
        return self.name.partition("-")[0]


def _ext4(name: str, options: str) -> FileSystemKind:
    make = ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0")
    return FileSystemKind(name, 96, make, options, ((2, 2),))


FILE_SYSTEMS = {
    kind.name: kind
    for kind in (
        _ext4("ext4", "data=ordered"),
        FileSystemKind("xfs", 320, ("mkfs.xfs", "-q", "-f", "-K"), "nouuid", ()),
        FileSystemKind("btrfs", 256, ("mkfs.btrfs", "-q", "-f", "-K"), "nodiscard", ((128, 8), (131_072, 8))),
        _ext4("ext4-writeback", "data=writeback"),
        _ext4("ext4-journal", "data=journal"),
    )
}


class MountFailed(Exception):
    """The file system does not come back from the state of its device."""


def _run(*command: object) -> str:
    words = [str(word) for word in command]
    # In a session of its own: Ctrl-C must not stop it half-way.
    return subprocess.run(
        words, check=True, capture_output=True, text=True, timeout=120, start_new_session=True
    ).stdout


def why_not(kind: FileSystemKind, directory: Path) -> str | None:
    """Why this machine cannot record a disk of this kind; None when it can."""
    if os.geteuid() != 0:
        return "needs root, to mount file systems"
    missing = [
        tool
        for tool in ("qemu-storage-daemon", "losetup", "mount", "umount", kind.make[0])
        if shutil.which(tool) is None
    ]
    if missing:
        packages = " ".join(dict.fromkeys(_PACKAGES[tool] for tool in missing))
        return f"lacks {', '.join(missing)}: apt-get install --no-install-recommends {packages}"
    if not Path("/dev/fuse").exists() or not Path("/dev/loop-control").exists():
        return "needs /dev/fuse and /dev/loop-control (kernel modules fuse and loop)"
    try:
        with RecordedDisk(directory / "probe", kind):
            return None
    except (subprocess.SubprocessError, MountFailed, TimeoutError, OSError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        return f"cannot mount a {kind.name} through a recorded device: {reason.strip()}"


class RecordedDisk:
    """A file system of this kind on a recorded device, mounted at `path` while the block runs.

    image: of a device that is there already, with its file system; it is written to. Without one, a new file
    system is made. The log begins with the first request to the device, mkfs included.
    """

    def __init__(self, directory: Path, kind: FileSystemKind, image: Path | None = None) -> None:
        self.path = directory / "mount"
        self.log_path = directory / "block-log"
        self.image = image or directory / "image"
        self._kind = kind
        self._is_new = image is None
        self._export = directory / "export"
        self._stack = contextlib.ExitStack()
        self.path.mkdir(parents=True)

    def __enter__(self) -> "RecordedDisk":
        with self._stack:
            if self._is_new:
                _make_sparse(self.image, self._kind.size_mib << 20)
            _make_sparse(self.log_path, _LOG_BYTES)
            self._stack.enter_context(self._recording())
            device = self._stack.enter_context(_loop_device(self._export))
            if self._is_new:
                _run(*self._kind.make, device)
            self._stack.enter_context(_mounted(device, self.path, self._kind))
            log = os.open(self.log_path, os.O_RDONLY)
            self._stack.callback(os.close, log)
            self._log = log
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def entry_count(self) -> int:
        """How many requests the log has, up to the last FLUSH."""
        return entry_count(self._log)

    @contextlib.contextmanager
    def _recording(self) -> Iterator[None]:
        """The daemon runs, and the exported file is there."""
        self._export.touch()
        before = self._export.stat().st_ino
        command = [
            "qemu-storage-daemon",
            *("--blockdev", f"driver=file,node-name=image,filename={self.image},locking=off"),
            *("--blockdev", f"driver=file,node-name=log,filename={self.log_path},locking=off"),
            *("--blockdev", "driver=blklogwrites,node-name=disk,file=image,log=log,log-sector-size=512"),
            *("--export", f"type=fuse,id=disk,node-name=disk,mountpoint={self._export},writable=on"),
            *("--pidfile", str(self._export.with_name(_PID_FILE))),
        ]
        # In a session of its own: Ctrl-C must not take the disk away from under its file system.
        daemon = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            _wait_until(lambda: daemon.poll() is not None or _inode(self._export) not in (None, before))
            if daemon.poll() is not None:
                raise OSError(f"qemu-storage-daemon ended: {daemon.communicate()[1].strip()}")
            yield
        finally:
            daemon.terminate()
            try:
                daemon.communicate(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.communicate()
            # Where it was killed, the export is left as a dead mount.
            subprocess.run(["umount", "--lazy", str(self._export)], check=False, capture_output=True)


class ImageMount:
    """An image of this kind, mounted at `path` while the block runs: the file system's own recovery has run.

    Entering raises MountFailed where it does not come back.
    """

    def __init__(self, directory: Path, kind: FileSystemKind, image: Path) -> None:
        self.path = directory / "mount"
        self._kind = kind
        self._image = image
        self._stack = contextlib.ExitStack()
        self.path.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> "ImageMount":
        with self._stack:
            device = self._stack.enter_context(_loop_device(self._image))
            self._stack.enter_context(_mounted(device, self.path, self._kind))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def sweep(directory: Path) -> None:
    """Unmount, detach and end whatever belongs to recorded disks and image mounts below `directory`."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    ours = sorted((path for path in mounts if Path(path).is_relative_to(directory)), reverse=True)
    for path in (path for path in ours if not path.endswith("/export")):
        _unmount(Path(path))
    listed = json.loads(_run("losetup", "--list", "--json", "--output", "NAME,BACK-FILE") or "{}")
    for device in listed.get("loopdevices", ()):
        if Path(device["back-file"] or "/").is_relative_to(directory):
            _detach(device["name"])
    for pid_file in directory.rglob(_PID_FILE):
        process_id = pid_file.read_text().strip()
        with contextlib.suppress(OSError, ValueError):
            if str(directory) in Path(f"/proc/{process_id}/cmdline").read_text():
                os.kill(int(process_id), signal.SIGKILL)
    for path in (path for path in ours if path.endswith("/export")):
        subprocess.run(["umount", "--lazy", path], check=False, capture_output=True)


def copy_image(source: Path, target: Path) -> None:
    """A sparse copy."""
    _run("cp", "--sparse=always", source, target)


@contextlib.contextmanager
def _loop_device(file: Path) -> Iterator[str]:
    """A loop device over `file`. There are few of them, so a free one is waited for."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            device = _run("losetup", "--find", "--show", file).strip()
            break
        except subprocess.CalledProcessError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.2)
    try:
        yield device
    finally:
        _detach(device)
        # Detaching is put off while somebody still looks at the device.
        _wait_until(lambda: str(file) not in _backing_file(device))


def _detach(device: str) -> None:
    if shutil.which("btrfs"):
        # Else the kernel takes the next state of the same file system for a second device of it.
        command = ["btrfs", "device", "scan", "--forget", device]
        subprocess.run(command, check=False, capture_output=True)
    _run("losetup", "--detach", device)


@contextlib.contextmanager
def _mounted(device: str, path: Path, kind: FileSystemKind) -> Iterator[None]:
    options = ("-t", kind.kernel_name, "-o", kind.mount_options)
    try:
        _run("mount", *options, device, path)
    except subprocess.CalledProcessError as error:
        raise MountFailed(error.stderr.strip()) from error
    try:
        yield
    finally:
        _unmount(path)


def _unmount(path: Path) -> None:
    """Unmount it; a process that has just been killed may hold it for a moment."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while subprocess.run(["umount", str(path)], check=False, capture_output=True).returncode:
        if time.monotonic() > deadline_s:
            _run("umount", "--lazy", path)
            return
        time.sleep(0.05)


def _make_sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _inode(path: Path) -> int | None:
    """None while the file cannot be asked (the export has not come up yet)."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _backing_file(device: str) -> str:
    command = ["losetup", "--list", "--noheadings", "--output", "BACK-FILE", device]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise TimeoutError("the recorded device did not come up, or did not go away")
        time.sleep(0.01)
