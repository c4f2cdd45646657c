"""One SYNC send with all its attempts: every row of the tables of docs/spec/client_produce.md section 2 and
of docs/spec/client_consume.md section 7.

Brokers are scripted, and time passes when they say so. `row` in a docstring names the row.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message
from mqstore.client.errors import (
    BrokerNotConnected,
    BrokerNotExist,
    BrokerTimedOut,
    ClientErrorCode,
    SendFailed,
    SendTimedOut,
    TopicRouteNotFound,
)
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.send_result import SendStatus
from mqstore.store.errors import (
    MessageIllegal,
    MessageTooLarge,
    NoPermission,
    QueueIllegal,
    StoreClosed,
    StoreError,
    StoreFull,
    StorePoisoned,
    TimerNotEnabled,
    TopicIllegal,
    TopicNotExist,
)
from mqstore.store.status import PutMessageStatus, ResponseCode
from support.clients.answering_broker import AnsweringBroker, StoreErrorWith, Took
from support.manual_seconds import ManualSeconds

MakeProducer = Callable[..., Producer]
FULL = StoreFull(Path("/full"), 1, "no room")
ORDER = Message("orders", b"body")
TAGGED = Message("orders", b"body", tags="a", properties={"color": "red"})
DISK_TIMEOUT = PutMessageStatus.FLUSH_DISK_TIMEOUT

# Once its route is known, a plain message takes a way of its own (plain_send.py); one with a property does
# not.
both_ways = pytest.mark.parametrize("message", [ORDER, TAGGED], ids=["plain", "with properties"])


def warm(producer: Producer) -> Producer:
    """The route is known already: only then a plain message takes its own way."""
    producer.fetch_publish_message_queues("orders")
    return producer


def unique_keys(broker: AnsweringBroker) -> list[str]:
    return [message.properties["UNIQ_KEY"] for message in broker.sent]


# -- checks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "error", "words"),
    [
        (None, MessageIllegal, "must be a Message"),
        (Message("orders", None), MessageIllegal, "must be bytes"),  # type: ignore[arg-type]
        (Message("orders", "text"), MessageIllegal, "must be bytes"),  # type: ignore[arg-type]
        (Message("orders", b""), MessageIllegal, "the body is empty"),
        (Message("orders", bytes(101)), MessageTooLarge, "101 bytes, more than max_message_size = 100"),
        (Message("", b"x"), TopicIllegal, "topic is empty"),
        (Message("two words", b"x"), TopicIllegal, "only the characters"),
        (Message("t" * 128, b"x"), TopicIllegal, "at most 127"),
        (Message("%RETRY%" + "g" * 121, b"x"), TopicIllegal, "at most 127"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), NoPermission, "a broker's own"),
        (Message("RMQ_SYS_TRANS_HALF_TOPIC", b"x"), NoPermission, "a broker's own"),
        (Message("RMQ_SYS_TRANS_OP_HALF_TOPIC", b"x"), NoPermission, "a broker's own"),
        (Message("TRANS_CHECK_MAX_TIME_TOPIC", b"x"), NoPermission, "a broker's own"),
        (Message("SELF_TEST_TOPIC", b"x"), NoPermission, "a broker's own"),
        (Message("OFFSET_MOVED_EVENT", b"x"), NoPermission, "a broker's own"),
        (Message("orders", b"x", properties=[("a", "b")]), MessageIllegal, "properties"),  # type: ignore[arg-type]
        (Message(["orders"], b"x"), TopicIllegal, "give a str"),  # type: ignore[arg-type]
    ],
)
def test_what_no_broker_would_take_is_not_sent(
    producer_of: MakeProducer, message: Any, error: type[StoreError], words: str
) -> None:
    """Row "checked first": null, empty, too long, a topic's name, a topic that only a broker writes."""
    broker = AnsweringBroker()
    producer = producer_of(broker, max_message_size=100)
    with pytest.raises(error, match=words):
        producer.send(message)
    assert not broker.sent


# -- attempts ---------------------------------------------------------------------------------------


