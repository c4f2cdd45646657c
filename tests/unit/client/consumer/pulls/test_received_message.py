"""What a listener sees of a message that comes back: its topic by what the record says, and local tries."""

import pytest

from mqstore.client.consumer.pulls.received_message import ReceivedMessage
from support.clients.stored_messages import stored_message


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
    stored = stored_message(7, topic=stored_topic, properties=properties)
    received = ReceivedMessage.of(stored.record)
    assert (received.topic, received.stored_topic) == (topic, stored_topic)
    assert received.queue_offset == 7


def test_local_reconsume_times() -> None:
    """Each time that it comes again from memory counts one; all else is the record's."""
    stored = stored_message(7, body=b"body", reconsume_times=2)
    once = ReceivedMessage.again(stored)
    twice = ReceivedMessage.again(once)
    assert [message.reconsume_times for message in (stored, once, twice)] == [2, 3, 4]
    assert (twice.body, twice.header.reconsume_times) == (b"body", 2)
