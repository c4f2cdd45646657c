"""One asynchronous send, from its first attempt to the end: rows of docs/spec/client_produce.md section 4.

Brokers are scripted, and time passes when they say so. Futures end the test's waits.
"""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore import Message
from mqstore.broker.broker import MessageQueue
from mqstore.client.errors import (
    BatchIllegal,
    BrokerNotConnected,
    BrokerNotExist,
    BrokerTimedOut,
    SendTimedOut,
    TopicRouteNotFound,
)
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.send_result import SendStatus
from mqstore.client.producer.sends.send_hooks import CommunicationMode, SendMessageContext
from mqstore.store.errors import (
    MessageIllegal,
    QueueIllegal,
    StoreClosed,
    StoreError,
    StoreFull,
    StorePoisoned,
    TopicNotExist,
)
from mqstore.store.status import PutMessageStatus
from support.clients.answering_broker import AnsweringBroker, StoreErrorWith, Took
from support.manual_seconds import ManualSeconds

MakeProducer = Callable[..., Producer]
FULL = StoreFull(Path("/full"), 1, "no room")
ORDER = Message("orders", b"body")
QUEUE = MessageQueue("orders", "broker-a", 3)
COULD_NOT_SEND = [
    FULL,
    StorePoisoned(Path("/p"), OSError("EIO")),
    StoreClosed(Path("/c")),
    BrokerNotConnected("broker-a", "refused"),
    BrokerTimedOut("broker-a", 10),
    RuntimeError("a bug of the broker"),
]
ANSWERS = [
    *(StoreErrorWith(code) for code in (1, 2, 13, 14, 16, 17, 204, 205, 1500)),
    TopicNotExist("orders"),
    QueueIllegal("none"),
    SendTimedOut("orders", 1, 2),
]


def unique_keys(broker: AnsweringBroker) -> list[str]:
    return [message.properties["UNIQ_KEY"] for message in broker.sent]


def test_the_result_of_a_send(producer_of: MakeProducer) -> None:
    """Row callbacks, onSuccess: the same result as of a SYNC send."""
    broker = AnsweringBroker()
    result = producer_of(broker).send_async(ORDER).result(60)
    assert (result.send_status, result.msg_id) == (SendStatus.SEND_OK, *unique_keys(broker))
    assert result.message_queue == ("orders", "broker-a", broker.sent[0].queue_id)


@pytest.mark.parametrize("status", [PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT])
def test_an_answer_that_comes_later(producer_of: MakeProducer, status: PutMessageStatus) -> None:
    """Row not retried: an answer of 0, 10, 11, 12 is a result."""
    broker = AnsweringBroker()
    broker.is_slow = True
    future = producer_of(broker, retry_another_broker_when_not_store_ok=True).send_async(ORDER)
    broker.wait_for_futures(1)
    assert not future.done()
    broker.store_late(0, status)
    assert future.result(60).put.status is status


@pytest.mark.parametrize("error", COULD_NOT_SEND, ids=repr)
@pytest.mark.parametrize("is_slow", [False, True], ids=["at hand-over", "later"])
def test_what_could_not_be_sent_is_tried_again(
    producer_of: MakeProducer, error: Exception, is_slow: bool
) -> None:
    """Row retried: could not send, no response, unknown, an exception while handing over: while attempts <=
    2."""
    broker = AnsweringBroker("broker-a", *([] if is_slow else [error] * 3))
    broker.is_slow = is_slow
    future = producer_of(broker).send_async(ORDER)
    if is_slow:
        for number in range(3):
            broker.wait_for_futures(number + 1)
            broker.futures[number].set_exception(error)
    assert future.exception(60) is error
    assert len(set(unique_keys(broker))) == 1
    assert len(broker.sent) == 3


@pytest.mark.parametrize("error", ANSWERS, ids=repr)
@pytest.mark.parametrize("is_slow", [False, True], ids=["at hand-over", "later"])
def test_an_answer_is_final(producer_of: MakeProducer, error: StoreError, is_slow: bool) -> None:
    """Row not retried: any answer of the broker other than 0, 10, 11, 12; too-much-request."""
    broker = AnsweringBroker("broker-a", *([] if is_slow else [error]))
    broker.is_slow = is_slow
    future = producer_of(broker).send_async(ORDER)
    if is_slow:
        broker.wait_for_futures(1)
        broker.futures[0].set_exception(error)
    assert future.exception(60) is error
    assert len(broker.sent) == 1


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_the_number_of_attempts(producer_of: MakeProducer, retries: int) -> None:
    """Row retried: while attempts <= retryTimesWhenSendAsyncFailed."""
    broker = AnsweringBroker("broker-a", *[FULL] * 9)
    future = producer_of(broker, retry_times_when_send_async_failed=retries).send_async(ORDER)
    assert future.exception(60) is FULL
    assert len(broker.sent) == retries + 1


