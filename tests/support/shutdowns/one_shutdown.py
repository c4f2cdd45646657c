"""One shutdown of an ext4 amid synced writes: what was promised, and what of it is lost.

A process writes (putter.py). The file system is shut down behind it without writing its journal out, mounted
again, and read: a file of slots as bytes; a store by opening it and by the bytes of its segments, so that a
loss says whether the record is not there or is not found.
"""

import os
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from mqstore import MessageStore, StoreConfig
from support.disks.loop_disk import LoopDisk
from support.shutdowns import putter

__all__ = ["WRITERS", "Promise", "lost_by_file", "lost_by_store", "shut_down"]

PATIENCE_S = 60
WRITERS = {
    "store, compiled puts": "store",
    "store, interpreted puts": "store",
    "pwrite and fdatasync, reserved room": "reserved",
    "mapped write and fdatasync, reserved room": "reserved-mapped",
    "pwrite and fdatasync, room written before": "written",
    "mapped write and fdatasync, room written before": "written-mapped",
}


@dataclass(frozen=True)
class Promise:
    """What a writer said: it is known since known_ns that `text` is at this position."""

    status: str
    known_ns: int
    position: int
    text: bytes


def shut_down(name: str, python: Path, directory: Path, delay_s: float) -> tuple[Counter[str], list[str]]:
    """Shut down the writer `name`, run by `python`, after delay_s: counts, and losses in words."""
    kind = WRITERS[name]
    environment = {**os.environ, "MQSTORE_DIRECT_PUT": str(int("compiled" in name))}
    with LoopDisk(directory) as disk:
        command = [str(python.absolute()), putter.__file__, kind, str(disk.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=directory) as child:
            said, begun_ns = _shut_down_beside(child, delay_s, disk)
        disk.remount()
        find_lost = lost_by_store if kind == "store" else lost_by_file
        promised = [each for each in said if each.status == "PUT_OK"]
        lost = find_lost(disk.path, promised)
    before = sum(each.known_ns < begun_ns for each in promised)
    lost_before = sum(each.known_ns < begun_ns for each in lost)
    counts = Counter(
        shutdowns=1,
        promised_before=before,
        lost_before=lost_before,
        promised_meanwhile=len(promised) - before,
        lost_meanwhile=len(lost) - lost_before,
        other_statuses=len(said) - len(promised),
    )
    words = [f"{each.text.decode()} at {each.position}, {how}" for each, how in lost.items()]
    return counts, words


def _shut_down_beside(
    child: "subprocess.Popen[bytes]", delay_s: float, disk: LoopDisk
) -> tuple[list[Promise], int]:
    """What the writer says until it ends by itself, and when the shutdown began."""
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    begun_ns = []

    def shut_down() -> None:
        begun_ns.append(time.monotonic_ns())
        disk.cut_power()

    cut = threading.Timer(delay_s, shut_down)
    too_late = threading.Timer(PATIENCE_S, child.kill)
    cut.start()
    too_late.start()
    said = []
    for line in child.stdout:
        status, known_ns, position, text = line.split()
        said.append(Promise(status.decode(), int(known_ns), int(position), text))
    cut.join()
    assert child.wait() == 0, "the writer did not end by itself, or too late"
    too_late.cancel()
    return said, begun_ns[0]


def lost_by_file(directory: Path, promised: list[Promise]) -> dict[Promise, str]:
    """Slots that do not have what was synced."""
    data = (directory / putter.FILE).read_bytes()
    lost = {}
    for each in promised:
        found = data[each.position : each.position + putter.SLOT_BYTES]
        if found != putter.filled(each.text):
            lost[each] = "other bytes" if any(found) else "zeros"
    return lost


def lost_by_store(directory: Path, promised: list[Promise]) -> dict[Promise, str]:
    """Messages that are not found, or are others."""
    root = directory / putter.STORE
    raw = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    lost = {}
    with MessageStore.open(root, StoreConfig(**putter.store_settings())) as store:
        for each in promised:
            found = store.look_message_by_offset(each.position)
            if found is None or bytes(found.body) != putter.filled(each.text):
                there = "are there" if putter.filled(each.text) in raw else "are not on the disk"
                lost[each] = f"the log ends at {store.max_offset}: its bytes {there}"
            del found
    return lost
