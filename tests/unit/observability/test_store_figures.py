"""The figures of a store: by topic, by group and topic, of failures, and of a store that nobody has used."""

from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.observability.store_figures import GroupFigures, RetryFigures, TopicFigures, store_figures
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store_counters import OTHERS
from support.stores.small_store import SmallStore


@pytest.fixture
def small() -> SmallStore:
    return SmallStore(MemoryFileSystem(), Path("/store"))


def fail(store: MessageStore, physical_offset: int, level: int = 0) -> None:
    store.consumer_send_msg_back("billing", physical_offset, level)


def test_by_topic_and_by_group(small: SmallStore) -> None:
    """Puts and gets are counted, and the lag of all queues of a topic is added up."""
    with small.open() as store:
        store.put_messages([Message("orders", b"x" * 10, queue_id=n % 2) for n in range(5)])
        size = store.max_offset
        assert len(store.get_message("billing", "orders", 0, 0).messages) == 3
        for queue_id in (0, 1):
            store.consumer_offsets.commit("billing", "orders", queue_id, 1)
        figures = store_figures(store)
        assert figures.topics == {"orders": TopicFigures(5, 5, size)}
        assert figures.groups["billing", "orders"]._replace(get_bytes=0) == GroupFigures(3, 3, 0)
        assert figures.groups["billing", "orders"].get_bytes * 5 == size * 3
        assert figures.retries == {}
        assert figures.disk == store.disk_usage()
        assert figures.stats.messages == 5


def test_a_group_that_has_committed_nothing_has_no_lag(small: SmallStore) -> None:
    """Nobody knows where it stands."""
    with small.open() as store:
        store.put_message(Message("orders", b"x"))
        store.get_message("billing", "orders", 0, 0)
        assert store_figures(store).groups["billing", "orders"].lag is None


def test_failures_by_group(small: SmallStore) -> None:
    """A retry waits, dead letters are counted and held; what is held outlives the process."""
    with small.open() as store:
        offsets = [store.put_message(Message("orders", b"x")).physical_offset for _ in range(3)]
        fail(store, offsets[0])
        for offset in offsets[1:]:
            fail(store, offset, -1)
        store.flush()
        assert store_figures(store).retries == {"billing": RetryFigures(3, 2, 2)}
    with small.open() as store:
        assert store_figures(store).retries == {"billing": RetryFigures(0, 0, 2)}
        assert store_figures(store).topics["orders"] == TopicFigures(3, 0, 0)


def test_a_store_of_nothing(small: SmallStore) -> None:
    """No topic, no group, and no error; nor beside a writer."""
    with small.open() as store:
        figures = store_figures(store)
        assert (figures.topics, figures.groups, figures.retries) == ({}, {}, {})
        with small.open(read_only=True) as reader:
            assert store_figures(reader).topics == {}


def test_what_was_put_together_stays_together(small: SmallStore) -> None:
    """Beyond the most keys of a counter the store counts under OTHERS."""
    with small.open() as store:
        store._counters._tables.group_get_nums[OTHERS] = 7
        assert store_figures(store).groups == {(OTHERS, OTHERS): GroupFigures(None, 7, 0)}
