"""Sends as requests: every field of a message has its letter, and answers are read as they come."""

import pytest

from mqstore import Message
from mqstore.client.errors import BrokerRefused
from mqstore.client.remote.send_calls import batch_body_of, put_of, puts_of, send_fields_of
from mqstore.remoting.command import ROCKETMQ, Command
from mqstore.remoting.errors import FieldsIllegal
from mqstore.store.errors import PropertiesIllegal
from mqstore.store.record.batch_format import decode_batch
from mqstore.store.record.host import Host
from mqstore.store.record.properties_format import parse_properties
from mqstore.store.status import PutMessageStatus, ResponseCode

ID = "7F0000010000271A00000000000004D2"
PLACE = {"msgId": ID, "queueId": "3", "queueOffset": "17", "transactionId": "x"}


def answer(code: int = 0, fields: dict[str, str] | None = None) -> Command:
    return Command(code, 1, 1, "JAVA", 513, "why", fields or PLACE, memoryview(b""), ROCKETMQ)


def test_the_fields_of_a_message() -> None:
    message = Message(
        "orders",
        b"body",
        tags="paid",
        keys=("o-1", "o-2"),
        queue_id=3,
        delay_level=2,
        properties={"region": "eu"},
        flag=5,
        sys_flag=1,
        born_timestamp=99,
        wait_store_msg_ok=False,
    )
    fields = send_fields_of(message, "producers", 7)
    properties = parse_properties(fields.pop("i").encode())
    assert fields == {
        "a": "producers",
        "b": "orders",
        "c": "TBW102",
        "d": "4",
        "e": "3",
        "f": "1",
        "g": "99",
        "h": "5",
        "j": "0",
        "k": "false",
        "m": "false",
    }
    assert properties == {"region": "eu", "KEYS": "o-1 o-2", "TAGS": "paid", "DELAY": "2", "WAIT": "false"}


def test_a_message_without_a_time_is_born_now() -> None:
    assert send_fields_of(Message("orders", b""), "p", 1_234)["g"] == "1234"


def test_a_message_that_comes_back_says_how_often_it_was_tried() -> None:
    """By these the broker decides whether it is a dead letter."""
    properties = {"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16"}
    fields = send_fields_of(Message("%RETRY%billing", b"", properties=properties), "p", 1)
    assert (fields["j"], fields["l"]) == ("3", "16")
    assert "l" not in send_fields_of(Message("orders", b"", properties=properties), "p", 1)


def test_properties_that_cannot_be_sent() -> None:
    with pytest.raises(PropertiesIllegal):
        send_fields_of(Message("orders", b"", properties={"a": "\x02"}), "p", 1)


def test_a_batch_has_the_properties_of_each_message() -> None:
    messages = [Message("orders", b"%d" % number, tags=f"t{number}", flag=number) for number in range(3)]
    fields = send_fields_of(messages[0], "p", 1, is_batch=True)
    assert (fields["i"], fields["m"]) == ("", "true")
    elements = decode_batch(batch_body_of(messages))
    assert [(each.body, each.flag) for each in elements] == [(b"0", 0), (b"1", 1), (b"2", 2)]
    assert [parse_properties(each.properties) for each in elements] == [
        {"TAGS": "t0"},
        {"TAGS": "t1"},
        {"TAGS": "t2"},
    ]


def test_where_a_message_lies() -> None:
    put = put_of(answer(), Message("orders", b""), "broker-a")
    assert (put.topic, put.queue_id, put.queue_offset) == ("orders", 3, 17)
    assert (put.physical_offset, put.store_host) == (1234, Host.parse("127.0.0.1:10010").encode())
    assert put.msg_id == ID
    assert not put.durable


def test_where_a_batch_lies() -> None:
    """Offsets count on from the first. A broker of batches of its own answers one id for all."""
    messages = [Message("orders", b"")] * 3
    ids = ",".join(ID[:-1] + digit for digit in "123")
    puts = puts_of(answer(fields=PLACE | {"msgId": ids}), messages, "broker-a")
    assert [put.queue_offset for put in puts] == [17, 18, 19]
    assert [put.physical_offset & 15 for put in puts] == [1, 2, 3]
    assert [put.physical_offset for put in puts_of(answer(), messages, "broker-a")] == [1234] * 3


def test_an_answer_to_a_reply_names_no_place() -> None:
    put = put_of(
        answer(fields={"msgId": "0", "queueId": "1", "queueOffset": "0"}), Message("t", b""), "broker-a"
    )
    assert (put.physical_offset, put.queue_id) == (-1, 1)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.SUCCESS, PutMessageStatus.PUT_OK),
        (ResponseCode.FLUSH_DISK_TIMEOUT, PutMessageStatus.FLUSH_DISK_TIMEOUT),
        (ResponseCode.SLAVE_NOT_AVAILABLE, PutMessageStatus.FLUSH_DISK_TIMEOUT),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, PutMessageStatus.FLUSH_DISK_TIMEOUT),
    ],
)
def test_answers_for_which_the_message_is_stored(code: int, status: PutMessageStatus) -> None:
    assert put_of(answer(code), Message("orders", b""), "broker-a").status is status


@pytest.mark.parametrize(
    ("code", "known_as"),
    [
        (1, ResponseCode.SYSTEM_ERROR),
        (2, ResponseCode.SYSTEM_BUSY),
        (17, 17),
        (4711, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_all_other_answers_are_refusals(code: int, known_as: int) -> None:
    with pytest.raises(BrokerRefused, match="why") as refusal:
        put_of(answer(code), Message("orders", b""), "broker-a")
    assert (refusal.value.answer_code, refusal.value.response_code) == (code, known_as)


@pytest.mark.parametrize("name", ["queueOffset", "queueId"])
def test_an_answer_whose_numbers_are_none(name: str) -> None:
    with pytest.raises(FieldsIllegal):
        put_of(answer(fields=PLACE | {name: "x"}), Message("orders", b""), "broker-a")
