"""The open halves: who may end which, under which names, and from where a restart must read."""

import threading
from collections.abc import Callable

import pytest

from mqstore.broker import open_halves as open_halves_module
from mqstore.broker.open_halves import OpenHalf, OpenHalves
from support.crash.interrupt_storm import Strike, Struck
from support.disks.interrupts import interrupted_at


def opened(*queue_offsets: int) -> OpenHalves:
    """Halves that were never replaced."""
    halves = OpenHalves()
    for queue_offset in queue_offsets:
        halves.add(queue_offset, OpenHalf(queue_offset * 100, (queue_offset,)))
    return halves


def ended(halves: OpenHalves, name: int, op_offset: int | None) -> int | None:
    """End the half of that name; the queue offset of what was ended."""

    def end(queue_offset: int | None) -> int | None:
        if queue_offset is not None and op_offset is not None:
            halves.close([queue_offset], op_offset)
        return queue_offset

    return halves.ending(name, end)


def test_the_first_ends_a_half() -> None:
    """Others find that it is being ended, or was."""
    halves = opened(5)

    def end(queue_offset: int | None) -> None:
        assert (queue_offset, ended(halves, 5, 1)) == (5, None)
        assert halves.in_order() == []
        halves.close([5], 0)

    halves.ending(5, end)
    assert ended(halves, 5, 1) is None
    assert halves.get(5) is None
    assert repr(halves) == "OpenHalves(0 open)"


def test_a_half_that_could_not_be_ended_is_open_again() -> None:
    """The disk was full: the producer tries again, or is asked."""
    halves = opened(5)

    def fail(_: int | None) -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        halves.ending(5, fail)
    assert halves.in_order() == [5]
    assert ended(halves, 5, 0) == 5


def test_a_half_is_known_by_those_that_it_replaces() -> None:
    """An end by any of them ends it; then none is known any more."""
    halves = opened(5, 6)
    halves.replace([5], 0, {7: OpenHalf(700, (5, 7))})
    halves.replace([7], None, {8: OpenHalf(800, (5, 7, 8))})
    assert halves.get(8) == OpenHalf(800, (5, 7, 8))
    assert ended(halves, 5, 2) == 8
    assert [ended(halves, name, 3) for name in (5, 7, 8)] == [None] * 3
    assert halves.in_order() == [6]


def test_an_end_waits_while_its_half_is_checked() -> None:
    """Then it ends the half that was put anew. Other halves are ended meanwhile."""
    halves = opened(5, 6)
    claimed: list[int | None] = []
    thread = threading.Thread(target=lambda: claimed.append(ended(halves, 5, 1)))

    def check(left: frozenset[int]) -> None:
        assert left == {5}
        thread.start()
        assert ended(halves, 6, 0) == 6
        halves.replace([5], 2, {7: OpenHalf(700, (5, 7))})

    halves.checking([5], check)
    thread.join(60)
    assert claimed == [7]


def test_what_is_ended_meanwhile_is_not_checked() -> None:
    """Nor what somebody ends just now."""
    halves = opened(5, 6, 7)
    halves.close([5], 0)
    assert halves.ending(6, lambda _: halves.checking([5, 6, 7], lambda left: left)) == {7}


def test_a_half_that_the_log_has_lost_is_forgotten() -> None:
    """Unless somebody ends it just now, who knows better."""
    halves = opened(5, 6)

    def forget(_: int | None) -> None:
        for queue_offset in (5, 5, 6):
            halves.forget_lost(queue_offset)

    halves.ending(6, forget)
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

    def put() -> None:
        halves.add(4, OpenHalf(400, (4,)))
        assert halves.progress(5) == (3, 0)
        halves.add(3, OpenHalf(300, (3,)))

    def fail() -> None:
        raise ValueError("full")

    halves.arriving(3, put)
    assert halves.progress(5) == (3, 0)
    with pytest.raises(ValueError, match="full"):
        halves.arriving(5, fail)
    halves.close([3, 4], 0)
    assert halves.progress(5) == (5, 1)


