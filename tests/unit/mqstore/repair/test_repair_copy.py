"""Repair into a new directory: the source is only read, and nothing is overwritten.

Method: the damaged stores of test_repair_plan.py, which tests what both kinds of repair keep.
"""

from pathlib import Path

import pytest

from mqstore.repair.repair_copy import repair_into
from mqstore.store.errors import RepairRefused
from support.crash.witness import ROOT
from support.stores.damaged_store import (
    CONFIG,
    disk_of,
)
from support.stores.repaired_store import NEW, hurt, repaired


def test_a_repair_into_a_new_directory_leaves_the_old_one() -> None:
    """It is only read."""
    image = hurt(30, hurt(90))
    disk, _ = repaired(image, into=True)
    assert {path: data for path, data in disk.image().files.items() if ROOT in path.parents} == {
        path: bytes(data) for path, data in image.files.items()
    }
    assert not disk.exists(NEW / "mqstore" / "repair-unfinished")


def test_a_directory_with_something_in_it_is_refused() -> None:
    """Nothing is overwritten."""
    disk = disk_of(hurt(30))
    disk.make_directories(NEW)
    disk.write(NEW / "precious", b"")
    with pytest.raises(RepairRefused, match="not empty"):
        repair_into(ROOT, NEW, CONFIG, file_system=disk, clock=disk.clock, workers=1)
    assert disk.exists(NEW / "precious")


@pytest.mark.parametrize("target", [ROOT, ROOT / "new", ROOT / "config" / ".." / "new", ROOT.parent])
def test_a_directory_inside_of_the_damaged_one_is_refused(target: Path) -> None:
    """The copy would be copied as well; not a byte is written, even where an earlier repair was killed."""
    disk = disk_of(hurt(30))
    disk.make_directories(target / "mqstore")
    disk.write(target / "mqstore" / "repair-unfinished", b"")
    before = disk.image()
    with pytest.raises(RepairRefused, match="lie in each other"):
        repair_into(ROOT, target, CONFIG, file_system=disk, clock=disk.clock, workers=1)
    assert disk.image().files == before.files