def test_no_attempt_without_time(producer_of: MakeProducer, seconds: ManualSeconds) -> None:
    """Row retried: and time is left (timeout - what it has cost)."""
    broker = AnsweringBroker("broker-a", Took(2_999, FULL), Took(1, FULL), seconds=seconds)
    assert producer_of(broker).send_async(ORDER).exception(60) is FULL
    assert len(broker.sent) == 2


def test_another_broker_is_chosen_and_the_queue_id_stays(producer_of: MakeProducer) -> None:
    """Row other broker: one choice away from the last broker; the request (queue id too) stays the same."""
    a, b = AnsweringBroker("a"), AnsweringBroker("b")
    producer = producer_of(a, b)
    for _ in range(16):
        before = len(a.sent), len(b.sent)
        a.answers, b.answers = [FULL], [FULL]
        result = producer.send_async(ORDER).result(60)
        assert result.message_queue.queue_id == a.sent[-1].queue_id == b.sent[-1].queue_id
        assert (len(a.sent) + len(b.sent)) - sum(before) == 3


def test_a_broker_without_that_queue_gets_one_it_has(producer_of: MakeProducer) -> None:
    """Row other broker: where topics differ from broker to broker, the queue of the choice."""
    a, b = AnsweringBroker("a", *[FULL] * 3, topics={"orders": 9}), AnsweringBroker("b", topics={"orders": 1})
    producer = producer_of(a, b)
    for _ in range(3):
        assert producer.send_async(ORDER).result(60).message_queue == ("orders", "b", 0)


def test_a_chosen_queue_is_tried_again_at_the_same_broker(producer_of: MakeProducer) -> None:
    """Section 1, "ASYNC does retry there": up to the limit, always on the same broker."""
    a, b = AnsweringBroker("broker-a", FULL, FULL), AnsweringBroker("broker-b")
    for way in ({"queue": QUEUE}, {"selector": lambda queues, message, arg: queues[arg], "arg": 3}):
        a.answers = [FULL, FULL]
        assert producer_of(a, b).send_async(ORDER, **way).result(60).message_queue == QUEUE  # type: ignore[arg-type]
    assert (len(a.sent), len(b.sent)) == (6, 0)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message("orders", b""), MessageIllegal),
        (None, MessageIllegal),
        (Message("elsewhere", b"x"), TopicRouteNotFound),
    ],
)
def test_its_own_errors_are_in_the_future(
    producer_of: MakeProducer, message: Message, error: type[StoreError]
) -> None:
    """Row loop: one pass of section 2; its own exceptions go to onException, and none is tried again."""
    broker = AnsweringBroker()
    with pytest.raises(error):
        producer_of(broker).send_async(message).result(60)
    assert not broker.sent


def test_a_broker_that_is_not_there(producer_of: MakeProducer) -> None:
    """Row loop: "broker not exist" of section 2."""
    future = producer_of(AnsweringBroker()).send_async(ORDER, queue=MessageQueue("orders", "x", 0))
    assert isinstance(future.exception(60), BrokerNotExist)


def test_waiting_for_a_thread_counts(producer_of: MakeProducer, seconds: ManualSeconds) -> None:
    """Row waiting time in the queue: over the timeout: onException with a too-much-request error."""
    broker = AnsweringBroker(seconds=seconds)
    producer = producer_of(broker, async_sender_threads=1)
    gate = broker.hold()
    first = producer.send_async(ORDER)
    gate.begun.wait(60)
    second = producer.send_async(ORDER)
    seconds.advance(3)
    gate.opens.set()
    assert first.exception(60) is None
    assert isinstance(second.exception(60), SendTimedOut)
    assert len(broker.sent) == 1


