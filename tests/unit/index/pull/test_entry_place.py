"""Where the record of an entry is and when it was stored: by queue and offset, for a queue, for the store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.record.host import Host
from support.disks.watched_file_system import WatchedFileSystem
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore

HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Iterator[MessageStore]:
    with SmallStore(MemoryFileSystem(), Path("/store"), clock=clock).open() as store:
        yield store


def test_an_entry_tells_place_and_time(store: MessageStore, clock: ManualClock) -> None:
    """Of any born host: an IPv6 one moves the time within the record."""
    times, places = [], []
    for host in ("10.0.0.1:7", "[2001:db8::1]:7"):
        put = store.put_message(Message("orders", b"x", born_host=Host.parse(host)))
        times.append(clock.now_ms())
        places.append(put.physical_offset)
        clock.advance(1_000)
    assert [store.get_message_store_timestamp("orders", 0, offset) for offset in (0, 1)] == times
    assert [store.get_commit_log_offset_in_queue("orders", 0, offset) for offset in (0, 1)] == places


@pytest.mark.parametrize(
    ("topic", "queue_id", "offset"),
    [("orders", 0, -1), ("orders", 0, 1), ("orders", 0, 2**62), ("orders", 9, 0), ("nothing", 0, 0)],
)
def test_what_is_not_there_is_minus_one(store: MessageStore, topic: str, queue_id: int, offset: int) -> None:
    """An entry before or behind the queue, a queue, a topic."""
    store.put_message(Message("orders", b"x"))
    assert store.get_message_store_timestamp(topic, queue_id, offset) == -1
    assert store.get_commit_log_offset_in_queue(topic, queue_id, offset) == -1


def test_the_earliest_time(store: MessageStore, clock: ManualClock) -> None:
    """Of the store, a topic, a queue; -1 where nothing is."""
    assert (store.get_earliest_message_time(), store.get_message_total_in_queue("orders", 1)) == (-1, -1)
    first = clock.now_ms()
    for queue_id in (2, 1, 1):
        store.put_message(Message("orders", b"x", queue_id=queue_id))
        clock.advance(HOUR_MS)
    assert store.get_earliest_message_time() == store.get_earliest_message_time("orders") == first
    assert store.get_earliest_message_time("orders", 1) == first + HOUR_MS
    assert store.get_earliest_message_time("orders", 3) == store.get_earliest_message_time("x") == -1
    assert [store.get_message_total_in_queue("orders", queue_id) for queue_id in (1, 2)] == [2, 1]


def test_the_earliest_time_moves_with_retention(clock: ManualClock) -> None:
    """What is deleted is no longer the oldest, and has no time."""
    watched = WatchedFileSystem(MemoryFileSystem())
    watched.used_percent = 80
    with SmallStore(watched, Path("/store"), clock=clock).open(file_reserved_time=1) as store:
        for _ in range(6):
            store.put_message(Message("orders", bytes(50_000)))
            clock.advance(HOUR_MS)
        store.flush()
        for segment in store.commit_log.files.files:
            watched.ages[segment.path] = clock.now_ms() - HOUR_MS
        store._services.retain()
        oldest = store.get_min_offset_in_queue("orders", 0)
        assert oldest > 0
        assert store.get_message_store_timestamp("orders", 0, oldest - 1) == -1
        earliest = store.get_message_store_timestamp("orders", 0, oldest)
        assert store.get_earliest_message_time("orders", 0) == store.get_earliest_message_time() == earliest