def test_the_progress_never_goes_back() -> None:
    """A half that is announced late is put behind: the ops of those before it are passed."""
    halves = opened(3)
    halves.close([3], 0)
    assert halves.progress(4) == (4, 1)
    assert halves.arriving(3, lambda: halves.progress(4)) == (4, 1)


def test_ops_that_are_being_put_hold_the_progress_back() -> None:
    """They may name a half that a restart reads again, and lie before others that are known already."""
    halves = opened(0, 1, 2)

    def check(_: frozenset[int]) -> None:
        halves.close([1], 1)
        assert halves.progress(3) == (0, 0)
        halves.close([2], 0)
        halves.close([0], 2)
        assert halves.progress(3) == (3, 0)

    halves.ending(2, lambda _: halves.checking([0], check))
    assert halves.progress(3) == (3, 3)


def test_an_op_that_nobody_told_of_holds_nothing_back() -> None:
    """The call that put it was interrupted: the half is open, and a later op will name it."""
    halves = opened(0, 1)

    def interrupt(_: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        halves.ending(0, interrupt)
    halves.close([0, 1], 1)
    assert halves.progress(2) == (2, 2)


def test_passed_ops_are_forgotten() -> None:
    """All at once when the old half is closed that held them back; others may have put ops in between."""
    halves = opened(*range(100))
    for number in range(1, 100):
        halves.close([number], number * 2)
    assert halves.progress(100) == (0, 2)
    halves.close([0], 300)
    assert halves.progress(100) == (100, 301)
    assert halves._ops == {}


def test_what_was_read_is_open() -> None:
    """With the ops that were read too, one of which names nothing."""
    halves = OpenHalves()
    halves.load({4: OpenHalf(400, (4,)), 9: OpenHalf(900, (2, 9))}, {7: 3, 8: -1, 9: 6}, 7)
    assert halves.in_order() == [4, 9]
    assert halves.progress(10) == (4, 9)
    assert ended(halves, 2, 10) == 9
    nothing = OpenHalves()
    nothing.load({}, {}, 7)
    assert nothing.progress(10) == (10, 7)


SCENES: tuple[Callable[[OpenHalves], object], ...] = (
    lambda halves: ended(halves, 5, None),
    lambda halves: ended(halves, 5, 0),
    lambda halves: halves.close([5], 0),
    lambda halves: halves.progress(7),
    lambda halves: halves.checking([5], len),
    lambda halves: halves.arriving(7, lambda: None),
)


def check_that_nothing_is_held(halves: OpenHalves, place: int) -> None:
    """Each of 5 and 6 can be ended by another thread, or is closed; and nothing is being put."""
    is_open = halves.get(5) is not None
    claimed: list[int | None] = []

    def end(name: int) -> None:
        claimed.append(ended(halves, name, 7))

    for name in (6, 5):
        thread = threading.Thread(target=end, args=(name,), daemon=True)
        thread.start()
        thread.join(60)
    assert claimed == [6, 5 if is_open else None], place
    assert halves.progress(9)[0] == 9, place


def test_ctrl_c_leaves_no_half_locked() -> None:
    """It strikes anywhere in an end, a close or a check: each half can be ended, or is closed."""
    for scene in SCENES:
        place, was_interrupted = 0, True
        while was_interrupted:
            place += 1
            halves = opened(5, 6)
            was_interrupted = interrupted_at(place, (open_halves_module,), lambda: scene(halves))  # noqa: B023 - called in this round
            check_that_nothing_is_held(halves, place)
        assert place > 1


def test_an_error_of_an_interrupt_that_is_kept_keeps_no_half() -> None:
    """As above, with every error at hand until the end."""
    for scene in SCENES:
        kept: list[Struck] = []
        has_struck = True
        while has_struck:
            halves = opened(5, 6)
            strike = Strike(len(kept) + 1)
            try:
                with strike:
                    scene(halves)
            except Struck as struck:
                kept.append(struck)
            has_struck = strike.has_struck
            check_that_nothing_is_held(halves, len(kept))
        assert kept