def test_a_broker_that_does_not_answer(producer_of: MakeProducer, seconds: ManualSeconds) -> None:
    """Row retried, response timed out: all of the time is used up, so it is the end; a late answer is not
    heard."""
    broker = AnsweringBroker(seconds=seconds)
    broker.is_slow = True
    producer = producer_of(broker)
    future = producer.send_async(ORDER)
    broker.wait_for_futures(1)
    seconds.advance(2.999)
    producer._async_sends.expire_once()
    assert not future.done()
    seconds.advance(0.001)
    producer._async_sends.expire_once()
    assert isinstance(future.exception(60), BrokerTimedOut)
    broker.store_late(0)
    assert len(broker.sent) == 1


def test_hooks_run_before_the_future_is_done(producer_of: MakeProducer) -> None:
    """Row callbacks: send hooks run before them; once for all attempts, with what came of the last."""
    broker = AnsweringBroker("broker-a", FULL)
    producer = producer_of(broker)
    seen: list[object] = []

    class Hook:
        def send_message_before(self, context: SendMessageContext) -> None:
            seen.append(context.communication_mode)

        def send_message_after(self, context: SendMessageContext) -> None:
            seen.append(type(context.exception or context.send_result).__name__)

    producer.register_send_message_hook(Hook())
    future = producer.send_async(ORDER)
    seen_done = threading.Event()

    def see(_: object) -> None:
        seen.append("done")
        seen_done.set()

    future.add_done_callback(see)
    # `result` may return a moment before the callback is called.
    assert seen_done.wait(60)
    broker.answers = [QueueIllegal("none")]
    producer.send_async(ORDER).exception(60)
    producer.close()
    mode = CommunicationMode.ASYNC
    assert seen == [mode, "SendResult", "done", mode, "QueueIllegal"]


def test_what_a_callback_raises_is_dropped(
    producer_of: MakeProducer, caplog: pytest.LogCaptureFixture
) -> None:
    """Row callbacks: what they throw is dropped; the next send is not disturbed."""
    producer = producer_of(AnsweringBroker(), async_sender_threads=1)
    gate_future = producer.send_async(ORDER)
    gate_future.add_done_callback(lambda done: 1 // 0)
    gate_future.result(60)
    assert producer.send_async(ORDER).result(60).send_status is SendStatus.SEND_OK


@pytest.mark.parametrize(
    ("error", "is_slow", "is_isolated", "is_reachable"),
    [
        (None, False, False, True),
        (FULL, False, True, False),
        (FULL, True, True, True),
        (QueueIllegal("none"), True, True, True),
    ],
    ids=repr,
)
def test_attempts_tell_the_fault_strategy(
    producer_of: MakeProducer, error: StoreError | None, is_slow: bool, is_isolated: bool, is_reachable: bool
) -> None:
    """MQClientAPIImpl#sendMessageAsync: ok (no, yes); an answer (yes, yes); while handing over (yes, no)."""
    broker = AnsweringBroker("broker-a", *([error] if error and not is_slow else []))
    broker.is_slow = is_slow
    producer = producer_of(broker, send_latency_enable=True, retry_times_when_send_async_failed=0)
    future = producer.send_async(ORDER)
    if is_slow:
        broker.wait_for_futures(1)
        broker.futures[0].set_exception(error)
    assert future.exception(60) is error
    faults = producer._parts.faults
    assert faults.is_available("broker-a") is not is_isolated
    assert faults.is_reachable("broker-a") is is_reachable


def test_a_queue_that_is_gone_is_forgotten(producer_of: MakeProducer) -> None:
    """As after a SYNC send."""
    broker = AnsweringBroker("broker-a", QueueIllegal("none"))
    producer = producer_of(broker)
    producer.send_async(ORDER).exception(60)
    producer.send_async(ORDER).result(60)
    assert broker.asked_routes == ["orders", "orders"]


def test_a_batch_without_waiting(producer_of: MakeProducer) -> None:
    """The same result as of `send_batch`; tried again like a single message; its own errors in the future."""
    broker = AnsweringBroker("broker-a", FULL)
    producer = producer_of(broker)
    result = producer.send_batch_async([ORDER, ORDER]).result(60)
    assert result.msg_id == ",".join(unique_keys(broker)[2:])
    assert unique_keys(broker)[:2] == unique_keys(broker)[2:]
    assert producer.send_batch_async([ORDER], queue=QUEUE).result(60).message_queue == QUEUE
    for messages in ([], [ORDER, Message("invoices", b"x")]):
        assert isinstance(producer.send_batch_async(messages).exception(60), BatchIllegal)
