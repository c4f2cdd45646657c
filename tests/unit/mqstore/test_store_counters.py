"""What `stats` counts since the store was opened: puts by topic, pulls and send-backs by group and topic."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore import store_counters as counters
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store_stats import ConsumerLag
from support.disks.watched_file_system import WatchedFileSystem
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore

HOUR_MS = 3_600_000


@pytest.fixture
def small() -> SmallStore:
    return SmallStore(MemoryFileSystem(), Path("/store"))


@pytest.fixture
def store(small: SmallStore) -> Iterator[MessageStore]:
    with small.open() as store:
        yield store


def counted(store: MessageStore) -> counters.CounterTables:
    """What is counted once all is dispatched, which a service does all the time."""
    store.flush()
    return store.stats().counters


def test_puts_are_counted_by_topic(store: MessageStore) -> None:
    """Whatever the queue and the way of putting; the size is that of the records."""
    puts = [store.put_message(Message("orders", b"x" * number, queue_id=number % 2)) for number in range(9)]
    puts += store.put_messages([Message("letters", b"y")] * 40)
    found = counted(store)
    assert found.topic_put_nums == {"orders": 9, "letters": 40}
    assert found.topic_put_size["orders"] == sum(put.store_size for put in puts[:9])
    store.put_message(Message("orders", b"one more"))
    assert counted(store).topic_put_nums == {"orders": 10, "letters": 40}


def test_counting_begins_with_the_opening(small: SmallStore) -> None:
    """What was put before is not counted; what is put to the same queue is."""
    with small.open() as store:
        store.put_messages([Message("orders", b"before")] * 150)
    with small.open() as store:
        assert counted(store).topic_put_nums == {}
        store.put_message(Message("orders", b"behind"))
        assert counted(store).topic_put_nums == {"orders": 1}


def test_delayed_messages_count_where_they_lie(store: MessageStore) -> None:
    """As in RocketMQ: the waiting one in the schedule topic, the delivered one in its own."""
    store.put_message(Message("orders", b"later", delay_level=1))
    assert counted(store).topic_put_nums == {"SCHEDULE_TOPIC_XXXX": 1}


def test_pulls_are_counted_by_group_and_topic(store: MessageStore) -> None:
    """Messages and their bytes, filtered or not, few or many; an empty pull counts nothing."""
    puts = [store.put_message(Message("orders", b"x", tags="ab"[number % 2])) for number in range(40)]
    for arguments in ((0, 32), (32, 32), (39, 1), (40, 1), (0, 32, "b"), (0, 32, "c")):
        store.get_message("billing", "orders", 0, *arguments)
    found = counted(store)
    size = puts[0].store_size
    assert found.group_get_nums == {"orders@billing": 40 + 1 + 20}
    assert found.group_get_size == {"orders@billing": 61 * size}


def test_many_pulls_are_added_up_meanwhile(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits to be added up stays a short list."""
    monkeypatch.setattr(counters, "_MOST_GETS_WAITING", 10)
    store.put_message(Message("orders", b"x"))
    for _ in range(25):
        store.get_message("billing", "orders", 0, 0)
        assert len(store._counters._gets) < 10
    assert counted(store).group_get_nums == {"orders@billing": 25}


def test_send_backs_are_counted(store: MessageStore) -> None:
    """Under the topic that the copy was put to, and the group that failed."""
    put = store.put_message(Message("orders", b"x"))
    back = store.consumer_send_msg_back("billing", put.physical_offset)
    assert back.put is not None
    assert counted(store).sndbck_put_nums == {f"{back.put.topic}@billing": 1}


def test_very_many_topics_and_groups_share_a_key(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that their number cannot fill the memory; none is lost from the sum."""
    monkeypatch.setattr(counters, "_MOST_KEYS", 5)
    for number in range(9):
        store.put_message(Message(f"topic-{number}", b"x"))
        store.get_message(f"group-{number}", "topic-0", 0, 0)
    found = counted(store)
    for table in (found.topic_put_nums, found.group_get_nums):
        assert (len(table), table[counters.OTHERS], sum(table.values())) == (6, 4, 9)


def test_what_retention_deletes_was_counted() -> None:
    """Also when nobody asked in time."""
    watched, clock = WatchedFileSystem(MemoryFileSystem()), ManualClock()
    watched.used_percent = 80
    with SmallStore(watched, Path("/store"), clock=clock).open(file_reserved_time=1) as store:
        puts = [store.put_message(Message("orders", bytes(50_000))) for _ in range(10)]
        store.flush()
        for segment in store.commit_log.files.files:
            watched.ages[segment.path] = clock.now_ms() - HOUR_MS
        store._services.retain()
        assert store.get_min_offset_in_queue("orders", 0) > 0
        found = counted(store)
        assert found.topic_put_nums == {"orders": 10}
        assert found.topic_put_size == {"orders": sum(put.store_size for put in puts)}


def test_the_lag_of_each_group_and_queue(store: MessageStore) -> None:
    """Where the queue ends, where the group stands, and what is between."""
    store.put_messages([Message("orders", b"x", queue_id=queue_id) for queue_id in (0, 0, 0, 1)])
    store.consumer_offsets.commit("billing", "orders", 0, 1)
    store.consumer_offsets.commit("billing", "orders", 1, 1)
    store.flush()
    found = store.stats().consumer_lags
    assert [(each.queue_id, each.broker_offset, each.consumer_offset, each.lag) for each in found] == [
        (0, 3, 1, 2),
        (1, 1, 1, 0),
    ]
    assert isinstance(found[0], ConsumerLag)


def test_the_lag_in_a_queue_without_an_offset(store: MessageStore) -> None:
    """All of its messages; a topic in which the group has no offset at all is not the group's."""
    for topic in ("orders", "mails"):
        store.put_messages([Message(topic, b"x", queue_id=queue_id) for queue_id in (0, 1, 1)])
    store.consumer_offsets.commit("billing", "orders", 0, 1)
    store.flush()
    found = store.stats().consumer_lags
    assert [(each.topic, each.queue_id, each.consumer_offset, each.lag) for each in found] == [
        ("orders", 0, 1, 0),
        ("orders", 1, -1, 2),
    ]
