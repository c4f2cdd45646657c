"""The open halves: who may end which, under which names, and from where a restart must read."""

import threading
from collections.abc import Callable

import pytest

from mqstore.broker import open_halves as open_halves_module
from mqstore.broker.open_halves import OpenHalf, OpenHalves
from support.disks.interrupts import interrupted_at


def opened(*queue_offsets: int) -> OpenHalves:
    """Halves that were never replaced."""
    halves = OpenHalves()
    for queue_offset in queue_offsets:
        halves.add(queue_offset, OpenHalf(queue_offset * 100, (queue_offset,)))
    return halves


def test_the_first_to_claim_a_half_ends_it() -> None:
    """Others find that it is being ended, or was."""
    halves = opened(5)
    assert halves.claim(5) == 5
    assert halves.claim(5) is None
    assert halves.in_order() == []
    halves.close([5], 0)
    assert halves.claim(5) is None
    assert halves.get(5) is None
    assert repr(halves) == "OpenHalves(0 open)"


def test_a_half_that_could_not_be_ended_is_open_again() -> None:
    """The disk was full: the producer tries again, or is asked."""
    halves = opened(5)
    assert halves.claim(5) == 5
    halves.release(5)
    assert halves.in_order() == [5]
    assert halves.claim(5) == 5


def test_a_half_is_known_by_those_that_it_replaces() -> None:
    """An end by any of them ends it; then none is known any more."""
    halves = opened(5, 6)
    halves.replace([5], 0, {7: OpenHalf(700, (5, 7))})
    halves.replace([7], 1, {8: OpenHalf(800, (5, 7, 8))})
    assert halves.get(8) == OpenHalf(800, (5, 7, 8))
    assert halves.claim(5) == 8
    halves.close([8], 2)
    assert [halves.claim(name) for name in (5, 7, 8)] == [None] * 3
    assert halves.in_order() == [6]


def test_an_end_waits_while_its_half_is_checked() -> None:
    """Then it ends the half that was put anew. Other halves are ended meanwhile."""
    halves = opened(5, 6)
    claimed: list[int | None] = []
    thread = threading.Thread(target=lambda: claimed.append(halves.claim(5)))
    with halves.checking([5]) as left:
        assert left == [5]
        thread.start()
        assert halves.claim(6) == 6
        halves.replace([5], 0, {7: OpenHalf(700, (5, 7))})
        assert claimed == []
    thread.join(60)
    assert claimed == [7]


def test_what_is_ended_meanwhile_is_not_checked() -> None:
    """A check decides first which halves are overdue, and then asks which are left."""
    halves = opened(5, 6, 7)
    halves.claim(5)
    halves.close([6], 0)
    with halves.checking([5, 6, 7]) as left:
        assert left == [7]
    assert halves.claim(7) == 7


def test_a_half_that_the_log_has_lost_is_forgotten() -> None:
    """Unless somebody ends it just now, and will see for itself."""
    halves = opened(5, 6)
    halves.claim(6)
    for queue_offset in (5, 6, 7):
        halves.forget_lost(queue_offset)
    assert halves.get(5) is None
    assert halves.get(6) is not None


def test_a_restart_reads_from_the_first_open_half_on() -> None:
    """And from the first op that names a half from there on."""
    halves = opened(0, 1, 2, 3)
    assert halves.progress(4) == (0, 0)
    halves.close([1], 0)
    halves.close([0], 1)
    assert halves.progress(4) == (2, 2)
    halves.close([3], 2)
    assert halves.progress(4) == (2, 2)
    halves.close([2], 3)
    assert halves.progress(4) == (4, 4)
    assert opened().progress(0) == (0, 0)


def test_halves_that_are_being_put_hold_the_progress_back() -> None:
    """One may have its place in the queue, and not be known yet."""
    halves = opened()
    with halves.arriving(3):
        halves.add(4, OpenHalf(400, (4,)))
        assert halves.progress(5) == (3, 0)
        halves.add(3, OpenHalf(300, (3,)))
    assert halves.progress(5) == (3, 0)
    with pytest.raises(ValueError, match="full"), halves.arriving(5):
        raise ValueError("full")
    halves.close([3, 4], 0)
    assert halves.progress(5) == (5, 1)


def test_ops_are_passed_in_their_order() -> None:
    """One that is not known yet may name a half that a restart reads again."""
    halves = opened(0, 1, 2)
    halves.close([1], 1)
    assert halves.progress(3) == (0, 0)
    halves.close([0], 2)
    assert halves.progress(3) == (2, 0)
    halves.close([2], 0)
    assert halves.progress(3) == (3, 3)


def test_what_was_read_is_open() -> None:
    """With the ops that were read too, one of which names nothing."""
    halves = OpenHalves()
    halves.load({4: OpenHalf(400, (4,)), 9: OpenHalf(900, (2, 9))}, {7: 3, 8: -1, 9: 6}, 7)
    assert halves.in_order() == [4, 9]
    assert halves.progress(10) == (4, 9)
    assert halves.claim(2) == 9


def test_ctrl_c_leaves_no_half_locked() -> None:
    """It strikes anywhere in a claim, a close or a check; another thread then ends the other half."""

    def check(halves: OpenHalves) -> None:
        with halves.checking([5]):
            pass

    scenes: tuple[Callable[[OpenHalves], object], ...] = (
        lambda halves: halves.claim(5),
        lambda halves: halves.close([5], 0),
        lambda halves: halves.progress(7),
        check,
    )
    for scene in scenes:
        place, was_interrupted = 0, True
        while was_interrupted:
            place += 1
            halves = opened(5, 6)
            was_interrupted = interrupted_at(place, (open_halves_module,), lambda: scene(halves))  # noqa: B023
            claimed: list[int | None] = []
            thread = threading.Thread(target=lambda: claimed.append(halves.claim(6)), daemon=True)  # noqa: B023
            thread.start()
            thread.join(60)
            assert claimed == [6], place
