"""The resent message: what of a dead letter is kept, what is dropped, and what is new."""

from pathlib import Path

import pytest

from mqstore import Message
from mqstore.client.dead_letters.dead_letter import DeadLetter
from mqstore.client.dead_letters.dead_letters import DeadLetters
from mqstore.client.dead_letters.resent_message import resent_message
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.record.sys_flag import TRANSACTION_COMMIT
from support.stores.small_store import SmallStore


def letter_of(message: Message) -> DeadLetter:
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
        (put,) = store.put_own([message])
        store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
        (letter,) = DeadLetters(store, "billing")
        return letter


def test_what_the_producer_gave_is_kept() -> None:
    """Body, flag, born time, tags, keys, UNIQ_KEY, properties of the user."""
    sent = Message(
        "orders",
        b"body",
        tags="created",
        keys=("o-1", "o-2"),
        queue_id=0,
        properties={"UNIQ_KEY": "U1", "colour": "red"},
        flag=7,
        born_timestamp=1_700_000_000_000,
    )
    resent = resent_message(letter_of(sent), "orders")
    assert (resent.topic, bytes(resent.body), resent.flag) == ("orders", b"body", 7)
    assert resent.born_timestamp == 1_700_000_000_000
    kept = {"TAGS": "created", "KEYS": "o-1 o-2", "UNIQ_KEY": "U1", "colour": "red"}
    assert kept.items() <= dict(resent.properties).items()


@pytest.mark.parametrize(
    "name",
    [
        *("DELAY", "REAL_TOPIC", "REAL_QID", "RETRY_TOPIC", "WAIT", "RECONSUME_TIME", "MAX_RECONSUME_TIMES"),
        *("CONSUME_START_TIME", "MIN_OFFSET", "MAX_OFFSET", "TIMER_OUT_MS", "TIMER_DELAY_SEC"),
        *("TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_ROLL_TIMES", "TRAN_MSG", "__transactionId__"),
    ],
)
def test_what_the_retries_left_is_dropped(name: str) -> None:
    """Each property of section 2 that is the broker's or the client's own; else it would work once more."""
    letter = letter_of(Message("orders", b"", queue_id=0, properties={name: "1"}))
    assert name not in resent_message(letter, "orders").properties


def test_it_begins_anew_and_says_where_it_came_from() -> None:
    """Reconsume times 0, the store's choice of a queue; and the first record can still be named."""
    letter = letter_of(Message("orders", b"", queue_id=0, reconsume_times=4, sys_flag=TRANSACTION_COMMIT))
    resent = resent_message(letter, "orders")
    assert (letter.reconsume_times, resent.reconsume_times, resent.queue_id) == (5, 0, -1)
    assert (resent.sys_flag, resent.delay_level) == (0, 0)
    assert dict(resent.properties) == {
        "ORIGIN_MESSAGE_ID": letter.origin_message_id,
        "UNIQ_KEY": letter.origin_message_id,
        "RESENT_FROM": "%DLQ%billing",
        "RESENT_MESSAGE_ID": letter.message_id,
    }


def test_to_the_group_alone_it_is_a_retry() -> None:
    """In the group's retry topic, with the topic that its consumers are shown."""
    resent = resent_message(letter_of(Message("orders", b"", queue_id=0)), "orders", only_group=True)
    assert (resent.topic, resent.properties["RETRY_TOPIC"]) == ("%RETRY%billing", "orders")
