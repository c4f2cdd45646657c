"""Repairs of the intact store after one damage, checked as every repair is."""

from pathlib import Path

from mqstore.repair.repair_copy import repair_into
from mqstore.repair.repair_in_place import repair_in_place
from mqstore.repair.repair_plan import RepairPlan
from mqstore.verify.verification import verify
from support.crash.witness import ROOT
from support.disks.simulated_disk import Image, SimulatedDisk
from support.stores.damaged_store import (
    CONFIG,
    SEGMENT_BYTES,
    disk_of,
    intact,
    segment_path,
    with_bytes,
    wrong_in,
)

__all__ = ["ASIDE", "NEW", "hurt", "repaired"]

NEW = Path("/new")
ASIDE = ROOT / "mqstore" / "repaired-0001"


def repaired(image: Image, *, into: bool = False) -> tuple[SimulatedDisk, RepairPlan]:
    """A disk with the repaired store, which verify calls sound and where every survivor is in its place."""
    disk = disk_of(image)
    if into:
        plan, root = repair_into(ROOT, NEW, CONFIG, file_system=disk, clock=disk.clock, workers=1), NEW
    else:
        plan, root = repair_in_place(ROOT, CONFIG, file_system=disk, clock=disk.clock, workers=1)[0], ROOT
    after = verify(root, CONFIG, file_system=disk, workers=1)
    assert after.is_sound, after.damages
    assert not (wrong := wrong_in(disk_of(disk.image()), root, image)), wrong
    return disk, plan


def hurt(number: int, image: Image | None = None) -> Image:
    """The intact store with a byte of one record's body changed."""
    record = intact().records[number]
    segment, position = divmod(record.physical_offset, SEGMENT_BYTES)

    def change(data: bytearray) -> None:
        data[position + 95] ^= 0xFF

    return with_bytes(image or intact().image, segment_path(segment), change)
