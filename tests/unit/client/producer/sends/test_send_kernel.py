"""One attempt at one queue: sends to a queue that is named or selected, and a broker that is not there.

Rows of docs/spec/client_produce.md sections 1 to 3. Brokers are scripted.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message
from mqstore.broker.broker import MessageQueue
from mqstore.client.errors import (
    BrokerNotConnected,
    BrokerNotExist,
    ClientErrorCode,
    QueueNotSelected,
    SendFailed,
    SendTimedOut,
    TopicRouteNotFound,
)
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.queues.queue_selector import select_message_queue_by_hash
from mqstore.client.producer.send_result import SendStatus
from mqstore.client.producer.sends.send_hooks import CommunicationMode, SendMessageContext
from mqstore.store.errors import MessageIllegal, QueueIllegal, StoreFull
from mqstore.store.status import PutMessageStatus
from support.clients.answering_broker import AnsweringBroker, Took
from support.manual_seconds import ManualSeconds

MakeProducer = Callable[..., Producer]
ORDER = Message("orders", b"body", properties={"color": "red"})
FULL = StoreFull(Path("/full"), 1, "no room")
QUEUE = MessageQueue("orders", "broker-a", 3)


def select_last(queues: Sequence[MessageQueue], message: Message, arg: object) -> MessageQueue:
    return queues[-1]


def test_a_named_queue_is_used(producer_of: MakeProducer) -> None:
    """The queue counts, not `queue_id` of the message, which is not changed."""
    broker = AnsweringBroker()
    result = producer_of(broker).send(ORDER, queue=QUEUE)
    assert result.message_queue == QUEUE
    assert [message.queue_id for message in broker.sent] == [3]
    assert (ORDER.queue_id, ORDER.properties) == (0, {"color": "red"})


@pytest.mark.parametrize("way", [{"queue": QUEUE}, {"selector": select_last}], ids=["queue", "selector"])
def test_no_retry_at_a_chosen_queue(producer_of: MakeProducer, way: dict[str, Any]) -> None:
    """Row explicit queue or selector: no retry (SYNC); the broker's own error, after one attempt."""
    a, b = AnsweringBroker("broker-a", FULL), AnsweringBroker("broker-b", FULL)
    with pytest.raises(StoreFull):
        producer_of(a, b).send(ORDER, **way)
    assert len(a.sent) + len(b.sent) == 1


def test_a_result_that_is_not_ok_is_returned_from_a_chosen_queue(producer_of: MakeProducer) -> None:
    """retryAnotherBrokerWhenNotStoreOK is for sends in turn."""
    broker = AnsweringBroker("broker-a", PutMessageStatus.FLUSH_DISK_TIMEOUT)
    producer = producer_of(broker, retry_another_broker_when_not_store_ok=True)
    assert producer.send(ORDER, queue=QUEUE).send_status is SendStatus.FLUSH_DISK_TIMEOUT


def test_a_queue_of_another_topic_is_refused(producer_of: MakeProducer) -> None:
    """Named or selected."""
    broker = AnsweringBroker()
    other = MessageQueue("invoices", "broker-a", 0)
    for way in ({"queue": other}, {"selector": lambda queues, message, arg: other}):
        with pytest.raises(QueueIllegal, match="is to topic 'orders', but"):
            producer_of(broker).send(ORDER, **way)  # type: ignore[arg-type]
    assert not broker.sent


def test_what_no_broker_would_take_is_refused_there_too(producer_of: MakeProducer) -> None:
    """The checks are the same for every way to send."""
    with pytest.raises(MessageIllegal, match="the body is empty"):
        producer_of(AnsweringBroker()).send(Message("orders", b""), queue=QUEUE)


def test_a_queue_and_a_selector_are_one_too_many(producer_of: MakeProducer) -> None:
    """A mistake of the program."""
    with pytest.raises(ValueError, match="not both"):
        producer_of(AnsweringBroker()).send(ORDER, queue=QUEUE, selector=select_last)


def test_a_selector_chooses_from_all_queues(producer_of: MakeProducer) -> None:
    """It gets the queues of the topic, the message and the argument."""
    a, b = AnsweringBroker("a", topics={"orders": 2}), AnsweringBroker("b", topics={"orders": 3})
    result = producer_of(a, b).send(ORDER, selector=select_message_queue_by_hash, arg=9)
    assert result.message_queue == MessageQueue("orders", "b", 2)


def test_a_selector_gets_a_copy(producer_of: MakeProducer) -> None:
    """Row selector: it gets a copy of the message."""
    broker = AnsweringBroker()

    def spoil(queues: Sequence[MessageQueue], message: Message, arg: object) -> MessageQueue:
        assert message == ORDER
        message.properties["color"] = "blue"  # type: ignore[index]
        return queues[0]

    producer_of(broker).send(ORDER, selector=spoil)
    assert broker.sent[0].properties["color"] == "red"


