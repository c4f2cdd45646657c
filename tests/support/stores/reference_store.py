"""The reference store: a few messages of all kinds in one segment, and how its bytes are changed."""

from collections.abc import Callable
from pathlib import Path

from mqstore import MessageStore
from mqstore.store.state.recovery_point_format import RecoveryPoint, encode_recovery_point
from support.crash.witness import ROOT, Witness, crash_config
from support.disks.simulated_disk import Image, SimulatedDisk
from support.manual_clock import ManualClock

__all__ = [
    "RECOVERY_POINT",
    "SEGMENT",
    "changed",
    "flipped",
    "opened",
    "reference",
    "replaced",
    "walked_from_its_start",
]

SEGMENT = ROOT / "commitlog" / f"{0:020d}"
RECOVERY_POINT = ROOT / "mqstore" / "recovery-point"


def reference(*, closed: bool = True) -> tuple[Image, int]:
    """A store whose recovery point is the log's end; and where that is."""
    clock = ManualClock()
    disk = SimulatedDisk(clock=clock)
    witness = Witness(disk, clock, crash_config())
    store = witness.open()
    witness.put("a", 40, tags="red", properties={"colour": "red"})
    witness.put("%RETRY%" + "g" * 140, 30)
    witness.put("b", 60, delay_level=2)
    witness.put("a", 30)
    witness.commit("group", "a", 0, 1)
    witness.flush()
    end = store.max_offset
    if closed:
        witness.close()
    return disk.image(), end


def walked_from_its_start(image: Image, end: int) -> Image:
    """As if the queues had been durable up to nothing: the next opening walks the log from its first byte."""
    return replaced(image, RECOVERY_POINT, encode_recovery_point(RecoveryPoint(end, 0)))


def opened(image: Image) -> MessageStore:
    """The store on a fresh disk that holds `image`."""
    disk = SimulatedDisk(image)
    return MessageStore.open(ROOT, crash_config(), clock=ManualClock(), file_system=disk, start=False)


def replaced(image: Image, path: Path, data: bytes | bytearray) -> Image:
    """`image` with another file at `path`."""
    return Image(image.files | {path: data}, image.directories)


def changed(image: Image, change: Callable[[bytearray], None], path: Path = SEGMENT) -> Image:
    """`image` with what `change` made of one file's bytes."""
    data = bytearray(image.files[path])
    change(data)
    return replaced(image, path, data)


def flipped(image: Image, bit: int) -> Image:
    """`image` with one bit of the log flipped."""

    def flip(data: bytearray) -> None:
        data[bit // 8] ^= 1 << bit % 8

    return changed(image, flip)
