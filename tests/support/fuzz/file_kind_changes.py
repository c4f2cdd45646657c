"""What is no file in the place of one: FIFO, socket, folder, device, link; or a file in a folder's place."""

import os
import shutil
import socket
from pathlib import Path

from support.fuzz.file_changes import any_file
from support.fuzz.hostile_values import Chance

__all__ = ["replace_by_other_kind"]


def replace_by_other_kind(root: Path, chance: Chance) -> str:
    """Something else than a file in a file's place; or a file in the place of a folder."""
    path = any_file(root, chance)
    if chance.random() < 0.3:
        names = (
            "abort",
            "lock",
            "checkpoint",
            "config/topics.json.bak",
            "mqstore/queue-names",
            "config/topics.json.tmp",
        )
        path = root / chance.choice(names)
    if path is None or not path.parent.is_dir():
        return "nothing is left"
    if chance.random() < 0.15:
        folder = root / chance.choice(
            ("commitlog", "consumequeue", "consumequeue/a", "index", "config", "mqstore")
        )
        shutil.rmtree(folder, ignore_errors=True)
        if folder.parent.is_dir():
            folder.write_bytes(b"no folder")
        return f"a file is in the place of {folder.relative_to(root)}/"
    kind = chance.choice(("FIFO", "folder", "full folder", "socket", "device", "loop", "nothing"))
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "full folder":
        (path / "0").mkdir(parents=True)
    elif kind == "socket":
        _make_socket(path)
    else:
        path.symlink_to({"device": Path("/dev/zero"), "loop": path, "nothing": Path("no-such-file")}[kind])
    return f"a {kind} is in the place of {path.relative_to(root)}"


def _make_socket(path: Path) -> None:
    # By its folder's descriptor: the name of a socket may have 108 bytes.
    folder = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
