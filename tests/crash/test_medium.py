"""The medium of the crash simulator: what a power cut may leave, for the smallest histories there are.

Goal: a simulator that leaves out a state proves less than it says. Method: a few steps on a simulated
disk, and all the states of it, listed by hand.
"""

from pathlib import Path

import pytest

from support.disks.medium import Medium, choose
from support.disks.simulated_disk import Image, SimulatedDisk

FOLDER = Path("/d")
FILE = FOLDER / "f"


def all_images(disk: SimulatedDisk, medium: Medium) -> list[Image]:
    for step in disk.steps:
        medium.apply(step)
    units = medium.units()
    images = []
    for seed in range(10_000):
        choices = choose(units, seed, 10_000, "test")
        if choices is None:
            return images
        images.append(medium.image(units, choices))
    raise AssertionError("more than a small history")


@pytest.fixture
def disk() -> SimulatedDisk:
    """With a folder."""
    return SimulatedDisk(Image({}, {Path("/"), FOLDER}))


def contents(images: list[Image], path: Path = FILE) -> set[bytes | None]:
    return {bytes(image.files[path]) if path in image.files else None for image in images}


def test_a_file_that_was_written_may_be_missing_empty_torn_or_whole(disk: SimulatedDisk) -> None:
    medium = Medium(disk)
    disk.write(FILE, b"a" * 512 + b"b" * 8)
    found = contents(all_images(disk, medium))
    assert found == {None, b"", b"a" * 512, bytes(512) + b"b" * 8, b"a" * 512 + b"b" * 8}


def test_what_was_synced_with_its_name_is_there(disk: SimulatedDisk) -> None:
    medium = Medium(disk)
    disk.write(FILE, b"whole")
    disk.sync(FILE)
    disk.sync_directory(FOLDER)
    assert contents(all_images(disk, medium)) == {b"whole"}


def test_a_name_that_was_synced_may_come_without_its_length(disk: SimulatedDisk) -> None:
    """The file's own sync makes that durable, as on btrfs: two new files may be empty, in their order."""
    medium = Medium(disk)
    for name in ("f", "g"):
        disk.map(FOLDER / name, 512, create=True)
        disk.sync_directory(FOLDER)
    lengths = {tuple(len(content) for content in image.files.values()) for image in all_images(disk, medium)}
    assert lengths == {(0, 0), (512, 0), (512, 512)}


def test_a_rename_before_the_sync_may_lead_to_nothing(disk: SimulatedDisk) -> None:
    medium = Medium(disk)
    disk.write(FILE, b"new")
    disk.rename(FILE, FOLDER / "g")
    images = all_images(disk, medium)
    assert contents(images, FOLDER / "g") == {None, b"", bytes(3), b"new"}


def test_sectors_of_mapped_memory_are_kept_each_for_itself_and_may_be_torn(disk: SimulatedDisk) -> None:
    medium = Medium(disk)
    region = disk.map(FILE, 1024, create=True)
    region.reserve(0, 1024)
    region.sync()
    disk.sync_directory(FOLDER)
    region.write(496, b"x" * 16 + b"y" * 16)
    found = {content[496:528] for content in contents(all_images(disk, medium)) if content is not None}
    halves = [bytes(16), b"x" * 8 + bytes(8), b"x" * 16]
    others = [bytes(16), b"y" * 8 + bytes(8), b"y" * 16]
    assert found == {first + second for first in halves for second in others}


def test_later_writes_to_a_sector_come_behind_earlier_ones(disk: SimulatedDisk) -> None:
    medium = Medium(disk)
    region = disk.map(FILE, 512, create=True)
    region.reserve(0, 512)
    region.sync()
    disk.sync_directory(FOLDER)
    region.write(0, b"1" * 8)
    region.write(8, b"2" * 8)
    found = {content[:16] for content in contents(all_images(disk, medium)) if content is not None}
    assert found == {bytes(16), b"1" * 8 + bytes(8), b"1" * 8 + b"2" * 8}


def test_a_publish_is_two_writes(disk: SimulatedDisk) -> None:
    """The first word of a record comes last, so without it nothing is there."""
    region = disk.map(FILE, 512, create=True)
    region.reserve(0, 512)
    region.publish(0, b"12345678rest")
    assert [(step.position, step.data) for step in disk.steps if step.kind == "write"] == [
        (8, b"rest"),
        (0, b"12345678"),
    ]


def test_a_failed_sync_forgets_what_was_dirty(disk: SimulatedDisk) -> None:
    """The process still sees it, and a second sync succeeds without having written it."""
    medium = Medium(disk)
    region = disk.map(FILE, 512, create=True)
    region.reserve(0, 512)
    disk.sync_directory(FOLDER)
    region.write(0, b"lost")

    def fail(what: str, path: Path) -> None:
        if what == "sync":
            raise OSError(5, "Input/output error")

    disk.before = fail
    with pytest.raises(OSError, match="Input/output error"):
        region.sync()
    disk.before = lambda what, path: None
    region.sync()
    assert contents(all_images(disk, medium)) == {bytes(512)}
    assert bytes(region.view[:4]) == b"lost"


def test_writing_where_no_room_was_reserved_is_refused(disk: SimulatedDisk) -> None:
    """I4."""
    region = disk.map(FILE, 8192, create=True)
    region.reserve(0, 4096)
    region.write(4000, bytes(96))
    with pytest.raises(AssertionError, match="I4"):
        region.write(4090, bytes(10))