@both_ways
def test_the_result_of_a_send(producer_of: MakeProducer, message: Message) -> None:
    """Row SEND_OK: returned; it has the message's id, its queue and its place."""
    broker = AnsweringBroker()
    result = warm(producer_of(broker)).send(message)
    (sent,) = broker.sent
    assert result.send_status is SendStatus.SEND_OK
    assert result.msg_id == result.transaction_id == sent.properties["UNIQ_KEY"]
    assert result.message_queue == ("orders", "broker-a", sent.queue_id)
    assert (result.queue_offset, result.offset_msg_id) == (1, "7F00000100002A9F0000000000000064")
    assert "SEND_OK" in repr(result)
    assert {name: sent.properties[name] for name in message.properties} == message.properties
    assert (sent.topic, sent.body, sent.tags) == (message.topic, message.body, message.tags)


@both_ways
@pytest.mark.parametrize(
    "error",
    [
        FULL,
        StorePoisoned(Path("/p"), OSError("EIO")),
        StoreClosed(Path("/c")),
        TopicNotExist("orders"),
        NoPermission("orders", 4, "put"),
        *(StoreErrorWith(code) for code in (17, 14, 1, 2, 16, 204, 205, 1500)),
        BrokerNotConnected("broker-a", "refused"),
        BrokerTimedOut("broker-a", 10),
        BrokerNotExist("broker-a", ["broker-b"]),
    ],
    ids=repr,
)
def test_another_broker_is_tried(producer_of: MakeProducer, message: Message, error: StoreError) -> None:
    """Rows MQClientException, RemotingException, MQBrokerException of the set: the next attempt,
    elsewhere."""
    brokers = AnsweringBroker("broker-a", error, error), AnsweringBroker("broker-b", error, error)
    producer = warm(producer_of(*brokers, retry_times_when_send_failed=2))
    with pytest.raises(SendFailed):
        producer.send(message)
    assert sorted(len(broker.sent) for broker in brokers) == [1, 2]
    assert producer.send(message).send_status is SendStatus.SEND_OK


@both_ways
@pytest.mark.parametrize(
    "error",
    [
        QueueIllegal("no such queue"),
        TopicIllegal("bad"),
        MessageTooLarge("long"),
        TimerNotEnabled("no timer"),
        *(StoreErrorWith(code) for code in (13, 29, 215)),
    ],
    ids=repr,
)
def test_other_answers_are_raised(producer_of: MakeProducer, message: Message, error: StoreError) -> None:
    """Row MQBrokerException, not of the set: thrown as it is, after one attempt."""
    broker = AnsweringBroker("broker-a", error)
    with pytest.raises(type(error)) as caught:
        warm(producer_of(broker)).send(message)
    assert caught.value is error
    assert len(broker.sent) == 1


def test_retry_codes_may_be_set(producer_of: MakeProducer) -> None:
    """Setting retry_response_codes: others than RocketMQ's."""
    broker = AnsweringBroker("broker-a", StoreErrorWith(215))
    assert producer_of(broker, retry_response_codes=frozenset({215})).send(ORDER).queue_offset == 2


@both_ways
@pytest.mark.parametrize("retries", [0, 1, 2, 5])
def test_the_number_of_attempts(producer_of: MakeProducer, message: Message, retries: int) -> None:
    """Row attempts: 1 + retryTimesWhenSendFailed. Row at the end: "Send [n] times, still failed"."""
    broker = AnsweringBroker("broker-a", *[FULL] * 9)
    producer = warm(producer_of(broker, retry_times_when_send_failed=retries))
    with pytest.raises(SendFailed, match=f"sent {retries + 1} times to topic 'orders'") as caught:
        producer.send(message)
    assert len(broker.sent) == retries + 1
    assert caught.value.brokers_sent == ("broker-a",) * (retries + 1)
    assert caught.value.errors == (FULL,) * (retries + 1)
    assert caught.value.__cause__ is FULL


@both_ways
def test_all_attempts_carry_one_unique_key(producer_of: MakeProducer, message: Message) -> None:
    """Row UNIQ_KEY: set at the first attempt, kept by the others."""
    broker = AnsweringBroker("broker-a", FULL, FULL)
    result = warm(producer_of(broker)).send(message)
    assert unique_keys(broker) == [result.msg_id] * 3


def test_a_unique_key_that_is_there_is_kept(producer_of: MakeProducer) -> None:
    """Row UNIQ_KEY: set if missing."""
    broker = AnsweringBroker()
    result = producer_of(broker).send(Message("orders", b"x", properties={"UNIQ_KEY": "mine"}))
    assert (result.msg_id, unique_keys(broker)) == ("mine", ["mine"])


