"""The fill plan: what goes into a damaged range fills it to the byte, in the order of every queue.

Method: ranges of all lengths with lost messages of known and unknown places; the bytes are scanned.
"""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.repair.fill_plan import Fill, plan_fills
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record import record_kernels
from mqstore.verify.log_outline import LogScan
from mqstore.verify.log_scan import DamagedRange
from mqstore.verify.unclaimed_entries import LostMessage

SEGMENT_BYTES = 1 << 20


def damaged(start: int, end: int) -> DamagedRange:
    return DamagedRange(start, end, "a record", "none", 1_000)


def lost(queue: int, offset: int, at: int = -1, size: int = -1) -> LostMessage:
    return LostMessage("orders", queue, offset, at, size, 0, 2**62)


def filled(start: int, end: int, *messages: LostMessage) -> tuple[Fill, tuple[LostMessage, ...]]:
    damage = damaged(start, end)
    (fill,), left_out = plan_fills(LogScan(0, end, (damage,), -1), messages, SEGMENT_BYTES, 2_000)
    return fill, left_out


def bytes_of(fill: Fill) -> np.ndarray:
    """What is written, in one piece without holes but for what a BLANK fills."""
    at, data = fill.damage.start_offset, b""
    for offset, record in fill.records():
        assert offset == at
        data += record
        at += len(record)
    if not fill.ends_segment:
        assert at == fill.damage.end_offset
    return np.frombuffer(data, np.uint8)


def queue_offsets(fill: Fill) -> dict[int, list[int]]:
    """Of the placeholders, by queue."""
    found: dict[int, list[int]] = {}
    for _, record in list(fill.records())[: len(fill.places)]:
        message = StoredMessage.of(memoryview(record))
        found.setdefault(message.queue_id, []).append(message.queue_offset)
    return found


@pytest.mark.parametrize("length", [92, 93, 111, 112, 113, 500, 3 << 20])
def test_a_range_that_cost_no_message_gets_fillers(length: int) -> None:
    """Several, where it is long."""
    fill, _ = filled(100, 100 + length)
    data = bytes_of(fill)
    assert record_kernels.scan(data, 0, len(data), 100)[0] == len(data) == length


def test_messages_in_known_places_get_placeholders_there() -> None:
    """Of the same size, whatever their order is said in."""
    fill, _ = filled(1_000, 1_900, lost(1, 5, 1_400, 500), lost(0, 8, 1_000, 400))
    assert [(each.offset, each.size_bytes) for each in fill.places] == [(1_000, 400), (1_400, 500)]
    data = bytes_of(fill)
    assert record_kernels.scan(data, 0, len(data), 1_000)[:2] == (900, 2)


def test_a_rest_that_is_too_short_for_a_filler_goes_to_a_placeholder() -> None:
    """The room is used to the byte."""
    for rest in range(1, 100):
        fill, _ = filled(0, 400 + rest, lost(0, 8, 0, 400))
        data = bytes_of(fill)
        assert record_kernels.scan(data, 0, len(data), 0)[0] == 400 + rest


def test_the_end_of_a_segment_becomes_a_blank() -> None:
    """Behind the placeholders; the BLANK is as long as what is left."""
    fill, _ = filled(SEGMENT_BYTES - 5_000, SEGMENT_BYTES, lost(0, 8, SEGMENT_BYTES - 5_000, 400))
    data = bytes_of(fill)
    position, records, _, why = record_kernels.scan(data, 0, len(data), SEGMENT_BYTES - 5_000)
    assert (position, records, why) == (400, 1, record_kernels.BLANK_FOUND)
    assert int.from_bytes(bytes(data[400:404]), "big") == 4_600


def test_messages_that_do_not_fit_are_left_out() -> None:
    """So many queue offsets stay without a record, and it is said."""
    fill, left_out = filled(0, 300, *(lost(0, number) for number in range(9)))
    assert len(fill.places) + len(left_out) == 9
    assert left_out
    bytes_of(fill)


@given(st.integers(0, 2**32))
def test_every_range_is_filled_in_the_order_of_its_queues(seed: int) -> None:
    """Places known of all messages, of some, of none."""
    chance = random.Random(seed)
    start = chance.randrange(10_000)
    at, messages = start, []
    numbers = [0, 0, 0]
    for _ in range(chance.randrange(1, 12)):
        size, queue = chance.randrange(120, 600), chance.randrange(3)
        is_known = chance.random() < chance.choice((0, 0.5, 1))
        messages.append(lost(queue, numbers[queue], at, size) if is_known else lost(queue, numbers[queue]))
        numbers[queue] += 1
        at += size
    fill, left_out = filled(start, at, *messages)
    assert left_out == ()
    data = bytes_of(fill)
    assert record_kernels.scan(data, 0, len(data), start)[0] == at - start
    found = queue_offsets(fill)
    assert found == {queue: sorted(offsets) for queue, offsets in found.items()}
    assert sum(map(len, found.values())) == len(messages)
