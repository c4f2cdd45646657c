"""The send-back of a client: which way is taken, and the message of the second, row by row of the spec."""

import zlib

import pytest

from mqstore.client.consumer.pulls.received_message import ReceivedMessage
from mqstore.client.consumer.send_back import SendBack, retry_message
from mqstore.store.message.stored_message import StoredMessage
from support.clients.scripted_broker import BROKER, ScriptedBroker
from support.clients.stored_messages import stored_message

GROUP = "billing"
RETRY = "%RETRY%billing"


def copy_of(message: StoredMessage) -> dict[str, str]:
    return dict(retry_message(message, GROUP, 16, 0).properties)


def test_the_broker_takes_it() -> None:
    """maxReconsumeTimes is always sent."""
    broker, message = ScriptedBroker(), stored_message(7)
    assert SendBack({BROKER: broker}, GROUP, 16).send_back(message, 2, BROKER)
    assert (broker.sent_back, broker.sent) == ([(message, 2, 16)], [])


def test_what_the_broker_does_not_take_is_put() -> None:
    """Any failure: as a normal message, to one of the queues of the retry topic, one after the other."""
    broker = ScriptedBroker()
    broker.add_topic(RETRY, 2)
    broker.send_back_error = ValueError("no")
    send_back = SendBack({BROKER: broker}, GROUP, 16)
    assert all(send_back.send_back(stored_message(offset), 0, BROKER) for offset in range(3))
    assert [(message.topic, message.queue_id) for message in broker.sent] == [
        (RETRY, 0),
        (RETRY, 1),
        (RETRY, 0),
    ]


def test_a_retry_topic_that_is_not_there_is_made_by_the_put() -> None:
    """Its queue is then 0."""
    broker = ScriptedBroker()
    broker.send_back_error = ValueError("no")
    assert SendBack({BROKER: broker}, GROUP, 16).send_back(stored_message(0), 0, BROKER)
    assert broker.sent[0].queue_id == 0


def test_neither_way(caplog: pytest.LogCaptureFixture) -> None:
    """False, and the log has both reasons."""
    broker = ScriptedBroker()
    broker.send_back_error, broker.send_error = ValueError("first"), ValueError("second")
    assert not SendBack({BROKER: broker}, GROUP, 16).send_back(stored_message(0), 0, BROKER)
    assert "first" in caplog.text
    assert "second" in caplog.text


def test_body_and_flag_are_copied() -> None:
    """Rows topic: body and flag, and all properties."""
    message = stored_message(7, body=b"body", flag=9, properties={"KEYS": "o-1", "TAGS": "paid", "own": "1"})
    copy = retry_message(message, GROUP, 16, 3)
    assert (copy.topic, bytes(copy.body), copy.flag, copy.queue_id) == (RETRY, b"body", 9, 3)
    assert copy.properties.items() >= {"KEYS": "o-1", "TAGS": "paid", "own": "1"}.items()


def test_a_compressed_body_stays_so() -> None:
    """With the bits of the sys flag that say how; other bits (of hosts, of a transaction) are not copied."""
    message = stored_message(7, body=zlib.compress(b"body"), sys_flag=0x1 | 0x300 | 0x8)
    copy = retry_message(message, GROUP, 16, 0)
    assert (bytes(copy.body), copy.sys_flag) == (message.stored_body, 0x301)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"ORIGIN_MESSAGE_ID": "first"}, "first"),
        ({"UNIQ_KEY": "unique"}, "unique"),
        ({"ORIGIN_MESSAGE_ID": " ", "UNIQ_KEY": "unique"}, "unique"),
        ({}, stored_message(7).msg_id),
    ],
)
def test_origin_message_id(properties: dict[str, str], expected: str) -> None:
    """Row ORIGIN_MESSAGE_ID: kept or msgId, which for a client is the UNIQ_KEY where there is one."""
    assert copy_of(stored_message(7, properties=properties))["ORIGIN_MESSAGE_ID"] == expected


@pytest.mark.parametrize(
    ("topic", "properties"), [("orders", {}), (RETRY, {"RETRY_TOPIC": "orders"})], ids=["first", "again"]
)
def test_retry_topic(topic: str, properties: dict[str, str]) -> None:
    """Row RETRY_TOPIC: the current topic, which for one that came back is that of its first record."""
    message = ReceivedMessage.of(stored_message(7, topic=topic, properties=properties).record)
    assert copy_of(message)["RETRY_TOPIC"] == "orders"


