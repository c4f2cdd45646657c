"""The batch: which messages may be one, and how it is sent. Row MessageBatch of docs/spec/client_produce.md
section 5."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqstore import Message
from mqstore.broker.broker import MessageQueue
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.errors import BatchIllegal
from mqstore.client.producer.message.message_batch import make_batch
from mqstore.client.producer.message.unique_id import UniqueIds
from mqstore.client.producer.producer import Producer
from mqstore.store.errors import MessageIllegal, MessageTooLarge, PropertiesIllegal, QueueIllegal, StoreFull
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.message_encoder import MessageEncoder
from mqstore.store.record.batch_format import BatchElement, encode_batch
from support.clients.answering_broker import AnsweringBroker
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds
from support.stores.small_log import small_config
from support.stores.small_store import SmallStore, bodies_of

MakeProducer = Callable[..., Producer]
ORDER = Message("orders", b"body", tags="a")
QUEUE = MessageQueue("orders", "broker-a", 1)
FULL = StoreFull(Path("/full"), 1, "no room")
IDS = UniqueIds(ManualClock(), ManualSeconds())


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "is empty"),
        ([ORDER, Message("invoices", b"x")], "messages to 'orders' and to 'invoices'"),
        ([ORDER, Message("orders", b"x", wait_store_msg_ok=False)], "wait_store_msg_ok"),
        ([ORDER, Message("orders", b"x", delay_level=1)], "asks for a delay"),
        ([ORDER, Message("orders", b"x", properties={"DELAY": "3"})], "asks for a delay"),
        ([Message("orders", b"x", properties={"TIMER_DELAY_SEC": "3"})], "asks for a delay"),
        ([Message("%RETRY%billing", b"x")], "a retry topic"),
    ],
)
def test_what_cannot_be_one_batch(messages: list[Message], words: str) -> None:
    """Row MessageBatch: one topic, one wait flag, no delay level, no retry topic; row 3 of the checklist."""
    with pytest.raises(BatchIllegal, match=words):
        make_batch(messages, 1_000, IDS)


@pytest.mark.parametrize("level", [-1, 0])
def test_no_delay_is_no_delay(level: int) -> None:
    """0 and below, as a field and as a property."""
    messages = [
        Message("orders", b"x", delay_level=level),
        Message("orders", b"x", properties={"DELAY": str(level)}),
    ]
    assert len(make_batch(messages, 1_000, IDS).messages) == 2


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (None, MessageIllegal),
        (Message("orders", b""), MessageIllegal),
        (Message("orders", bytes(1_001)), MessageTooLarge),
        (Message("orders", b"x", properties=["a"]), MessageIllegal),  # type: ignore[arg-type]
        (Message("orders", b"x", properties={"a": "\ud800"}), PropertiesIllegal),
        (Message("orders", b"x", keys=("two words",)), PropertiesIllegal),
    ],
)
def test_each_member_is_checked(message: Any, error: type[Exception]) -> None:
    """As if it were sent alone."""
    with pytest.raises(error):
        make_batch([ORDER, message], 1_000, IDS)


def test_each_member_gets_a_unique_key() -> None:
    """Unless it has one."""
    batch = make_batch([ORDER, Message("orders", b"x", properties={"UNIQ_KEY": "mine"})], 1_000, IDS)
    keys = [message.properties["UNIQ_KEY"] for message in batch.messages]
    assert keys == list(batch.unique_keys)
    assert keys[1] == "mine"
    assert len(keys[0]) == 32


def test_the_encoded_body_counts() -> None:
    """Against maxMessageSize: exactly what the body of the batch would be on the wire."""
    messages = [
        Message("orders", b"one", tags="é", keys=("k", "l"), properties={"UNIQ_KEY": "1", "a": "b"}),
        Message("orders", b"two", tags="t", keys="k l", properties={"UNIQ_KEY": "2"}),
        Message("orders", bytes(100), properties={"UNIQ_KEY": "3"}),
    ]
    messages = [msgspec.structs.replace(message, wait_store_msg_ok=False) for message in messages]
    encoder = MessageEncoder(small_config(enabled_append_prop_crc=False))
    stored = [encoder._encode_properties(message, is_own=False) for message in messages]
    elements = [
        BatchElement(bytes(message.body), properties)
        for message, properties in zip(messages, stored, strict=True)
    ]
    size = len(encode_batch(elements))
    assert make_batch(messages, size, IDS).messages == messages
    with pytest.raises(MessageTooLarge, match=f"the batch has {size} bytes, more than max_message_size"):
        make_batch(messages, size - 1, IDS)


def test_texts_that_take_more_bytes_than_characters_count_in_full() -> None:
    """The quick estimate is never below what the batch takes."""
    message = Message("orders", b"x", tags="🛫" * 30, properties={"UNIQ_KEY": "é" * 50})
    size = len(encode_batch([BatchElement(b"x", ("UNIQ_KEY\x01" + "é" * 50 + "\x02").encode())]))
    size += len(("TAGS\x01" + "🛫" * 30 + "\x02").encode())
    assert make_batch([message], size, IDS).messages == [message]
    with pytest.raises(MessageTooLarge):
        make_batch([message], size - 1, IDS)


def test_a_batch_is_stored_in_one_queue() -> None:
    """The broker stores each as a message of its own; the result has the ids of all."""
    small = SmallStore(MemoryFileSystem(), Path("/store"))
    with small.open() as store, EmbeddedBroker(store) as broker, Producer(broker, "billing") as producer:
        store.topics.create("orders", 4)
        messages = [Message("orders", b"%d" % number) for number in range(30)]
        result = producer.send_batch(messages, queue=QUEUE)
        assert bodies_of(store, "orders", 1) == [message.body for message in messages]
        assert [each.queue_offset for each in result.each] == list(range(30))
        assert result.queue_offset == 0
        for each, message in zip(result.each, messages, strict=True):
            (found,) = store.query_message("orders", each.msg_id)
            assert (found.body, found.msg_id) == (message.body, each.offset_msg_id)


def test_a_batch_is_not_compressed(producer_of: MakeProducer) -> None:
    """Row compression: not for a batch."""
    broker = AnsweringBroker()
    producer_of(broker).send_batch([Message("orders", bytes(9_000))])
    assert (len(broker.sent[0].body), broker.sent[0].sys_flag) == (9_000, 0)


def test_a_batch_is_tried_again_as_a_whole(producer_of: MakeProducer) -> None:
    """As a SYNC send of one message; with the same ids, in the queue of the attempt."""
    broker = AnsweringBroker("broker-a", FULL)
    result = producer_of(broker).send_batch([ORDER, ORDER])
    assert len(broker.sent) == 4
    assert [message.properties for message in broker.sent[:2]] == [
        message.properties for message in broker.sent[2:]
    ]
    assert {message.queue_id for message in broker.sent[2:]} == {result.message_queue.queue_id}
    assert result.msg_id == ",".join(message.properties["UNIQ_KEY"] for message in broker.sent[2:])


def test_a_batch_to_a_named_queue_is_tried_once(producer_of: MakeProducer) -> None:
    """And the queue must be of its topic."""
    broker = AnsweringBroker("broker-a", FULL)
    producer = producer_of(broker)
    with pytest.raises(StoreFull):
        producer.send_batch([ORDER], queue=QUEUE)
    with pytest.raises(QueueIllegal):
        producer.send_batch([ORDER], queue=MessageQueue("invoices", "broker-a", 0))
    assert len(broker.sent) == 1
