"""Inner batches, which a broker stores whole: consumers get the single messages, with offsets of their own.

The log of a broker is made by letting the store take such a record, which it refuses otherwise.
"""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from mqstore import Message, MessageStore
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus
from mqstore.index.pull.tag_filter import TagFilter
from mqstore.store.clock import SystemClock
from mqstore.store.errors import MessageIllegal
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message import message_encoder
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.batch_format import BatchElement, encode_batch
from mqstore.store.record.properties_format import encode_properties
from mqstore.store.record.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from support.clients.stepped_consumer import SteppedConsumer
from support.stores.small_store import SmallStore

ELEMENTS = [
    BatchElement(b"one", encode_properties({"UNIQ_KEY": "u1", "TAGS": "a"}), 7),
    BatchElement(b"", encode_properties({"TAGS": "b"})),
    BatchElement(b"three", b""),
]
BATCH = Message(
    "orders",
    encode_batch(ELEMENTS),
    properties={"INNER_NUM": "3", "UNIQ_KEY": "whole"},
    sys_flag=INNER_BATCH | NEED_UNWRAP,
    born_timestamp=123,
)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MessageStore]:
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
        with monkeypatch.context() as patched:
            patched.setattr(message_encoder, "_refuse_inner_batch", lambda message: None)
            for message in (Message("orders", b"before", tags="b"), BATCH, Message("orders", b"behind")):
                store._puts.put_internal([message])
        yield store


def queue_of(store: MessageStore) -> memoryview:
    queue = store.consume_queues.find("orders", 0)
    assert queue is not None
    return queue.view_from(0, 3)


@pytest.mark.parametrize("max_msg_nums", [3, 32])
def test_consumers_get_single_messages(store: MessageStore, max_msg_nums: int) -> None:
    """Between the others and in their order, whether few are asked for or many (by the compiled loop)."""
    got = store.get_message("billing", "orders", 0, 0, max_msg_nums)
    # The next in the queue has offset 2: a broker would have left 1 to 3 to the batch.
    assert [(message.queue_offset, message.body) for message in got.messages][:4] == [
        (0, b"before"), (1, b"one"), (2, b""), (3, b"three"),
    ]  # fmt: skip
    whole = store.look_message_by_offset(got.messages[1].physical_offset)
    assert whole is not None
    assert whole.body == BATCH.body
    for message in got.messages[1:4]:
        assert (message.topic, message.queue_id, message.born_timestamp) == ("orders", 0, 123)
        assert (message.msg_id, message.store_timestamp) == (whole.msg_id, whole.store_timestamp)
        assert message.sys_flag == 0
    one = got.messages[1]
    assert (one.properties, one.flag, one.tags) == ({"UNIQ_KEY": "u1", "TAGS": "a"}, 7, "a")
    assert store.put_message(one.to_message()).queue_offset == 3


def test_single_messages_are_filtered_by_their_own_tags(store: MessageStore) -> None:
    """Once the batch has passed by its tags code, as in RocketMQ."""
    got = store.get_message("billing", "orders", 0, 0, tags="b")
    assert [message.body for message in got.messages] == [b"before"]
    # "" and the tags that the batch has not share a hash, so do these two and the batch's code.
    passing = TagFilter(frozenset({"b"}))
    passing._codes |= {0}
    singles = store._reader._collect(queue_of(store), passing, 2).messages
    assert [message.body for message in singles] == [b"before", b""]


def test_a_batch_that_is_none_is_given_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """As RocketMQ's client does, so that it stops nobody."""
    broken = Message("orders", b"no batch", sys_flag=INNER_BATCH | NEED_UNWRAP)
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
        monkeypatch.setattr(message_encoder, "_refuse_inner_batch", lambda message: None)
        store.put_message(broken)
        assert [m.body for m in store.get_message("billing", "orders", 0, 0).messages] == [b"no batch"]


def test_a_consumer_is_handed_each_once(store: MessageStore) -> None:
    """And its progress stands behind the batch."""
    handed_out: list[bytes] = []

    def listen(messages: Sequence[StoredMessage], _: ConsumeConcurrentlyContext) -> ConsumeConcurrentlyStatus:
        handed_out.extend(message.body for message in messages)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    with EmbeddedBroker(store) as broker:
        consumer = SteppedConsumer(
            broker, "billing", {"orders": "*"}, listen, ConsumerSettings(), SystemClock()
        )
        consumer.run_once()
        consumer.run_once()
    assert handed_out[:4] == [b"before", b"one", b"", b"three"]


@pytest.mark.parametrize("sys_flag", [INNER_BATCH, INNER_BATCH | NEED_UNWRAP])
def test_the_store_takes_no_inner_batch(sys_flag: int) -> None:
    """By any way: RocketMQ takes one for BatchCQ topics alone."""
    illegal = Message("orders", BATCH.body, sys_flag=sys_flag)
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
        for put in (store.put_message, store.put_message_async):
            with pytest.raises(MessageIllegal, match="body is a batch"):
                put(illegal)
        for count in (1, 50):
            with pytest.raises(MessageIllegal, match="body is a batch"):
                store.put_messages([illegal] * count)
        assert store.max_offset == 0


def test_an_inner_batch_is_not_sent_back(store: MessageStore) -> None:
    """Refused as RocketMQ does: the whole batch would come back for each message of it that failed."""
    batch = store.get_message("billing", "orders", 0, 1).messages[0]
    with pytest.raises(MessageIllegal, match="body is a batch"):
        store.consumer_send_msg_back("billing", batch.physical_offset)


@pytest.mark.parametrize("body", [zlib.compress(BATCH.body), b"not compressed"], ids=["whole", "broken"])
def test_a_compressed_batch_is_decompressed_as_a_whole(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """Once: its single messages are not compressed. One that cannot be is given as the record that it is."""
    batch = msgspec.structs.replace(BATCH, body=body, sys_flag=BATCH.sys_flag | COMPRESSED)
    monkeypatch.setattr(message_encoder, "_refuse_inner_batch", lambda message: None)
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
        store._puts.put_internal([batch])
        messages = store.get_message("billing", "orders", 0, 0).messages
        if body == b"not compressed":
            assert [message.stored_body for message in messages] == [body]
        else:
            assert [message.body for message in messages] == [element.body for element in ELEMENTS]
