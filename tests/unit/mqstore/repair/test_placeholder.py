"""Placeholders and fillers: whole records of every size from the least on.

Method: each is given to the check that names what is wrong, to the compiled scan, and to the oracle.
"""

import numpy as np
import pytest

from mqstore.repair.placeholder import MIN_FILLER_BYTES, filler, least_bytes, placeholder
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from mqstore.store.record import record_kernels
from mqstore.store.record.properties_format import LOST
from mqstore.store.record.record_format import check_record
from mqstore.store.record.sys_flag import takes_queue_offset

BASE = 1_000_000
TOPICS = ("T", "orders", SCHEDULE_TOPIC, "%RETRY%" + "g" * 140, "x" * 127)


def is_whole(record: bytes) -> bool:
    header = check_record(memoryview(record), BASE)
    data = np.frombuffer(record, np.uint8)
    return header.total_size == len(record) and record_kernels.scan(data, 0, len(data), BASE)[1] == 1


@pytest.mark.parametrize("topic", TOPICS)
def test_a_placeholder_takes_exactly_the_room_it_is_given(topic: str) -> None:
    """From the very least on, byte by byte; what it says grows with the room."""
    full, least = least_bytes(topic)
    assert least <= full
    for size in [*range(least, full + 80), 5_000, 100_000]:
        record = placeholder(topic, 3, 17, BASE, size, 1_726_740_000_000)
        assert len(record) == size
        assert is_whole(record), size
        message = StoredMessage.of(memoryview(record))
        assert (message.topic, message.queue_id, message.queue_offset) == (topic, 3, 17)
        assert (message.physical_offset, message.store_timestamp) == (BASE, 1_726_740_000_000)
        assert takes_queue_offset(message.sys_flag)
        assert not any(message.body)
        if size >= full:
            assert message.properties[LOST] == "1"
    with pytest.raises(StopIteration):
        placeholder(topic, 3, 17, BASE, least - 1, 1)


@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic != SCHEDULE_TOPIC])
def test_no_record_is_too_short_for_its_placeholder(topic: str) -> None:
    """The shortest record of a topic has neither body nor properties; its placeholder takes no more."""
    width = 1 if len(topic) <= 127 else 2
    assert least_bytes(topic)[1] == 88 + width + len(topic) + 2


def test_a_delayed_placeholder_says_where_it_goes() -> None:
    """To where delivery discards it, or, where that does not fit, to a topic of its own."""
    full, least = least_bytes(SCHEDULE_TOPIC)
    for size, topic in ((full, TRANS_HALF_TOPIC), (least, "LOST")):
        message = StoredMessage.of(memoryview(placeholder(SCHEDULE_TOPIC, 1, 0, BASE, size, 1)))
        assert (message.properties["REAL_TOPIC"], message.properties["REAL_QID"]) == (topic, "0")


def test_a_filler_takes_exactly_the_room_it_is_given() -> None:
    """It gets no entry in a queue and no key."""
    from mqstore.index.keys import key_kernels
    from mqstore.index.queue import entry_kernels as index_kernels

    for size in [*range(MIN_FILLER_BYTES, MIN_FILLER_BYTES + 60), 4_096, 1 << 20]:
        record = filler(BASE, size, 1)
        assert len(record) == size
        assert is_whole(record), size
        data = np.frombuffer(record, np.uint8)
        entries, *_ = index_kernels.consume_queue_entries(data, BASE, np.zeros((1, 1), np.int64))
        assert len(entries) == 0
        rows = np.empty((1 << 14, 3), np.int64)
        assert key_kernels.key_entries(data, BASE, rows, 0)[1] == 0