@both_ways
def test_a_result_that_is_not_ok(producer_of: MakeProducer, message: Message) -> None:
    """Row other SendStatus: returned; with retryAnotherBrokerWhenNotStoreOK the next attempt."""
    broker = AnsweringBroker("broker-a", DISK_TIMEOUT)
    assert warm(producer_of(broker)).send(message).send_status is SendStatus.FLUSH_DISK_TIMEOUT
    broker = AnsweringBroker("broker-a", DISK_TIMEOUT)
    producer = warm(producer_of(broker, retry_another_broker_when_not_store_ok=True))
    assert producer.send(message).send_status is SendStatus.SEND_OK
    assert len(set(unique_keys(broker))) == 1


@both_ways
@pytest.mark.parametrize(
    "later", [[FULL, FULL], [QueueIllegal("none")], [DISK_TIMEOUT, FULL], [Took(4_000, FULL)]], ids=repr
)
def test_an_earlier_result_wins(
    producer_of: MakeProducer, seconds: ManualSeconds, message: Message, later: list[Any]
) -> None:
    """Row at the end: an earlier SendResult beats an error that is final, exhausted attempts and a
    time-out."""
    broker = AnsweringBroker("broker-a", DISK_TIMEOUT, *later, seconds=seconds)
    producer = warm(producer_of(broker, retry_another_broker_when_not_store_ok=True))
    assert producer.send(message).send_status is SendStatus.FLUSH_DISK_TIMEOUT


