"""What file systems promise about room that was reserved: asked of real ones, mounted for the test."""

import os
import subprocess
from pathlib import Path

import pytest

from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.files.room_promise import _upper_of, keeps_reserved_room
from support.disks.loop_disk import LoopDisk, why_not


def keeps(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return keeps_reserved_room(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("kind", "is_kept"), [("ext4", True), ("btrfs", False), ("xfs", False)])
def test_each_file_system_is_known(tmp_path: Path, kind: str, is_kept: bool) -> None:
    """btrfs and xfs with reflink, its default, write elsewhere; files and directories answer alike."""
    reason = why_not(tmp_path / "probe", kind)
    if reason is not None:
        pytest.skip(f"{kind}: {reason}")
    with LoopDisk(tmp_path, kind=kind) as disk:
        file = disk.path / "file"
        file.write_bytes(b"x")
        assert keeps(disk.path) == keeps(file) == OsFileSystem().keeps_reserved_room(disk.path) == is_kept


def test_xfs_without_reflink_keeps_room(tmp_path: Path) -> None:
    """Nothing shares a block there."""
    reason = why_not(tmp_path / "probe", "xfs")
    if reason is not None:
        pytest.skip(f"xfs: {reason}")
    with LoopDisk(tmp_path, kind="xfs", options=("-m", "reflink=0")) as disk:
        assert keeps(disk.path)


def test_what_is_not_known_promises_nothing() -> None:
    """Here the kernel's own file systems."""
    assert not keeps(Path("/proc"))
    assert not keeps(Path("/sys"))


def test_an_overlay_is_asked_for_its_upper_directory(tmp_path: Path) -> None:
    """It answers as the file system of that does; a name that leads elsewhere is not believed."""
    if why_not(tmp_path / "probe") is not None:
        pytest.skip("overlay: needs root, to mount")
    folders = {name: tmp_path / name for name in ("lower", "upper", "work", "mount")}
    for folder in folders.values():
        folder.mkdir()
    options = f"lowerdir={folders['lower']},upperdir={folders['upper']},workdir={folders['work']}"
    command = ["mount", "-t", "overlay", "overlay", "-o", options, str(folders["mount"])]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"overlay: {mounted.stderr.strip()}")
    try:
        inside = folders["mount"] / "store" / "commitlog"
        inside.mkdir(parents=True)
        assert keeps(inside) == keeps(folders["upper"])
        moved = folders["upper"].rename(tmp_path / "elsewhere")
        assert not keeps(inside)
        moved.rename(folders["upper"])
    finally:
        subprocess.run(["umount", "--lazy", str(folders["mount"])], check=True)


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
45 22 0:39 / /a\\040b rw shared:2 - overlay overlay rw,lowerdir=/l,upperdir=/u\\040p,workdir=/w
46 45 0:40 / /a\\040b/deeper rw - tmpfs tmpfs rw,size=1k
"""


@pytest.mark.parametrize(
    ("path", "upper"),
    [("/a b/x/y", "/u p/x/y"), ("/a b", "/u p"), ("/a b/deeper/x", None), ("/a", None), ("/", None)],
)
def test_the_upper_directory_is_read_from_the_list_of_mounts(path: str, upper: str | None) -> None:
    """Of the innermost mount above a path; blanks are escaped there."""
    assert _upper_of(Path(path), MOUNTS) == (Path(upper) if upper else None)
