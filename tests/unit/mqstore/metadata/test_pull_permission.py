"""Who may read what: groups that may not consume, topics without read permission, queues not to be read.

RocketMQ's answers to a pull (PullMessageProcessor), in its order, and what asks for no permission.
"""

from pathlib import Path

import pytest

from mqstore import GetMessageStatus, Message, MessageStore, ResponseCode
from mqstore.store.errors import (
    ConsumeNotEnabled,
    NoPermission,
    QueueIllegal,
    StoreError,
    SubscriptionGroupNotExist,
    SubscriptionIllegal,
)
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_store import SmallStore


@pytest.fixture
def small() -> SmallStore:
    return SmallStore(MemoryFileSystem(), Path("/store"))


def pull(store: MessageStore, queue_id: int = 0, *, group: str = "billing", tags: str = "*") -> list[bytes]:
    return [message.body for message in store.get_message(group, "orders", queue_id, 0, 32, tags).messages]


def test_a_group_that_may_not_consume_gets_nothing(small: SmallStore) -> None:
    """Until it may again; other groups go on. A broker answers 16."""
    with small.open() as store:
        store.put_message(Message("orders", b"x"))
        store.subscription_groups.create("billing", consume_enable=False)
        with pytest.raises(ConsumeNotEnabled, match=r"'billing' may not .*, consume_enable=True") as caught:
            pull(store)
        assert (caught.value.group, caught.value.response_code) == ("billing", ResponseCode.NO_PERMISSION)
        assert pull(store, group="shipping") == [b"x"]
        store.subscription_groups.create("billing", consume_enable=True)
        assert pull(store) == [b"x"]


@pytest.mark.parametrize("perm", [0, 2])
def test_a_topic_without_read_permission_gives_nothing(small: SmallStore, perm: int) -> None:
    """To consumers. A look by physical offset and a query by key ask for no permission, as in RocketMQ."""
    with small.open() as store:
        put = store.put_message(Message("orders", b"x", keys="k"))
        store.topics.create("orders", 8, perm=perm)
        with pytest.raises(NoPermission, match=f"has perm {perm}, which does not allow to read"):
            pull(store)
        assert store.look_message_by_offset(put.physical_offset) is not None
        assert len(store.query_message("orders", "k")) == 1
        store.topics.create("orders", 8, perm=4)
        assert pull(store) == [b"x"]


@pytest.mark.parametrize("queue_id", [-1, 2, 3])
def test_a_queue_that_is_not_to_be_read_is_refused(small: SmallStore, queue_id: int) -> None:
    """A producer may put to queue 2 already; it is read once read_queue_nums says so."""
    with small.open() as store:
        store.topics.create("orders", read_queue_nums=2, write_queue_nums=4)
        with pytest.raises(QueueIllegal, match=f"is {queue_id}, but .* has 2 queues to read") as caught:
            pull(store, queue_id)
        assert caught.value.response_code is ResponseCode.INVALID_PARAMETER
        assert pull(store, 1) == []


def test_a_group_that_cannot_come_to_be_is_refused(small: SmallStore) -> None:
    """Where groups are not created by themselves; the groups of RocketMQ's own may always be."""
    with small.open(auto_create_subscription_group=False) as store:
        with pytest.raises(SubscriptionGroupNotExist):
            pull(store)
        assert pull(store, group="CID_RMQ_SYS_TRANS") == []
        store.subscription_groups.create("billing")
        assert pull(store) == []


def test_the_first_reason_is_told(small: SmallStore) -> None:
    """The group before the topic, the topic before the queue, the queue before the subscription."""
    with small.open() as store:
        store.topics.create("orders", 1, perm=2)
        store.subscription_groups.create("billing", consume_enable=False)
        told: list[type[StoreError]] = []
        for mend in (
            lambda: store.subscription_groups.create("billing"),
            lambda: store.topics.create("orders", 1),
            lambda: store.topics.create("orders", 8),
        ):
            with pytest.raises(StoreError) as caught:
                pull(store, 1, tags="||")
            told.append(caught.type)
            mend()
        assert told == [ConsumeNotEnabled, NoPermission, QueueIllegal]
        with pytest.raises(SubscriptionIllegal):
            pull(store, 1, tags="||")


def test_a_topic_without_settings_is_read(small: SmallStore) -> None:
    """A crash may take the settings of a topic that came to be by itself, but its messages are there."""
    with small.open() as store:
        assert store.get_message("billing", "unknown", 7, 0).status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
        store.put_message(Message("orders", b"x"))
        del store.topics._table["orders"]
        assert pull(store) == [b"x"]


def test_a_reader_of_the_directory_asks_for_no_permission(small: SmallStore) -> None:
    """Tools and Spark look at everything: who reads the files is no consumer."""
    with small.open() as store:
        store.put_message(Message("orders", b"x"))
        store.topics.create("orders", 8, perm=2)
        store.subscription_groups.create("billing", consume_enable=False)
    with small.open(read_only=True) as store:
        assert pull(store) == [b"x"]
