"""Young queues: where a group without an offset begins at the first message. Memory is what the test says."""

import pytest

from mqstore import Message, MessageStore
from mqstore.broker.young_queue import begins_in_memory, physical_memory_bytes
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore


def test_a_queue_without_messages_is_young(store: MessageStore) -> None:
    """So the first message is not skipped that is put while a new consumer looks for its place."""
    store.topics.create("orders", 4)
    assert begins_in_memory(store, "orders", 0, 0)
    assert begins_in_memory(store, "no such topic", 0, 0)


@pytest.mark.parametrize(("memory_ratio", "is_young"), [(2.5, True), (2.4, False), (100, True), (0, False)])
def test_the_first_message_lies_within_two_fifths_of_memory(
    store: MessageStore, memory_ratio: float, is_young: bool
) -> None:
    """Counted from its record to the end of the log."""
    store.put_message(Message("before", b"x" * 100))
    first = store.put_message(Message("orders", b"first"))
    for _ in range(50):
        store.put_message(Message("orders", b"x"))
    distance = store.max_offset - first.physical_offset
    assert begins_in_memory(store, "orders", 0, round(distance * memory_ratio) + 1) is is_young


def test_a_queue_that_lost_its_beginning_is_old(small: SmallStore, clock: ManualClock) -> None:
    """Its messages have begun to expire, however much memory there is."""
    with small.open(file_reserved_time=1) as store:
        for _ in range(6):
            store.put_message(Message("orders", b"x" * 50_000))
        clock.advance(3_600_001)
        assert store.delete_expired_files() > 0
        assert store.get_min_offset_in_queue("orders", 0) > 0
        assert not begins_in_memory(store, "orders", 0, 2**60)


def test_the_machine_has_memory() -> None:
    """At least what this test runs in."""
    assert physical_memory_bytes() > 2**24
