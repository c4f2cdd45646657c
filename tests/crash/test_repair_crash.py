"""A repair that is cut short at any point can be run again, and loses nothing that was whole before.

Method: a damaged store on a simulated disk is repaired once, and the steps are recorded. Then, step by step,
the states that a kill and a power cut may leave are repaired again: all survivors must be in their places,
and the damaged bytes that the first repair has overwritten must be kept aside by then.
"""

import random

import pytest

from mqstore.repair.rebuild import rebuild
from mqstore.repair.repair_copy import repair_into
from mqstore.repair.repair_in_place import repair_in_place
from mqstore.verify.verification import verify
from support.crash.witness import ROOT
from support.disks.medium import Medium, choose
from support.disks.simulated_disk import Image, SimulatedDisk
from support.stores.damaged_store import CONFIG, disk_of, intact, random_damage, survivors, wrong_in

NEW = ROOT.parent / "new"
STRIDE = 7


def states_of(disk: SimulatedDisk, medium: Medium, salt: str) -> list[tuple[str, Image]]:
    """States that a crash may leave after each `STRIDE`-th step: all that was written, and a power cut."""
    states = []
    for at, step in enumerate(list(disk.steps)):
        medium.apply(step)
        if at % STRIDE == 0:
            units = medium.units()
            everything = medium.image(units, [unit.options - 1 for unit in units])
            states.append((f"killed after {at}", everything))
            choices = choose(units, random.Random(f"{salt}/{at}").randrange(4, 100), 100, salt)
            if choices is not None:
                states.append((f"power cut after {at}", medium.image(units, choices)))
    return states


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 6])
def test_a_repair_in_place_that_crashes_is_run_again(seed: int) -> None:
    """Killed, or with the power cut, at any step."""
    image = random_damage(random.Random(seed), intact().image)
    disk = disk_of(image)
    medium = Medium(disk)
    repair_in_place(ROOT, CONFIG, file_system=disk, clock=disk.clock, workers=1)
    for name, state in states_of(disk, medium, f"place/{seed}"):
        again = disk_of(state)
        repair_in_place(ROOT, CONFIG, file_system=again, clock=again.clock, workers=1)
        report = verify(ROOT, CONFIG, file_system=again, workers=1)
        assert report.is_sound, (name, report.damages)
        assert not (wrong := wrong_in(again, ROOT, image)), (name, wrong)


@pytest.mark.slow
def test_a_repair_into_a_new_directory_that_crashes_is_run_again() -> None:
    """It begins anew; the source is never touched."""
    image = random_damage(random.Random(2), intact().image)
    disk = disk_of(image)
    medium = Medium(disk)
    repair_into(ROOT, NEW, CONFIG, file_system=disk, clock=disk.clock, workers=1)
    for name, state in states_of(disk, medium, "into")[::2]:
        again = disk_of(state)
        is_marked = again.exists(NEW / "mqstore" / "repair-unfinished")
        # Before the mark there is nothing, and behind it a store that is sound.
        if not is_marked and again.exists(NEW / "commitlog"):
            assert verify(NEW, CONFIG, file_system=again, workers=1).is_sound, name
            continue
        repair_into(ROOT, NEW, CONFIG, file_system=again, clock=again.clock, workers=1)
        assert verify(NEW, CONFIG, file_system=again, workers=1).is_sound, name
        assert not (wrong := wrong_in(again, NEW, image)), (name, wrong)
        assert len(survivors(again.image())) == len(survivors(image))


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False])
def test_a_rebuild_that_crashes_is_run_again_or_just_opened(closed: bool) -> None:
    """At any step; the queues are then those that they were."""
    image = intact(closed=closed).image
    disk = disk_of(image)
    medium = Medium(disk)
    rebuild(ROOT, CONFIG, queues=True, file_system=disk, clock=disk.clock)
    for index, (name, state) in enumerate(states_of(disk, medium, f"rebuild/{closed}")):
        again = disk_of(state)
        if index % 2:
            rebuild(ROOT, CONFIG, queues=True, file_system=again, clock=again.clock)
        assert not (wrong := wrong_in(again, ROOT, image)), (name, wrong)
        assert verify(ROOT, CONFIG, file_system=again, workers=1).is_sound, name
