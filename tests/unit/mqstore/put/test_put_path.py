"""The put path: what a producer may put, and what a refusal leaves behind; what a result says.

Each way to put gets the same bad messages. Services are off, so nothing is durable that a test did not flush.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, PutMessageResult
from mqstore.metadata.topics import TopicConfig
from mqstore.store.bulk.buffer_pool import BufferPool
from mqstore.store.bulk.columns_encoder import ColumnsEncoder
from mqstore.store.bulk.message_columns import read_columns
from mqstore.store.errors import (
    MessageIllegal,
    MessageTooLarge,
    NoPermission,
    PropertiesIllegal,
    QueueIllegal,
    StoreError,
    TopicIllegal,
    TopicNotExist,
)
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_store import SmallStore, bodies_of


def test_the_result_says_what_is_durable(small: SmallStore) -> None:
    """In SYNC_FLUSH all of it; in ASYNC_FLUSH what the flusher has reached."""
    with small.open(flush_disk_type="SYNC_FLUSH") as store:
        assert store.put_message(Message("orders", b"x")).durable
        assert not store.put_message(Message("orders", b"x", wait_store_msg_ok=False)).durable
    with small.open(flush_disk_type="ASYNC_FLUSH") as store:
        put = store.put_message(Message("orders", b"x"))
        assert not put.durable
        store.flush()
        assert store.commit_log.flushed_offset == put.physical_offset + put.store_size


def test_put_messages_stores_all_in_order(small: SmallStore) -> None:
    """Of one queue or many; nothing for nothing."""
    with small.open() as store:
        puts = store.put_messages(
            [Message("orders", b"%d" % index, queue_id=index % 3) for index in range(9)]
        )
        assert [(put.queue_id, put.queue_offset) for put in puts] == [(i % 3, i // 3) for i in range(9)]
        assert bodies_of(store, "orders", 1) == [b"1", b"4", b"7"]
        assert store.put_messages([]) == []


def test_put_messages_takes_messages_as_they_are_made(small: SmallStore) -> None:
    """A generator is gone through once, and its topic is created as for a list."""
    with small.open() as store:
        store.put_messages(Message("made", body) for body in (b"a", b"b"))  # type: ignore[arg-type]
        assert "made" in store.topics
        assert bodies_of(store, "made") == [b"a", b"b"]


PROPERTY_BYTES = {"n": "x" * 32_767}


BAD_MESSAGES: list[tuple[Message, type[StoreError], str]] = [
    (Message("", b"x"), TopicIllegal, "topic is empty: give 1 to 127 characters"),
    (Message("x" * 128, b"x"), TopicIllegal, "has 128 characters: at most 127"),
    (Message("a b", b"x"), TopicIllegal, "has ' ' at position 1"),
    (Message("orders", None), MessageIllegal, "the body is a NoneType"),  # type: ignore[arg-type]
    (Message("orders", "text"), MessageIllegal, "the body is a str"),  # type: ignore[arg-type]
    (Message("orders", bytes(60_001)), MessageTooLarge, "60001 bytes, more than max_message_size = 60000"),
    (Message("orders", b"x", properties=PROPERTY_BYTES), PropertiesIllegal, "more than 32767"),
    (Message("orders", b"x", properties={"a": "b\x01"}), PropertiesIllegal, "separator"),
    (Message("orders", b"x", tags="a\x02"), PropertiesIllegal, "separator"),
    (Message("orders", b"x", keys=("\x01",)), PropertiesIllegal, "separator"),
    (Message("orders", b"x", queue_id=8), QueueIllegal, "queue_id is 8, but topic 'orders' has 8 queues"),
    (Message("orders", b"x", queue_id="1"), QueueIllegal, "queue_id is '1'"),  # type: ignore[arg-type]
    (Message("orders", b"x", flag=2**31), MessageIllegal, "flag is 2147483648"),
    (Message("orders", b"x", properties={"DELAY": "soon"}), MessageIllegal, "property DELAY is 'soon'"),
    (Message("SCHEDULE_TOPIC_XXXX", b"x"), NoPermission, "does not allow to put"),
    (Message(["orders"], b"x"), TopicIllegal, r"topic \['orders'\] is a list"),  # type: ignore[arg-type]
    (Message("orders", b"x", tags=["a"]), MessageIllegal, r"tags is \['a'\]"),  # type: ignore[arg-type]
    (Message("orders", b"x", keys=5), MessageIllegal, "keys is 5"),  # type: ignore[arg-type]
    (Message("orders", b"x", keys=[5]), MessageIllegal, "keys has an element that is 5"),  # type: ignore[list-item]
    (Message("orders", b"x", properties=None), MessageIllegal, "properties is None"),  # type: ignore[arg-type]
    (Message("orders", b"x", properties={"DELAY": 3}), MessageIllegal, "property DELAY is 3"),  # type: ignore[dict-item]
    (Message("orders", b"x", delay_level="3"), MessageIllegal, "delay_level is '3'"),  # type: ignore[arg-type]
    (Message("orders", b"x", sys_flag="1"), MessageIllegal, "sys_flag is '1'"),  # type: ignore[arg-type]
    (Message("orders", b"x", born_host=5), MessageIllegal, "born_host is 5"),  # type: ignore[arg-type]
    ("x", MessageIllegal, r"'x' is a str, but must be a Message"),  # type: ignore[list-item]
    (Message("orders", bytes(60_001), delay_level=3), MessageTooLarge, "60001 bytes"),
    (Message("orders", b"x", queue_id=9, delay_level=3), QueueIllegal, "has 8 queues"),
]


@pytest.mark.parametrize("known", [True, False], ids=["known topic", "new topic"])
@pytest.mark.parametrize(("message", "kind", "words"), BAD_MESSAGES)
def test_a_bad_message_is_refused_and_leaves_nothing(
    message: Message, kind: type[StoreError], words: str, known: bool
) -> None:
    """By each way to put: the error names value and limit; no record, no topic, no queue offset is used."""
    small = SmallStore(MemoryFileSystem(), Path("/store"))
    with small.open() as store:
        if known:
            store.put_message(Message("orders", b"first"))
        before = (store.max_offset, len(store.topics), store.consume_queues.queues())
        good = Message("others", b"good")
        for put in (
            lambda: store.put_message(message),
            lambda: store.put_messages([message]),
            lambda: store.put_messages([good, message]),
            lambda: store.put_messages([message, good]),
            lambda: store.put_message_async(message),
            lambda: store.check_message(message),
        ):
            with pytest.raises(kind, match=words):
                put()
            assert (store.max_offset, len(store.topics), store.consume_queues.queues()) == before
        assert store.put_message(Message("orders", b"next")).queue_offset == known


def test_a_topic_that_is_not_there_is_created_only_where_allowed(small: SmallStore) -> None:
    """TopicNotExist says how to create it."""
    with small.open(auto_create_topic_enable=False) as store:
        with pytest.raises(TopicNotExist, match=r"create it with store\.topics\.create") as caught:
            store.put_message(Message("orders", b"x"))
        assert caught.value.topic == "orders"
        assert store.max_offset == 0
        store.topics.create("orders", 2)
        assert store.put_message(Message("orders", b"x", queue_id=1)).queue_offset == 0
        with pytest.raises(QueueIllegal, match="has 2 queues"):
            store.put_message(Message("orders", b"x", queue_id=2))


def test_a_topic_without_write_permission_takes_nothing(small: SmallStore) -> None:
    """Reading goes on."""
    with small.open() as store:
        store.put_message(Message("orders", b"x"))
        store.topics.create("orders", 8, perm=4)
        with pytest.raises(NoPermission, match="has perm 4"):
            store.put_message(Message("orders", b"y"))
        assert bodies_of(store, "orders") == [b"x"]


@pytest.mark.parametrize("start", [True, False])
def test_an_async_put_is_done_once_it_is_durable(small: SmallStore, start: bool) -> None:
    """Its place is taken at once; the services, or `flush`, make it durable."""
    with small.open(flush_disk_type="SYNC_FLUSH", start=start) as store:
        futures = [store.put_message_async(Message("orders", b"%d" % index)) for index in range(50)]
        if not start:
            assert not any(future.done() for future in futures)
            store.flush()
        results: list[PutMessageResult] = [future.result(60) for future in futures]
        assert [result.queue_offset for result in results] == list(range(50))
        assert all(result.durable for result in results)
        assert bodies_of(store, "orders") == [b"%d" % index for index in range(50)]


def test_an_async_put_without_waiting_is_done_at_once(small: SmallStore) -> None:
    """In ASYNC_FLUSH, and in SYNC_FLUSH for a message that does not wait."""
    with small.open() as store:
        assert store.put_message_async(Message("orders", b"x")).result(0).queue_offset == 0
    with small.open(flush_disk_type="SYNC_FLUSH") as store:
        future = store.put_message_async(Message("orders", b"x", wait_store_msg_ok=False))
        assert future.result(0).queue_offset == 1


@pytest.mark.parametrize("listens", [False, True])
@pytest.mark.parametrize(
    "put",
    [
        lambda store: store.put_message_async(Message("orders", b"x")),
        lambda store: store.put_message(Message("orders", b"x", wait_store_msg_ok=False)),
        lambda store: store.put_messages([Message("orders", b"x", wait_store_msg_ok=False)] * 2),
    ],
    ids=["async", "one", "many"],
)
def test_a_put_that_does_not_wait_asks_for_a_sync(
    small: SmallStore, put: Callable[[MessageStore], object], listens: bool
) -> None:
    """At once, also when somebody listens to other queues alone: else it takes up to a second."""
    with small.open(flush_disk_type="SYNC_FLUSH") as store:
        if listens:
            store.add_arrival_listener(lambda arrival: None, queues={("others", 0)})
        asked: list[bool] = []
        store._flusher.on_pending = lambda: asked.append(True)
        put(store)
        assert asked == [True]


def test_a_message_may_be_checked_without_being_put(small: SmallStore) -> None:
    """It gets a queue to write to, and its topic is there then; nothing is stored."""
    with small.open() as store:
        message = Message("orders", b"x", queue_id=5, delay_level=3)
        assert store.check_message(message) is message
        assert "orders" in store.topics
        store.topics.create("orders", read_queue_nums=8, write_queue_nums=1)
        assert store.check_message(Message("orders", b"x", queue_id=-1)) == Message("orders", b"x")
        assert store.max_offset == 0


def test_the_stores_own_messages_pass_where_a_producers_do_not(small: SmallStore) -> None:
    """To a system topic, which is created with enough queues; all or none."""
    with small.open() as store:
        own = Message("SCHEDULE_TOPIC_XXXX", b"x", queue_id=17)
        with pytest.raises(NoPermission):
            store.put_message(own)
        (put,) = store.put_own([own])
        assert (put.topic, put.queue_id, put.queue_offset) == ("SCHEDULE_TOPIC_XXXX", 17, 0)
        with pytest.raises(MessageIllegal):
            store.put_own([own, Message("SCHEDULE_TOPIC_XXXX", None)])  # type: ignore[arg-type]
        assert store.commit_log.next_queue_offset("SCHEDULE_TOPIC_XXXX", 17) == 1


def test_a_retry_of_a_group_in_order_becomes_a_dead_letter(small: SmallStore) -> None:
    """However often it was tried; other messages are put as ever."""
    with small.open() as store:
        retry = Message("%RETRY%billing", b"x", properties={"RECONSUME_TIME": "1"})
        assert store.put_retry(retry, is_in_order=False).topic == "%RETRY%billing"
        assert store.put_retry(retry, is_in_order=True).topic == "%DLQ%billing"
        assert store.put_retry(Message("orders", b"x"), is_in_order=True).topic == "orders"
        assert store.topics.find("%DLQ%billing").read_queue_nums == 1
        with pytest.raises(MessageIllegal, match="tags is 5"):
            store.put_retry(Message("%RETRY%billing", b"x", tags=5), is_in_order=True)  # type: ignore[arg-type]
    with small.open(flush_disk_type="SYNC_FLUSH") as store:
        assert store.put_retry(retry, is_in_order=True).durable


def test_a_retry_that_failed_too_often_becomes_a_dead_letter(small: SmallStore) -> None:
    """By the group's settings; the topic of dead letters is created with the first one."""
    with small.open() as store:
        store.subscription_groups.create("billing", retry_max_times=2)
        for count, topic in (("2", "%RETRY%billing"), ("3", "%DLQ%billing")):
            assert ("%DLQ%billing" in store.topics) is False
            retry = Message("%RETRY%billing", b"x", queue_id=0, properties={"RECONSUME_TIME": count})
            assert store.put_message(retry).topic == topic
        assert "%DLQ%billing" in store.topics


def test_a_block_is_left_to_single_puts_where_its_topic_is_not_there(small: SmallStore) -> None:
    """Nothing is stored of it then; with its topic it is stored as it is."""
    with small.open() as store:
        encoder = ColumnsEncoder(store.config, BufferPool())
        columns = read_columns({"topic": "orders", "body": [b"a", b"b"]}, None, None)
        assert store._puts.put_restored_block(encoder.encode(columns)) is None
        assert store.max_offset == 0
        store.topics.create("orders", 1)
        assert store._puts.put_restored_block(encoder.encode(columns)) == store.max_offset
        assert bodies_of(store, "orders") == [b"a", b"b"]


def test_a_negative_queue_is_chosen_among_those_that_are_written(small: SmallStore) -> None:
    """Never one that is only read."""
    with small.open() as store:
        store.topics.create("orders", 4)
        store.topics.add("few", TopicConfig(topic_name="few", read_queue_nums=8, write_queue_nums=2))
        for topic, count in (("orders", 4), ("few", 2)):
            chosen = {store.put_message(Message(topic, b"x", queue_id=-1)).queue_id for _ in range(80)}
            assert chosen == set(range(count))
