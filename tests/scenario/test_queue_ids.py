"""Which queues of a topic a put may name, and what a broker answers for one that it may not.

RocketMQ's rules (AbstractSendMessageProcessor#msgCheck): any queue below the greater of both numbers, and a
negative one leaves the choice among those to write to. Each way to put follows them.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, ResponseCode
from mqstore.store.errors import GroupIllegal, QueueIllegal, StoreError, TopicIllegal
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_store import SmallStore, messages_of

Put = Callable[[MessageStore, Message], object]
COUNT = 60


def put_columns(store: MessageStore, message: Message) -> object:
    """A put of one row."""
    return store.put_columns(
        {
            "topic": message.topic,
            "body": [message.body],
            "queue_id": message.queue_id,
            "delay_level": message.delay_level,
        }
    )


PUTS: dict[str, Put] = {
    "put_message": lambda store, message: store.put_message(message),
    "put_messages": lambda store, message: store.put_messages([message]),
    "put_messages, many": lambda store, message: store.put_messages([message] * COUNT),
    "put_message_async": lambda store, message: store.put_message_async(message).result(),
    "put_columns": put_columns,
}


@pytest.fixture
def small() -> SmallStore:
    return SmallStore(MemoryFileSystem(), Path("/store"))


@pytest.fixture(params=PUTS)
def put(request: pytest.FixtureRequest) -> Put:
    return PUTS[request.param]


def lengths(store: MessageStore, topic: str, queue_nums: int) -> list[int]:
    return [store.get_max_offset_in_queue(topic, queue_id) for queue_id in range(queue_nums)]


@pytest.mark.parametrize(("read", "write"), [(4, 2), (2, 4)])
def test_a_queue_below_the_greater_number_takes_messages(
    small: SmallStore, put: Put, read: int, write: int
) -> None:
    """So do queues that are no more written to, or not yet read, while a topic grows or shrinks."""
    with small.open() as store:
        store.topics.create("orders", read_queue_nums=read, write_queue_nums=write)
        put(store, Message("orders", b"x", queue_id=3))
        assert lengths(store, "orders", 4)[3] > 0
        with pytest.raises(QueueIllegal, match="is 4, but topic 'orders' has 4 queues") as caught:
            put(store, Message("orders", b"x", queue_id=4))
        assert (caught.value.value, caught.value.limit) == (4, 3)


@pytest.mark.parametrize("known", [True, False], ids=["known topic", "new topic"])
def test_a_negative_queue_leaves_the_choice_to_the_store(small: SmallStore, put: Put, known: bool) -> None:
    """Every queue to write to is chosen at times, and no other."""
    with small.open(default_topic_queue_nums=3) as store:
        if known:
            store.topics.create("orders", read_queue_nums=8, write_queue_nums=3)
        for queue_id in range(-COUNT, 0):
            put(store, Message("orders", b"x", queue_id=queue_id))
        found = lengths(store, "orders", 8)
        assert min(found[:3]) > 0 == max(found[3:])
        assert sum(found) % COUNT == 0


def test_a_result_says_which_queue_was_chosen(small: SmallStore) -> None:
    """Alone, in a list, and before a delay: the message comes to its chosen queue when it is due."""
    with small.open() as store:
        store.topics.create("orders", queue_nums=4)
        chosen = store.put_message(Message("orders", b"x", queue_id=-1))
        assert len(messages_of(store, "orders", chosen.queue_id)) == 1
        chosen_in_list = store.put_messages([Message("orders", b"x", queue_id=-1)] * COUNT)
        assert {put.queue_id for put in chosen_in_list} == {0, 1, 2, 3}
        delayed = store.put_message(Message("orders", b"x", queue_id=-1, delay_level=3))
        waiting = store.look_message_by_offset(delayed.physical_offset)
        assert waiting is not None
        assert waiting.properties["REAL_QID"] in {"0", "1", "2", "3"}


def test_no_queue_to_write_to_can_be_chosen(small: SmallStore, put: Put) -> None:
    """The refusal names the topic; the queues that are read still take what names them."""
    with small.open() as store:
        store.topics.create("orders", read_queue_nums=2, write_queue_nums=0)
        with pytest.raises(QueueIllegal, match="is -1, but topic 'orders' has 0 queues"):
            put(store, Message("orders", b"x", queue_id=-1))
        assert store.max_offset == 0
        put(store, Message("orders", b"x", queue_id=1))


def test_the_choice_can_be_repeated() -> None:
    """By the random numbers that the put path is given."""
    chosen = []
    for _ in range(2):
        with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
            store._puts._choice.seed(7)
            chosen.append([store.put_message(Message("a", b"", queue_id=-1)).queue_id for _ in range(9)])
    assert chosen[0] == chosen[1] == [random.Random(7).randrange(8), *chosen[0][1:]]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (TopicIllegal, ResponseCode.INVALID_PARAMETER),
        (QueueIllegal, ResponseCode.INVALID_PARAMETER),
        (GroupIllegal, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)
def test_a_broker_answers_what_rocketmq_answers(kind: type[StoreError], code: ResponseCode) -> None:
    """A topic or queue that cannot be is an invalid parameter; a group that cannot be does not exist."""
    assert kind.response_code is code
