"""The dead letter: what an operator is told about a record of a dead-letter topic.

Method: messages that die in each of the ways that there are, in a store in memory.
"""

from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.client.dead_letters.dead_letters import DeadLetters
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_store import SmallStore


@pytest.fixture
def small() -> SmallStore:
    return SmallStore(MemoryFileSystem(), Path("/store"))


def sent_back(store: MessageStore) -> None:
    put = store.put_message(Message("orders", b"x", queue_id=0))
    store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)


def diverted(store: MessageStore) -> None:
    properties = {"RECONSUME_TIME": "17", "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "AB"}
    store.put_message(Message("%RETRY%billing", b"x", properties=properties))


def put_by_somebody(store: MessageStore) -> None:
    store.put_message(Message("%DLQ%billing", b"x", queue_id=0))


@pytest.mark.parametrize(
    ("die", "arrival", "original_topic", "reconsume_times"),
    [
        (sent_back, "SENT_BACK", "orders", 1),
        (diverted, "DIVERTED", "orders", 17),
        (put_by_somebody, "PUT", None, 0),
    ],
)
def test_how_it_came_is_told_apart(
    small: SmallStore, die: object, arrival: str, original_topic: str | None, reconsume_times: int
) -> None:
    """Section 8: DELAY is 0 of a send-back (row 10), -1 of a client's own put; RETRY_TOPIC (row 8)."""
    with small.open() as store:
        assert callable(die)
        die(store)
        (letter,) = DeadLetters(store, "billing")
        assert (letter.arrival, letter.original_topic) == (arrival, original_topic)
        assert (letter.group, letter.topic, letter.queue_id) == ("billing", "%DLQ%billing", 0)
        assert letter.reconsume_times == reconsume_times
        assert letter.store_timestamp == small.clock.now_ms()


def test_it_names_its_first_record(small: SmallStore) -> None:
    """ORIGIN_MESSAGE_ID is the offset message id of what the producer put (row 12)."""
    with small.open() as store:
        sent_back(store)
        (letter,) = DeadLetters(store, "billing")
        first = store.look_message_by_offset(0)
        assert first is not None
        assert letter.origin_message_id == first.msg_id
        assert letter.message_id == letter.message.msg_id != first.msg_id
        assert repr(letter).startswith("DeadLetter('%DLQ%billing', queue_id=0, queue_offset=0")
