"""Arrivals: who waits is told, and an interrupted announcement or wait holds nobody up."""

import threading
import time
from collections.abc import Callable

import pytest

from mqstore.put import arrivals as arrivals_module
from mqstore.put.arrivals import Arrival, Arrivals
from mqstore.store.message.stored_message import StoredMessage
from support.disks.interrupts import interrupted_at
from support.twins.plain_records import record


class OneMessage:
    """A log with one message in it, all of which can be read."""

    message = StoredMessage.of(memoryview(record(0, topic="orders", queue_offset=6)))

    def look_message_by_offset(self, physical_offset: int) -> StoredMessage | None:
        return self.message

    def when_visible(self, end_offset: int, action: Callable[[], None]) -> None:
        action()


def arrivals_of_one() -> Arrivals:
    return Arrivals(OneMessage(), OneMessage())


def test_all_who_wait_are_told() -> None:
    """And nobody wants to know any more when they have gone."""
    arrivals = arrivals_of_one()
    arrived = threading.Event()
    answers: list[bool] = []
    waiting = [
        threading.Thread(target=lambda: answers.append(arrivals.wait(arrived.is_set, 60_000)))
        for _ in range(4)
    ]
    for thread in waiting:
        thread.start()
    while not arrivals.wanted:
        time.sleep(0.001)
    arrived.set()
    arrivals.announce([0], 1)
    for thread in waiting:
        thread.join(60)
    assert answers == [True] * 4
    assert not arrivals.wanted


def test_waiting_ends_when_time_is_up() -> None:
    """Also when there is none at all."""
    arrivals = arrivals_of_one()
    for timeout_ms in (0, 1, 15):
        assert not arrivals.wait(lambda: False, timeout_ms)
    assert arrivals.wait(lambda: True, 0)


def test_ctrl_c_between_any_two_lines_holds_nobody_up() -> None:
    """Those of the standard library among them: a lock that stayed taken would stop every put."""
    modules = (threading, arrivals_module)
    scenes = (
        lambda arrivals: arrivals.announce([0], 1),
        lambda arrivals: arrivals.wait(lambda: False, 0),
        lambda arrivals: arrivals.wait(lambda: False, 5),
        lambda arrivals: arrivals.add_listener(lambda arrival: None),
        lambda arrivals: arrivals.close(),
    )
    for scene in scenes:
        line, was_interrupted = 0, True
        while was_interrupted:
            line += 1
            arrivals = arrivals_of_one()
            was_interrupted = interrupted_at(line, modules, lambda: scene(arrivals))  # noqa: B023

            def others(arrivals: Arrivals = arrivals) -> None:
                arrivals.announce([0], 1)
                arrivals.wait(lambda: False, 1)
                arrivals.close()

            thread = threading.Thread(target=others, daemon=True)
            thread.start()
            thread.join(10)
            assert not thread.is_alive(), line


def test_what_a_listener_raises_is_kept() -> None:
    """And the others are called."""
    arrivals = arrivals_of_one()
    told: list[int] = []

    def fail(arrival: Arrival) -> None:
        raise ValueError(arrival.topic)

    arrivals.add_listener(fail)
    arrivals.add_listener(lambda arrival: told.append(arrival.next_offset))
    arrivals.announce([0], 1)
    assert told == [7]
    with pytest.raises(ValueError, match="orders"):
        raise arrivals.error or AssertionError
