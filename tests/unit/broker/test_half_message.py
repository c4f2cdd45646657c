"""The half message: what a transaction looks like on disk, field by field, and what is read of it."""

import msgspec
import pytest

from mqstore import Message, MessageStore
from mqstore.broker.half_message import (
    HalfMessage,
    carried,
    ended_offsets,
    final_of,
    given_up,
    half_of,
    op_of,
    renewed,
)
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.host import Host
from mqstore.store.record.sys_flag import COMPRESSED, TRANSACTION_COMMIT, TRANSACTION_PREPARED
from support.twins.plain_records import record

SENT = Message(
    "orders",
    b"body",
    tags="created",
    keys="k",
    queue_id=3,
    delay_level=4,
    properties={"UNIQ_KEY": "u1", "colour": "red", "DELAY": "2"},
    flag=7,
    sys_flag=TRANSACTION_PREPARED,
    born_timestamp=1_000,
    born_host=Host(b"\x0a\x00\x00\x01", 5),
)


def stored(store: MessageStore, message: Message) -> HalfMessage:
    """As it lies in the log."""
    (put,) = store.put_own([message])
    found = store.look_message_by_offset(put.physical_offset)
    assert found is not None
    return HalfMessage.of(found.record)


def half_with(**properties: str) -> HalfMessage:
    """A record of a half with these properties, born at 1,000,000 ms."""
    encoded = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    return HalfMessage.of(
        memoryview(record(0, topic="RMQ_SYS_TRANS_HALF_TOPIC", properties=encoded, born_timestamp=1_000_000))
    )


def test_a_half_says_where_it_goes(store: MessageStore) -> None:
    """Properties of the message stay; delay and transaction bits go."""
    half = stored(store, half_of(SENT, "payments"))
    assert (half.stored_topic, StoredMessage.of(half.record).queue_id) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0)
    assert (half.topic, half.queue_id, half.producer_group) == ("orders", 3, "payments")
    assert (half.body, half.flag, half.stored_sys_flag, half.born_timestamp) == (b"body", 7, 0, 1_000)
    assert half.queue_offset == 0
    assert half.properties == {
        "UNIQ_KEY": "u1",
        "colour": "red",
        "__transactionId__": "u1",
        "TRAN_MSG": "true",
        "PGROUP": "payments",
        "REAL_TOPIC": "orders",
        "REAL_QID": "3",
        "KEYS": "k",
        "TAGS": "created",
    }


def test_a_half_without_a_unique_key_has_no_transaction_id() -> None:
    """As in RocketMQ, whose clients always give one."""
    half = half_of(Message("orders", b""), "payments")
    assert "__transactionId__" not in half.properties


def test_a_final_is_the_half_in_its_real_place(store: MessageStore) -> None:
    """It keeps the properties of the half, has the bits of a commit, and names the half's place."""
    store.put_message(Message("others", b"x"))
    half = stored(store, msgspec.structs.replace(half_of(SENT, "payments"), sys_flag=COMPRESSED))
    (put,) = store.put_own([final_of(half)])
    found = store.look_message_by_offset(put.physical_offset)
    assert found is not None
    assert (found.topic, found.queue_id, found.queue_offset) == ("orders", 3, 0)
    assert found.stored_body == b"body"
    assert found.properties == half.properties
    assert found.stored_sys_flag == TRANSACTION_COMMIT | COMPRESSED
    assert found.prepared_transaction_offset == half.physical_offset > 0
    assert (found.flag, found.born_timestamp, found.born_host) == (7, 1_000, SENT.born_host)


def test_a_renewed_half_counts_its_checks(store: MessageStore) -> None:
    """Nothing else changes, but that it no longer names an offset that is ended."""
    first = stored(store, half_of(SENT, "payments"))
    second = stored(store, renewed(first))
    third = stored(store, renewed(second))
    assert [half.check_times for half in (first, second, third)] == [0, 1, 2]
    assert third.properties == {**first.properties, "TRANSACTION_CHECK_TIMES": "2"}
    assert (third.stored_topic, third.queue_offset, third.topic) == ("RMQ_SYS_TRANS_HALF_TOPIC", 2, "orders")
    assert (third.body, third.flag, third.born_timestamp, third.born_host) == (
        b"body",
        7,
        1_000,
        SENT.born_host,
    )
    by_broker = half_with(TRAN_PREPARED_QUEUE_OFFSET="12")
    assert by_broker.first_queue_offset == 12
    assert renewed(by_broker).properties == {"TRANSACTION_CHECK_TIMES": "1"}