@both_ways
def test_an_interrupt_is_raised_at_once(producer_of: MakeProducer, message: Message) -> None:
    """Row InterruptedException: throw."""
    broker = AnsweringBroker("broker-a", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        warm(producer_of(broker)).send(message)
    assert len(broker.sent) == 1


@both_ways
@pytest.mark.parametrize("error", [TypeError("a bug"), KeyError("a bug"), AttributeError("a bug")], ids=repr)
def test_what_is_no_error_of_ours_is_raised_at_once(
    producer_of: MakeProducer, message: Message, error: Exception
) -> None:
    """A bug of a broker is not tried again, and not taken for one of the message."""
    broker = AnsweringBroker("broker-a", error)
    with pytest.raises(type(error)) as caught:
        warm(producer_of(broker)).send(message)
    assert caught.value is error
    assert len(broker.sent) == 1


# -- the budget of time -----------------------------------------------------------------------------


@both_ways
def test_the_budget_is_shared(producer_of: MakeProducer, seconds: ManualSeconds, message: Message) -> None:
    """Row time for an attempt: timeout - cost, so each attempt has what the ones before have left."""
    broker = AnsweringBroker("broker-a", Took(1_000, FULL), Took(500, FULL), seconds=seconds)
    warm(producer_of(broker)).send(message)
    assert broker.timeouts == [3_000, 2_000, 1_500]


@both_ways
def test_one_attempt_that_times_out_leaves_none(
    producer_of: MakeProducer, seconds: ManualSeconds, message: Message
) -> None:
    """Rows before each, and time-out beats an earlier exception: that is its cause."""
    error = BrokerTimedOut("broker-a", 3_000)
    broker = AnsweringBroker("broker-a", Took(3_001, error), seconds=seconds)
    with pytest.raises(SendTimedOut, match="had 3000 ms, and after 3001 ms") as caught:
        warm(producer_of(broker)).send(message)
    assert caught.value.__cause__ is error
    assert isinstance(caught.value, TimeoutError)
    assert len(broker.sent) == 1


def test_the_budget_is_over_only_when_it_is_exceeded(
    producer_of: MakeProducer, seconds: ManualSeconds
) -> None:
    """Row before each: at equality there is one more attempt, with no time."""
    broker = AnsweringBroker("broker-a", Took(3_000, FULL), seconds=seconds)
    producer_of(broker).send(ORDER)
    assert broker.timeouts == [3_000, 0]


@both_ways
def test_most_time_for_one_attempt(
    producer_of: MakeProducer, seconds: ManualSeconds, message: Message
) -> None:
    """Row sendMsgMaxTimeoutPerRequest: at most that while another attempt is left; the last has all the
    rest."""
    broker = AnsweringBroker("broker-a", Took(800, FULL), Took(100, FULL), seconds=seconds)
    producer = warm(producer_of(broker, send_msg_max_timeout_per_request=800))
    producer.send(message)
    assert broker.timeouts == [800, 800, 2_100]


@both_ways
def test_the_time_may_be_given_with_the_send(
    producer_of: MakeProducer, seconds: ManualSeconds, message: Message
) -> None:
    """Setting sendMsgTimeout, and `timeout_ms` instead of it; a negative one is a mistake."""
    broker = AnsweringBroker("broker-a", Took(60, FULL), seconds=seconds)
    producer = warm(producer_of(broker, send_msg_timeout=100))
    producer.send(message)
    producer.send(message, timeout_ms=7)
    assert broker.timeouts == [100, 40, 7]
    with pytest.raises(ValueError, match="timeout_ms is -1"):
        producer.send(message, timeout_ms=-1)


def test_the_look_up_of_the_route_counts(producer_of: MakeProducer, seconds: ManualSeconds) -> None:
    """Row t0: taken before the route is looked up."""

    class Slow(AnsweringBroker):
        def topic_route(self, topic: str) -> Any:
            seconds.advance(1)
            return super().topic_route(topic)

    broker = Slow("broker-a", seconds=seconds)
    producer = producer_of(broker)
    producer.send(ORDER)
    producer.send(ORDER)
    assert broker.timeouts == [2_000, 3_000]


def test_the_time_of_preparing_counts(
    producer_of: MakeProducer, seconds: ManualSeconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows during an attempt, and errors that end the loop: over the time already, no broker is asked."""
    broker = AnsweringBroker("broker-a", seconds=seconds)
    producer = producer_of(broker)
    compress = producer._parts.compression._compress

    def slowly(body: bytes, level: int) -> bytes:
        seconds.advance(4)
        return compress(body, level)

    monkeypatch.setattr(producer._parts.compression, "_compress", slowly)
    with pytest.raises(SendTimedOut):
        producer.send(Message("orders", bytes(5_000)))
    assert not broker.sent


# -- the end ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FULL, ResponseCode.SERVICE_NOT_AVAILABLE),
        (TopicNotExist("orders"), ResponseCode.TOPIC_NOT_EXIST),
        (StoreErrorWith(1500), 1500),
        (BrokerNotConnected("broker-a", "refused"), ClientErrorCode.CONNECT_BROKER_EXCEPTION),
        (BrokerTimedOut("broker-a", 1), ClientErrorCode.ACCESS_BROKER_TIMEOUT),
        (BrokerNotExist("broker-a", ["b"]), ClientErrorCode.BROKER_NOT_EXIST_EXCEPTION),
        (SendTimedOut("orders", 1, 2), None),
    ],
    ids=repr,
)
def test_the_code_of_the_last_error(producer_of: MakeProducer, error: StoreError, code: int | None) -> None:
    """Row at the end: the code of the broker's answer, 10001 no connection, 10002 time-out, 10003 other."""
    broker = AnsweringBroker("broker-a", FULL, FULL, error)
    with pytest.raises(SendFailed) as caught:
        producer_of(broker).send(ORDER)
    assert caught.value.code == code


@both_ways
def test_no_route_at_all(producer_of: MakeProducer, message: Message) -> None:
    """Row route: none at all is code 10005."""
    with pytest.raises(TopicRouteNotFound, match="no broker of 'broker-a' takes messages") as caught:
        producer_of(AnsweringBroker(topics={})).send(message)
    assert caught.value.code == ClientErrorCode.NOT_FOUND_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("CONNECT_BROKER_EXCEPTION", 10001),
        ("ACCESS_BROKER_TIMEOUT", 10002),
        ("BROKER_NOT_EXIST_EXCEPTION", 10003),
        ("NO_NAME_SERVER_EXCEPTION", 10004),
        ("NOT_FOUND_TOPIC_EXCEPTION", 10005),
        ("REQUEST_TIMEOUT_EXCEPTION", 10006),
        ("CREATE_REPLY_MESSAGE_EXCEPTION", 10007),
    ],
)
def test_the_codes_of_the_client(name: str, number: int) -> None:
    """The sentence "Codes of the client"."""
    assert ClientErrorCode[name] == number


def test_a_queue_that_is_gone_is_forgotten(producer_of: MakeProducer) -> None:
    """An answer that the route is wrong: the next send asks for it anew."""
    broker = AnsweringBroker("broker-a", QueueIllegal("none"))
    producer = producer_of(broker)
    with pytest.raises(QueueIllegal):
        producer.send(ORDER)
    producer.send(ORDER)
    assert broker.asked_routes == ["orders", "orders"]
