"""What a listener sees of a message that comes back: its topic by what the record says, and local tries."""

import copy
import pickle
from collections.abc import Callable

import pytest

from mqstore.client.consumer.pulls.received_message import ReceivedMessage, in_words
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


def test_a_failure_in_the_log_can_be_found_from_the_dead_letter() -> None:
    """By the id that all attempts share, by a key, and with the attempt."""
    first = stored_message(7, properties={"KEYS": "o-1 eu"})
    again = stored_message(8, properties={"ORIGIN_MESSAGE_ID": "7F000001", "KEYS": "o-1"}, reconsume_times=2)
    place = f"attempt 1 ({first!r})"
    assert in_words([first]) == f"message {first.msg_id} of topic orders, keys 'o-1 eu', {place}"
    assert in_words([again, first]).startswith("message 7F000001 of topic orders, keys 'o-1', attempt 3 (")
    assert in_words([again, first]).endswith(", and 1 more")


@pytest.mark.parametrize(
    "copied", [ReceivedMessage.detached, copy.deepcopy, lambda message: pickle.loads(pickle.dumps(message))]
)
def test_a_copy_remembers_what_came_from_memory(
    copied: Callable[[ReceivedMessage], ReceivedMessage],
) -> None:
    """Its record does not say it."""
    message = ReceivedMessage.again(ReceivedMessage.again(stored_message(7)))
    found = copied(message)
    assert (type(found), found.reconsume_times, found.record) == (ReceivedMessage, 2, message.record)
    assert type(found.data.obj) is bytes