def test_a_carried_half_names_the_first_that_it_stands_for(store: MessageStore) -> None:
    """As RocketMQ's do, with the count of checks as it was; one that is renewed names none again."""
    first = stored(store, renewed(stored(store, half_of(SENT, "payments"))))
    second = stored(store, carried(first))
    third = stored(store, carried(second))
    assert [half.first_queue_offset for half in (first, second, third)] == [None, 1, 1]
    assert third.properties == {**first.properties, "TRAN_PREPARED_QUEUE_OFFSET": "1"}
    assert (third.stored_topic, third.queue_offset, third.body) == ("RMQ_SYS_TRANS_HALF_TOPIC", 3, b"body")
    assert carried(half_with(TRAN_PREPARED_QUEUE_OFFSET="x")).properties == {
        "TRAN_PREPARED_QUEUE_OFFSET": "0"
    }
    assert stored(store, renewed(third)).first_queue_offset is None


def test_a_half_that_is_given_up_is_kept(store: MessageStore) -> None:
    """Whole, in the topic where RocketMQ's tools look for it."""
    half = stored(store, half_of(SENT, "payments"))
    kept = stored(store, given_up(half))
    assert kept.stored_topic == "TRANS_CHECK_MAX_TIME_TOPIC"
    assert (kept.body, kept.properties, kept.flag) == (half.body, half.properties, 7)


def test_an_op_is_byte_for_byte_rocketmqs(store: MessageStore) -> None:
    """WAIT before TAGS, for that is the order of Java's map; each offset is followed by a comma."""
    op = stored(store, op_of([3, 15], 5_000))
    assert (op.stored_topic, StoredMessage.of(op.record).queue_id) == ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0)
    assert op.body == b"3,15,"
    assert bytes(op.properties_view).startswith(b"WAIT\x01true\x02TAGS\x01d\x02")
    assert (op.born_timestamp, op.stored_sys_flag) == (5_000, 0)
    assert ended_offsets(op) == [3, 15]


@pytest.mark.parametrize(
    ("tag", "body", "offsets"),
    [
        (b"d", b"7", [7]),
        (b"d", b"7,8,9,", [7, 8, 9]),
        (b"d", b"", []),
        (b"d", b",x,-1,5,\xff", [5]),
        (b"r", b"7,", []),
    ],
)
def test_ops_of_all_versions_are_read(tag: bytes, body: bytes, offsets: list[int]) -> None:
    """4.9 writes one offset without a comma; what is no op names nothing."""
    op = StoredMessage.of(memoryview(record(0, body=body, properties=b"TAGS\x01" + tag + b"\x02")))
    assert ended_offsets(op) == offsets


@pytest.mark.parametrize(
    ("properties", "is_sound"),
    [
        ({"REAL_TOPIC": "orders", "REAL_QID": "3", "PGROUP": "p"}, True),
        ({"REAL_QID": "3", "PGROUP": "p"}, False),
        ({"REAL_TOPIC": "orders", "PGROUP": "p"}, False),
        ({"REAL_TOPIC": "orders", "REAL_QID": "x", "PGROUP": "p"}, False),
        ({"REAL_TOPIC": "orders", "REAL_QID": "3"}, False),
    ],
)
def test_a_half_must_say_where_it_goes_and_whose_it_is(properties: dict[str, str], is_sound: bool) -> None:
    """Else nobody can end it. It can be looked at all the same."""
    half = half_with(**properties)
    assert half.is_sound is is_sound
    assert half.topic in ("orders", "RMQ_SYS_TRANS_HALF_TOPIC")
    assert half.queue_id in (0, 3)


@pytest.mark.parametrize(
    ("own_s", "age_ms", "is_too_young"),
    [
        (None, 0, True),
        (None, 6_000, True),
        (None, 6_001, False),
        (None, -1, False),
        ("60", 60_000, True),
        ("60", 60_001, False),
        ("60", -1, True),
        ("0", 0, True),
        ("0", 1, False),
        ("soon", 6_000, True),
        ("soon", 6_001, False),
        ("-1", 6_001, False),
    ],
)
def test_how_long_nobody_is_asked(own_s: str | None, age_ms: int, is_too_young: bool) -> None:
    """6 s, or what the message asks for: TransactionalMessageServiceImpl#check."""
    half = half_with(**({} if own_s is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": own_s}))
    assert half.is_too_young(1_000_000 + age_ms, 6_000) is is_too_young
