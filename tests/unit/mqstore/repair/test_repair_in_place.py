"""Repair in place: what is overwritten is copied aside first, and a bad sector is refused.

Method: the damaged stores of test_repair_plan.py, which tests what both kinds of repair keep.
"""

import pytest

from mqstore.repair.repair_copy import repair_into
from mqstore.repair.repair_in_place import repair_in_place
from mqstore.store.errors import RepairRefused
from mqstore.verify.verification import verify
from support.crash.witness import ROOT
from support.disks.simulated_disk import Image
from support.stores.damaged_store import (
    CONFIG,
    SEGMENT_BYTES,
    disk_of,
    intact,
    refuse_to_read,
    segment_path,
    with_bytes,
    wrong_in,
)
from support.stores.repaired_store import ASIDE, NEW, hurt, repaired


def test_damaged_bytes_are_kept_aside() -> None:
    """Each range in a file of its own, named by its physical offset and length."""
    record = intact().records[30]
    image = hurt(30)
    disk, _ = repaired(image)
    name = f"commitlog-{record.physical_offset:020d}-{record.size}"
    position = record.physical_offset % SEGMENT_BYTES
    damaged = image.files[segment_path(record.physical_offset // SEGMENT_BYTES)]
    assert disk.read(ASIDE / name) == bytes(damaged[position : position + record.size])


def test_a_second_repair_finds_nothing_to_do() -> None:
    """And one after new damage keeps its bytes under the next number."""
    disk, _ = repaired(hurt(30))
    before = disk.image()
    plan, aside = repair_in_place(ROOT, CONFIG, file_system=disk, clock=disk.clock, workers=1)
    assert (plan.is_needed, aside) == (False, None)
    assert disk.image() == before
    record = intact().records[60]
    path = segment_path(record.physical_offset // SEGMENT_BYTES)

    def change(data: bytearray) -> None:
        data[record.physical_offset % SEGMENT_BYTES + 90] ^= 1

    again = disk_of(with_bytes(before, path, change))
    _, aside = repair_in_place(ROOT, CONFIG, file_system=again, clock=again.clock, workers=1)
    assert aside == ROOT / "mqstore" / "repaired-0002"
    assert again.exists(ASIDE)


@pytest.mark.parametrize("content", [b"x" * SEGMENT_BYTES, b"x" * 2_080])
def test_a_file_that_is_no_segment_is_kept_aside(content: bytes) -> None:
    """A range of its length was filled once, over the records of the segments that it overlaps."""
    log = intact().image
    path = segment_path(0).with_name(f"{7:020d}")
    disk, _ = repaired(Image({**log.files, path: content}, log.directories))
    assert not disk.exists(path)
    assert disk.read(ASIDE / f"commitlog-{path.name}") == content
    for segment in range(5):
        assert disk.read(segment_path(segment)) == bytes(log.files[segment_path(segment)])
    assert verify(ROOT, CONFIG, file_system=disk, workers=1).is_sound


def test_a_sector_that_cannot_be_read_is_for_a_new_directory() -> None:
    """A write into it would be a SIGBUS in place; around it all is salvaged."""
    disk = disk_of(intact().image)
    refuse_to_read(disk, segment_path(2), 8_192)
    before = disk.image()
    with pytest.raises(RepairRefused, match="new directory"):
        repair_in_place(ROOT, CONFIG, file_system=disk, clock=disk.clock, workers=1)
    assert disk.image() == before

    def hole(data: bytearray) -> None:
        data[8_192:12_288] = bytes(4_096)

    repair_into(ROOT, NEW, CONFIG, file_system=disk, clock=disk.clock, workers=1)
    assert verify(NEW, CONFIG, file_system=disk, workers=1).is_sound
    assert not wrong_in(disk, NEW, with_bytes(intact().image, segment_path(2), hole))
