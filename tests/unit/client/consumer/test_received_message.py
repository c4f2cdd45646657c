"""The topic that a listener sees, by what the record says."""

from pathlib import Path

import pytest

from mqstore.client.consumer.received_message import ReceivedMessage
from mqstore.message_store import MessageStore
from mqstore.store.config import StoreConfig
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.message import Message

SMALL = StoreConfig(mapped_file_size_commit_log=131_072, max_message_size=1_024)


@pytest.mark.parametrize(
    ("stored_topic", "properties", "topic"),
    [
        ("orders", {}, "orders"),
        ("orders", {"RETRY_TOPIC": "elsewhere"}, "orders"),
        ("%RETRY%billing", {"RETRY_TOPIC": "orders"}, "orders"),
        ("%RETRY%billing", {}, "%RETRY%billing"),
    ],
)
def test_the_original_topic(stored_topic: str, properties: dict[str, str], topic: str) -> None:
    """Only a message in a retry topic is shown under its RETRY_TOPIC; where it lies stays known."""
    path = Path("/store")
    with MessageStore.open(path, SMALL, file_system=MemoryFileSystem(), start=False) as store:
        put = store.put_message(Message(stored_topic, b"x", properties=properties))
        stored = store.look_message_by_offset(put.physical_offset)
        assert stored is not None
        received = ReceivedMessage.of(stored.record)
        assert (received.topic, received.stored_topic) == (topic, stored_topic)
        assert received.queue_offset == stored.queue_offset
