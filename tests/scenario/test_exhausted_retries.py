"""Puts to a group's retry topic, as a client does them when its send-back failed: beyond their limit they are
dead letters (SendMessageProcessor#handleRetryAndDLQ), and the result says where they went.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, PutMessageResult
from mqstore.metadata.topics import Perm
from mqstore.store.errors import MessageIllegal, SubscriptionGroupNotExist, TopicNotExist
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_store import SmallStore, messages_of

RETRY, DEAD = "%RETRY%billing", "%DLQ%billing"
MANY = [Message("orders", b"")] * 40
PUTS: dict[str, Callable[[MessageStore, Message], PutMessageResult]] = {
    "put_message": lambda store, message: store.put_message(message),
    "put_messages": lambda store, message: store.put_messages([Message("orders", b""), message])[1],
    "put_messages, many": lambda store, message: store.put_messages([*MANY, message])[40],
    "put_message_async": lambda store, message: store.put_message_async(message).result(),
}


@pytest.fixture
def small() -> SmallStore:
    return SmallStore(MemoryFileSystem(), Path("/store"))


def failed(times: int, **properties: str) -> Message:
    return Message(RETRY, b"body", tags="a", properties={"RECONSUME_TIME": str(times), **properties})


@pytest.mark.parametrize("way", PUTS)
@pytest.mark.parametrize(
    ("message", "topic"),
    [
        (failed(3), RETRY),
        (failed(4), DEAD),
        (failed(4, MAX_RECONSUME_TIMES="4"), RETRY),
        (failed(1, MAX_RECONSUME_TIMES="0"), DEAD),
        (failed(4, DELAY="5"), DEAD),
        (failed(3, DELAY="5"), "SCHEDULE_TOPIC_XXXX"),
        (Message(RETRY, b"body", tags="a"), RETRY),
    ],
)
def test_beyond_the_limit_it_is_a_dead_letter(
    small: SmallStore, way: str, message: Message, topic: str
) -> None:
    """At once, whatever level it asks for; the limit is its own, else the group's."""
    with small.open() as store:
        store.subscription_groups.create("billing", retry_max_times=3)
        put = PUTS[way](store, message)
        assert put.topic == topic
        stored = store.look_message_by_offset(put.physical_offset)
        assert stored is not None
        assert (stored.topic, stored.tags) == (topic, "a")
        assert stored.reconsume_times == int(message.properties.get("RECONSUME_TIME", 0))
        dead = store.topics.get(DEAD)
        if topic == DEAD:
            assert dead is not None
            assert (put.queue_id, dead.write_queue_nums, dead.perm) == (0, 1, 6)
            assert stored.properties["DELAY"] == "-1"
            assert [found.body for found in messages_of(store, DEAD)] == [b"body"]
        else:
            assert dead is None
        assert RETRY in store.topics


def test_a_group_that_is_not_known_tries_as_often_as_any(small: SmallStore) -> None:
    """Where it may come to be; else its retries are refused, and nothing is created."""
    with small.open() as store:
        assert [store.put_message(failed(times)).topic for times in (16, 17)] == [RETRY, DEAD]
    other = SmallStore(MemoryFileSystem(), Path("/store"))
    with other.open(auto_create_subscription_group=False) as store:
        for way in PUTS.values():
            with pytest.raises(SubscriptionGroupNotExist):
                way(store, failed(1))
        assert (store.max_offset, RETRY in store.topics) == (0, False)


@pytest.mark.parametrize("way", PUTS)
def test_a_count_that_is_no_number_is_refused(small: SmallStore, way: str) -> None:
    """Nothing is stored, and nothing created."""
    message = Message(RETRY, b"", properties={"RECONSUME_TIME": "often"})
    with small.open() as store, pytest.raises(MessageIllegal, match="RECONSUME_TIME is 'often'"):
        PUTS[way](store, message)
    with small.open(read_only=True) as store:
        assert (store.max_offset, RETRY in store.topics) == (0, False)


@pytest.mark.parametrize("name", ["RECONSUME_TIME", "MAX_RECONSUME_TIMES"])
def test_columns_take_no_retry_that_counts(small: SmallStore, name: str) -> None:
    """RocketMQ takes no batch for a retry topic at all; rows that say nothing of failures are taken here."""
    rows = {"topic": [RETRY], "body": [b""]}
    with small.open() as store:
        with pytest.raises(MessageIllegal, match=r"retry topic.*put_messages"):
            store.put_columns({**rows, "properties": {name: "1"}})
        store.subscription_groups.create("billing", retry_max_times=-1)
        with pytest.raises(MessageIllegal, match=r"retry topic.*put_messages"):
            store.put_columns(rows)
        assert (store.max_offset, RETRY in store.topics) == (0, False)
        store.subscription_groups.create("billing", retry_max_times=0)
        store.put_columns(rows)
        assert len(messages_of(store, RETRY)) == 1


def test_a_retry_topic_comes_to_be_where_others_may_not(small: SmallStore) -> None:
    """With one queue: else a failed message could not come back."""
    with small.open(auto_create_topic_enable=False) as store:
        assert store.put_message(failed(1)).topic == RETRY
        config = store.topics.get(RETRY)
        assert config is not None
        assert (config.write_queue_nums, config.perm) == (1, 6)
        with pytest.raises(TopicNotExist):
            store.put_message(Message("orders", b""))


def test_nothing_inherits_from_a_topic_that_lets_nothing_inherit(small: SmallStore) -> None:
    """TBW102 in a broker's topics.json may have lost its inherit bit."""
    with small.open() as store:
        template = store.topics.get("TBW102")
        assert template is not None
        store.topics._table["TBW102"] = type(template)(topic_name="TBW102", perm=Perm.READ | Perm.WRITE)
        with pytest.raises(TopicNotExist):
            store.put_message(Message("orders", b""))
