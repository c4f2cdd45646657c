"""The unique id: where its digits come from, and that no two are alike.

Rows of UNIQ_KEY in docs/spec/client_produce.md section 2; MessageClientIDSetter of Apache RocketMQ.
"""

import os
import socket
import threading
import time

import pytest

from mqstore.client.producer.message import unique_id
from mqstore.client.producer.message.unique_id import UniqueIds, local_address
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds


@pytest.fixture(autouse=True)
def a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no id had been made yet, with whatever clock."""
    monkeypatch.setattr(unique_id, "_process", None)


def milliseconds_of(made: str) -> int:
    return int(made[20:28], 16)


def local_ms(*date: int) -> int:
    """Epoch ms of a local time."""
    return int(time.mktime((*date, *[0] * (8 - len(date)), -1))) * 1000


def test_the_parts_of_an_id() -> None:
    """32 digits: address, pid, a number of this process, milliseconds since the month began, counter."""
    clock = ManualClock(local_ms(2026, 3, 14, 15, 9, 26) + 535)
    made = UniqueIds(clock, ManualSeconds()).create()
    assert len(made) == 32
    assert made == made.upper()
    assert bytes.fromhex(made[:8]) == local_address()
    assert int(made[8:12], 16) == os.getpid() & 0xFFFF
    assert milliseconds_of(made) == clock.now_ms() - local_ms(2026, 3, 1)


@pytest.mark.parametrize(
    ("date", "next_month"),
    [((2026, 1, 31, 23, 59, 59), (2026, 2, 1)), ((2026, 12, 31, 23, 59, 59), (2027, 1, 1))],
)
def test_a_new_month_begins_at_zero(date: tuple[int, ...], next_month: tuple[int, ...]) -> None:
    """Also after December; 31 days of milliseconds fit."""
    process = unique_id._Process(bytes(4))
    assert int(process.prefix(local_ms(*date) + 999)[20:28], 16) == 31 * 86_400_000 - 1
    assert int(process.prefix(local_ms(*next_month))[20:28], 16) == 0


def test_a_clock_that_is_set_back() -> None:
    """A little before the month it is the month's beginning; far before it, the number is negative, as in
    Java."""
    process = unique_id._Process(bytes(4))
    march = local_ms(2026, 3, 1)
    process.prefix(march + 5)
    assert int(process.prefix(march - 999_999)[20:28], 16) == 0
    assert int(process.prefix(march - 1_000_000)[20:28], 16) == 2**32 - 1_000_000


def test_ids_of_several_threads_and_producers_differ() -> None:
    """Within one millisecond, and although each draws from blocks of its own."""
    clock, seconds = ManualClock(), ManualSeconds()
    producers = [UniqueIds(clock, seconds) for _ in range(3)]
    made: list[str] = []

    def make(ids: UniqueIds) -> None:
        made.extend([ids.create() for _ in range(1_500)])

    threads = [threading.Thread(target=make, args=(ids,)) for ids in producers * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == len(made) == 9 * 1_500


def test_the_clock_is_asked_once_a_millisecond() -> None:
    """The time of an id is that of its block."""
    clock, seconds = ManualClock(), ManualSeconds()
    ids = UniqueIds(clock, seconds)
    first = milliseconds_of(ids.create())
    clock.advance(7)
    assert milliseconds_of(ids.create()) == first
    seconds.advance(0.001)
    assert milliseconds_of(ids.create()) == first + 7


def test_a_forked_child_makes_other_ids() -> None:
    """Its pid and its number are its own, although the block was begun before the fork."""
    ids = UniqueIds(ManualClock(), ManualSeconds())
    before = ids.create()
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, ids.create().encode())
        os._exit(0)
    os.waitpid(child, 0)
    made = os.read(reader, 100).decode()
    os.close(reader)
    os.close(writer)
    assert made[:8] == before[:8]
    assert int(made[8:12], 16) == child & 0xFFFF
    assert made[12:20] != before[12:20]


def test_a_block_that_is_drawn_is_of_one_caller() -> None:
    """What others make meanwhile begins otherwise; a child has none."""
    ids = UniqueIds(ManualClock(), ManualSeconds())
    others = [ids.create()]
    renew_s, prefix = ids.draw(5.0)
    others += [ids.create() for _ in range(1_000)]
    assert ids.drawn[0] == (renew_s, prefix) == (5.001, others[0][:28] + prefix[28:])
    assert len(prefix) == 30
    assert not [each for each in others if each.startswith(prefix)]
    unique_id._begin_anew_in_child()
    assert ids.drawn[0] == unique_id._NOTHING_DRAWN


def test_a_machine_without_a_network_has_a_made_up_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four bytes of the time, as in RocketMQ."""

    def unreachable(*_: object) -> None:
        raise OSError("network is unreachable")

    monkeypatch.setattr(socket, "socket", unreachable)
    assert len(local_address()) == 4
