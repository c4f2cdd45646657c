"""Messages that ask for a time of delivery of their own (TIMER_DELAY_SEC and the like): there is no timer.

They are refused by every way to put, as a RocketMQ broker without its timer refuses them
(HookUtils#handleScheduleMessage): stored, they would be visible at once.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, PutMessageStatus, ResponseCode
from mqstore.store.errors import TimerNotEnabled
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.record.properties_format import encode_properties
from mqstore.store.record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from support.stores.small_store import SmallStore

GOOD = Message("orders", b"good", properties={"colour": "blue"})
NAMES = ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"]


def put_columns(store: MessageStore, message: Message) -> object:
    rows = [GOOD, message, GOOD]
    return store.put_columns(
        {
            "topic": [row.topic for row in rows],
            "body": [row.body for row in rows],
            "properties": [encode_properties(row.properties) for row in rows],
            "delay_level": [row.delay_level for row in rows],
        }
    )


PUTS: dict[str, Callable[[MessageStore, Message], object]] = {
    "put_message": lambda store, message: store.put_message(message),
    "put_messages": lambda store, message: store.put_messages([GOOD, message]),
    "put_messages, many": lambda store, message: store.put_messages([GOOD] * 40 + [message]),
    "put_message_async": lambda store, message: store.put_message_async(message).result(),
    "put_columns": put_columns,
}


@pytest.fixture
def small() -> SmallStore:
    return SmallStore(MemoryFileSystem(), Path("/store"))


@pytest.mark.parametrize("known", [True, False], ids=["known topic", "new topic"])
@pytest.mark.parametrize("way", PUTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_request_for_a_time_is_refused(small: SmallStore, name: str, way: str, known: bool) -> None:
    """Whatever the time; nothing is stored, and no topic comes to be."""
    with small.open() as store:
        if known:
            store.topics.create("orders")
        for value in ("10", "0", "no number"):
            message = Message("orders", b"x", properties={"a": "b", name: value})
            with pytest.raises(TimerNotEnabled, match=f"{name} is .{value}.,.* give a delay") as caught:
                PUTS[way](store, message)
            assert caught.value.put_message_status is PutMessageStatus.WHEEL_TIMER_NOT_ENABLE
            assert caught.value.response_code is ResponseCode.SYSTEM_ERROR
            assert caught.value.row == (1 if way == "put_columns" else None)
        assert (store.max_offset, "orders" in store.topics) == (0, known)


@pytest.mark.parametrize("way", PUTS)
@pytest.mark.parametrize(("fields", "properties"), [({"delay_level": 2}, {}), ({}, {"DELAY": "2"})])
def test_a_level_overrules_the_time(
    small: SmallStore, way: str, fields: dict[str, int], properties: dict[str, str]
) -> None:
    """The request is dropped, as RocketMQ drops it; a level of 0 or below overrules nothing."""
    with small.open() as store:
        PUTS[way](store, Message("orders", b"x", properties={"TIMER_DELAY_MS": "5", **properties}, **fields))
        waiting = store.get_message("billing", "SCHEDULE_TOPIC_XXXX", 1, 0).messages
        assert [message.properties.get("TIMER_DELAY_MS") for message in waiting] == [None]
        end_offset = store.max_offset
        for level in ("0", "-1"):
            with pytest.raises(TimerNotEnabled):
                PUTS[way](store, Message("orders", b"x", properties={"TIMER_DELAY_MS": "5", "DELAY": level}))
        assert store.max_offset == end_offset


@pytest.mark.parametrize("way", PUTS)
def test_a_time_that_is_past_is_no_request(small: SmallStore, way: str) -> None:
    """TIMER_OUT_MS says that a broker's timer had it, and the timer's own topic is written by the timer."""
    with small.open() as store:
        store.topics.ensure("rmq_sys_wheel_timer", 1)
        PUTS[way](store, Message("orders", b"x", properties={"TIMER_DELAY_SEC": "5", "TIMER_OUT_MS": "7"}))
        PUTS[way](store, Message("rmq_sys_wheel_timer", b"x", properties={"TIMER_DELAY_SEC": "5"}))


@pytest.mark.parametrize(
    ("sys_flag", "is_refused"),
    [(TRANSACTION_PREPARED, False), (TRANSACTION_ROLLBACK, False), (TRANSACTION_COMMIT, True)],
)
def test_a_half_message_is_asked_once_it_is_committed(
    small: SmallStore, sys_flag: int, is_refused: bool
) -> None:
    """Until then nobody sees it."""
    message = Message("orders", b"x", properties={"TIMER_DELAY_SEC": "5"}, sys_flag=sys_flag)
    with small.open() as store:
        if is_refused:
            with pytest.raises(TimerNotEnabled):
                store.put_message(message)
        else:
            store.put_message(message)


@pytest.mark.parametrize("delay_level", [0, -1])
def test_a_copy_that_is_sent_back_asks_for_no_time(small: SmallStore, delay_level: int) -> None:
    """A retry has a level, which overrules the time; a dead letter drops it, or its group would be stuck."""
    with small.open() as store:
        old = store._puts.put_internal([Message("orders", b"x", properties={"TIMER_DELAY_SEC": "5"})])[0]
        sent = store.consumer_send_msg_back("billing", old.physical_offset, delay_level)
        assert sent.put is not None
        copy = store.look_message_by_offset(sent.put.physical_offset)
        assert copy is not None
        assert "TIMER_DELAY_SEC" not in copy.properties