def test_a_selector_that_raises(producer_of: MakeProducer) -> None:
    """Row selector: one that throws is an MQClientException, with what it threw as the cause."""
    with pytest.raises(QueueNotSelected, match="raised ZeroDivisionError") as caught:
        producer_of(AnsweringBroker()).send(ORDER, selector=lambda queues, message, arg: queues[1 // 0])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("answer", [None, 3, ("orders", "broker-a", 3)])
def test_a_selector_that_chooses_nothing(producer_of: MakeProducer, answer: Any) -> None:
    """Row selector: one that returns null is an MQClientException."""
    with pytest.raises(QueueNotSelected, match="which is no MessageQueue"):
        producer_of(AnsweringBroker()).send(ORDER, selector=lambda queues, message, arg: answer)


def test_a_selector_needs_a_route(producer_of: MakeProducer) -> None:
    """Row route: none at all."""
    with pytest.raises(TopicRouteNotFound):
        producer_of(AnsweringBroker(topics={})).send(ORDER, selector=select_last)


def test_a_broker_that_is_not_there(producer_of: MakeProducer) -> None:
    """Row during an attempt: route fetched once more, then "broker not exist"."""
    broker = AnsweringBroker()
    with pytest.raises(BrokerNotExist, match="no broker 'x': this client knows 'broker-a'") as caught:
        producer_of(broker).send(ORDER, queue=MessageQueue("orders", "x", 0))
    assert broker.asked_routes == ["orders"]
    assert caught.value.code == ClientErrorCode.BROKER_NOT_EXIST_EXCEPTION


@pytest.mark.parametrize("message", [ORDER, Message("orders", b"plain")], ids=["with properties", "plain"])
def test_a_broker_that_is_not_there_is_another_attempt(producer_of: MakeProducer, message: Message) -> None:
    """Row during an attempt: an MQClientException, so the next attempt; none is there: 10003."""
    broker = AnsweringBroker()
    producer = producer_of(broker, order_topic_conf={"orders": "x:1;broker-a:1"})
    assert {producer.send(message).message_queue.broker_name for _ in range(4)} == {"broker-a"}
    lost = producer_of(broker, order_topic_conf={"orders": "x:1"})
    with pytest.raises(SendFailed) as caught:
        lost.send(message)
    assert caught.value.code == ClientErrorCode.BROKER_NOT_EXIST_EXCEPTION


def test_the_time_of_choosing_counts(producer_of: MakeProducer, seconds: ManualSeconds) -> None:
    """A selector that takes all the time leaves none, one that takes some leaves the rest."""
    broker = AnsweringBroker(seconds=seconds)

    def slowly(queues: Sequence[MessageQueue], message: Message, duration_s: float) -> MessageQueue:
        seconds.advance(duration_s)
        return queues[0]

    producer_of(broker).send(ORDER, selector=slowly, arg=1)
    assert broker.timeouts == [2_000]
    with pytest.raises(SendTimedOut):
        producer_of(broker).send(ORDER, selector=slowly, arg=4)
    assert len(broker.sent) == 1


def test_the_time_of_a_named_queue(producer_of: MakeProducer, seconds: ManualSeconds) -> None:
    """`timeout_ms` is for the one attempt."""
    broker = AnsweringBroker("broker-a", Took(5), seconds=seconds)
    producer_of(broker).send(ORDER, queue=QUEUE, timeout_ms=77)
    assert broker.timeouts == [77]


# -- one way ------------------------------------------------------------------------------------------


def test_one_way_is_one_pass(producer_of: MakeProducer) -> None:
    """Row ONEWAY: one pass, no answer read; the result is null."""
    broker = AnsweringBroker("broker-a", FULL)
    broker.is_slow = True
    producer = producer_of(broker)
    assert producer.send_oneway(ORDER) is None  # type: ignore[func-returns-value]
    producer.send_oneway(ORDER, queue=QUEUE)
    producer.send_oneway(ORDER, selector=select_last)
    assert [message.queue_id for message in broker.sent[1:]] == [3, 3]
    assert all("UNIQ_KEY" in message.properties for message in broker.sent)


def test_one_way_hears_no_answer(producer_of: MakeProducer) -> None:
    """Row ONEWAY: a broker that refuses is not heard, and not asked again."""
    broker = AnsweringBroker("broker-a", FULL, QueueIllegal("none"))
    producer = producer_of(broker)
    producer.send_oneway(ORDER)
    producer.send_oneway(ORDER)
    assert len(broker.sent) == 2


def test_one_way_says_what_is_wrong_before(producer_of: MakeProducer) -> None:
    """With the message, its route, and the way to the broker."""
    broker = AnsweringBroker("broker-a", BrokerNotConnected("broker-a", "refused"))
    producer = producer_of(broker, send_latency_enable=True)
    with pytest.raises(MessageIllegal):
        producer.send_oneway(Message("orders", b""))
    with pytest.raises(TopicRouteNotFound):
        producer.send_oneway(Message("invoices", b"x"))
    with pytest.raises(BrokerNotConnected):
        producer.send_oneway(ORDER)
    assert not producer._parts.faults.is_available("broker-a")


def test_one_way_has_hooks(producer_of: MakeProducer) -> None:
    """Before and after; there is no result to see."""
    producer = producer_of(AnsweringBroker())
    seen: list[object] = []

    class Hook:
        def send_message_before(self, context: SendMessageContext) -> None:
            seen.append(context.communication_mode)

        def send_message_after(self, context: SendMessageContext) -> None:
            seen.append((context.send_result, context.exception))

    producer.register_send_message_hook(Hook())
    producer.send_oneway(ORDER)
    assert seen == [CommunicationMode.ONEWAY, (None, None)]