def test_reconsume_time() -> None:
    """Row RECONSUME_TIME: reconsumeTimes + 1; those from memory count."""
    message = ReceivedMessage.again(stored_message(7, reconsume_times=4))
    copy = retry_message(message, GROUP, 16, 0)
    assert (copy.properties["RECONSUME_TIME"], copy.reconsume_times) == ("6", 6)


def test_max_reconsume_times() -> None:
    """Row MAX_RECONSUME_TIMES: 16 or configured."""
    assert copy_of(stored_message(7))["MAX_RECONSUME_TIMES"] == "16"


def test_tran_msg() -> None:
    """Row TRAN_MSG: removed."""
    assert "TRAN_MSG" not in copy_of(stored_message(7, properties={"TRAN_MSG": "true"}))


def test_delay() -> None:
    """Row DELAY: 3 + reconsumeTimes; neither the requested level nor that of the record counts."""
    message = stored_message(7, properties={"DELAY": "9"}, reconsume_times=2)
    copy = retry_message(message, GROUP, 16, 0)
    assert (copy.delay_level, "DELAY" in copy.properties) == (5, False)


# -- a retry policy -------------------------------------------------------------------------------


@pytest.mark.parametrize(("reconsume_times", "level"), [(0, 3), (1, 5), (2, 18)])
def test_a_policy_names_the_delay(reconsume_times: int, level: int) -> None:
    """The nearest level that is not shorter than 6 s, 60 s, 3 h; the longest where none is."""
    broker, message = ScriptedBroker(), stored_message(7, reconsume_times=reconsume_times)
    asked = (6_000, 60_000, 10_800_000)
    send_back = SendBack({BROKER: broker}, GROUP, 16, lambda times: asked[times])
    assert send_back.send_back(message, 0, BROKER)
    assert send_back.send_back(message, 1, BROKER)
    assert send_back.send_back(message, -1, BROKER)
    assert broker.sent_back == [(message, level, 16), (message, 1, 16), (message, -1, 16)]


def test_a_policy_counts_for_the_second_way_too() -> None:
    """Where the listener's level would not."""
    broker = ScriptedBroker()
    broker.send_back_error = ValueError("no")
    send_back = SendBack({BROKER: broker}, GROUP, 16, lambda times: 60_000)
    assert send_back.send_back(stored_message(0), 9, BROKER)
    assert broker.sent[0].delay_level == 5


@pytest.mark.parametrize("answer", [None, -1, 1.5, True, "soon"])
def test_a_policy_that_answers_nonsense(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the broker's rule counts."""
    broker, message = ScriptedBroker(), stored_message(7)
    assert SendBack({BROKER: broker}, GROUP, 16, lambda times: answer).send_back(message, 0, BROKER)  # type: ignore[arg-type, return-value]
    assert broker.sent_back == [(message, 0, 16)]
    assert repr(answer) in caplog.text


def test_a_policy_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """As one that answers nonsense."""
    broker, message = ScriptedBroker(), stored_message(7)

    def policy(times: int) -> int:
        raise ZeroDivisionError

    assert SendBack({BROKER: broker}, GROUP, 16, policy).send_back(message, 0, BROKER)
    assert broker.sent_back == [(message, 0, 16)]
    assert "ZeroDivisionError" in caplog.text


# -- several brokers ------------------------------------------------------------------------------


def test_another_broker_takes_what_its_own_refuses() -> None:
    """First the broker of the message, by both ways; then the others."""
    own, other = ScriptedBroker(), ScriptedBroker()
    brokers = {"broker-0": other, BROKER: own}
    own.send_back_error, own.send_error = ValueError("first"), ValueError("second")
    assert SendBack(brokers, GROUP, 16).send_back(stored_message(0), 0, BROKER)
    assert (len(other.sent), other.sent_back) == (1, [])
    own.send_error = None
    assert SendBack(brokers, GROUP, 16).send_back(stored_message(0), 0, BROKER)
    assert (len(own.sent), len(other.sent)) == (1, 1)
