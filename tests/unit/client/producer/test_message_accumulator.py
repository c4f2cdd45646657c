"""The message accumulator: what goes together, when, and what each caller gets.

Row accumulator of docs/spec/client_produce.md section 5. Groups are made full, or old by the test's
seconds; where a SYNC group must become old by itself, that takes a millisecond.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message
from mqstore.broker.broker import MessageQueue
from mqstore.client.errors import ClientError
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.send_result import SendResult
from mqstore.store.errors import MessageIllegal, MessageTooLarge, QueueIllegal, StoreFull
from support.clients.answering_broker import AnsweringBroker
from support.manual_seconds import ManualSeconds

MakeProducer = Callable[..., Producer]
FULL = StoreFull(Path("/full"), 1, "no room")
QUEUE = MessageQueue("orders", "broker-a", 1)
# Nothing becomes old by itself.
LONG: dict[str, Any] = {"auto_batch": True, "batch_max_delay_ms": 30_000, "batch_max_bytes": 100}


def order(size: int = 30, **fields: Any) -> Message:
    return Message("orders", bytes(size), **fields)


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.001)


def waiting(producer: Producer) -> int:
    """How many messages wait in groups."""
    accumulator = producer._accumulator
    assert accumulator is not None
    groups = (*accumulator._groups.values(), *accumulator._async_groups.values())
    return sum(len(group.messages) for group in groups)


def send_together(producer: Producer, *messages: Message, **options: Any) -> list[Any]:
    """Send them from threads of their own, one after the other; the results or errors."""

    def send(message: Message) -> SendResult | Exception:
        try:
            return producer.send(message, **options)
        except Exception as error:  # noqa: BLE001 - the tests look at it
            return error

    with ThreadPoolExecutor(len(messages)) as pool:
        futures = []
        for number, message in enumerate(messages):
            futures.append(pool.submit(send, message))
            wait_for(lambda number=number: waiting(producer) > number or futures[-1].done())  # type: ignore[misc]
            if futures[-1].done():
                break
        return [future.result(60) for future in futures]


def test_a_group_is_sent_when_it_is_full(producer_of: MakeProducer) -> None:
    """Row accumulator: sends when over 32 KiB (here 100 bytes); each SYNC caller gets its part."""
    broker = AnsweringBroker()
    results = send_together(producer_of(broker, **LONG), *[order() for _ in range(4)])
    assert len(broker.timeouts) == 1
    assert [message.properties["UNIQ_KEY"] for message in broker.sent] == [each.msg_id for each in results]
    assert len({each.message_queue for each in results}) == 1
    assert len({each.offset_msg_id for each in results}) == 1, "the scripted broker says the same of all"


def test_a_group_is_sent_when_it_is_full_and_not_before(producer_of: MakeProducer) -> None:
    """Exactly the limit is not over it."""
    broker = AnsweringBroker()
    producer = producer_of(broker, **LONG)
    futures = [producer.send_async(order(50)) for _ in range(2)]
    assert (waiting(producer), broker.sent) == (2, [])
    producer.send_async(order(1)).result(60)
    assert all(future.result(60) for future in futures)


def test_a_group_is_sent_when_it_is_old(producer_of: MakeProducer) -> None:
    """10 ms old (here 1), by the SYNC caller that began it."""
    broker = AnsweringBroker()
    producer = producer_of(broker, auto_batch=True, batch_max_delay_ms=1)
    assert producer.send(order()).msg_id == broker.sent[0].properties["UNIQ_KEY"]
    assert waiting(producer) == 0


def test_an_asynchronous_group_is_sent_when_it_is_old(
    producer_of: MakeProducer, seconds: ManualSeconds
) -> None:
    """10 ms old, by a thread that looks every half of that."""
    broker = AnsweringBroker()
    producer = producer_of(broker, **LONG)
    accumulator = producer._accumulator
    assert accumulator is not None
    futures = [producer.send_async(order()) for _ in range(2)]
    seconds.advance(29.999)
    accumulator.send_old()
    assert waiting(producer) == 2
    seconds.advance(0.001)
    accumulator.send_old()
    assert [future.result(60).msg_id for future in futures] == [
        message.properties["UNIQ_KEY"] for message in broker.sent
    ]
    assert len(broker.timeouts) == 1


def test_the_thread_sends_what_is_old(producer_of: MakeProducer, seconds: ManualSeconds) -> None:
    """It is started by the first asynchronous send, and ended by the close."""
    producer = producer_of(AnsweringBroker(), **LONG)
    accumulator = producer._accumulator
    assert accumulator is not None
    assert accumulator._service._thread is None
    future = producer.send_async(order())
    seconds.advance(30)
    accumulator._service.wake()
    assert future.result(60)
    thread = accumulator._service._thread
    producer.close()
    assert thread is not None
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "other",
    [
        {"topic": "invoices"},
        {"tags": "b"},
        {"wait_store_msg_ok": False},
        {"queue": QUEUE},
    ],
    ids=repr,
)
def test_what_is_grouped(producer_of: MakeProducer, other: dict[str, Any]) -> None:
    """Groups by topic, queue, wait flag, tags."""
    broker = AnsweringBroker(topics={"orders": 4, "invoices": 4})
    producer = producer_of(broker, **LONG)
    queue = other.pop("queue", None)
    same = [producer.send_async(order(40, tags="a")) for _ in range(2)]
    different = producer.send_async(
        Message(**{"topic": "orders", "body": bytes(90), "tags": "a"} | other), queue=queue
    )
    assert waiting(producer) == 3
    same.append(producer.send_async(order(40, tags="a")))
    assert [future.result(60) for future in same]
    assert not different.done()
    producer.close()
    assert different.result(60).message_queue == (queue or different.result().message_queue)


@pytest.mark.parametrize(
    "message",
    [
        order(delay_level=1),
        order(properties={"TIMER_DELAY_SEC": "1"}),
        order(properties={"PGROUP": "billing"}),
        Message("%RETRY%billing", b"again"),
        order(101),
    ],
    ids=repr,
)
def test_what_goes_alone(producer_of: MakeProducer, message: Message) -> None:
    """Alone: any delay, a retry topic, the property PGROUP; and what would fill a batch by itself."""
    broker = AnsweringBroker(topics={"orders": 4, "%RETRY%billing": 1})
    producer = producer_of(broker, **LONG)
    assert producer.send(message).put
    assert producer.send_async(message).result(60).put
    assert len(broker.sent) == 2


def test_all_groups_together_have_a_limit(producer_of: MakeProducer) -> None:
    """All groups together hold at most 32 MiB (here 90 bytes), beyond that a message goes alone."""
    broker = AnsweringBroker()
    producer = producer_of(broker, **LONG, total_batch_max_bytes=90)
    grouped = [producer.send_async(order(45, tags=tag)) for tag in "ab"]
    assert producer.send_async(order(tags="c")).result(60)
    assert (waiting(producer), len(broker.sent)) == (2, 1)
    producer.close()
    assert all(future.result(60) for future in grouped)
    assert producer._accumulator is not None
    assert producer._accumulator._total_bytes == 0


def test_a_send_with_a_time_or_a_selector_goes_alone(producer_of: MakeProducer) -> None:
    """As in RocketMQ: these ways know no accumulator."""
    broker = AnsweringBroker()
    producer = producer_of(broker, **LONG)
    producer.send(order(), timeout_ms=7)
    producer.send(order(), selector=lambda queues, message, arg: queues[0])
    assert broker.timeouts == [7, 3_000]


def test_a_named_queue_is_kept(producer_of: MakeProducer) -> None:
    """A group to a queue goes to it."""
    broker = AnsweringBroker()
    producer = producer_of(broker, auto_batch=True, batch_max_delay_ms=1)
    assert producer.send(order(), queue=QUEUE).message_queue == QUEUE
    with pytest.raises(QueueIllegal):
        producer.send(order(), queue=MessageQueue("invoices", "broker-a", 0))


def test_every_caller_gets_the_error(producer_of: MakeProducer) -> None:
    """SYNC and asynchronous: what the send of the group raises; then nothing waits any more."""
    broker = AnsweringBroker("broker-a", *[FULL] * 9)
    producer = producer_of(broker, **LONG)
    results = send_together(producer, *[order(40) for _ in range(3)], queue=QUEUE)
    assert results == [FULL] * 3
    futures = [producer.send_async(order(40)) for _ in range(3)]
    assert [future.exception(60) for future in futures] == [FULL] * 3
    assert producer._accumulator is not None
    assert producer._accumulator._total_bytes == 0


@pytest.mark.parametrize(("message", "error"), [(order(0), MessageIllegal), (None, MessageIllegal)])
def test_what_is_wrong_with_one_disturbs_no_other(
    producer_of: MakeProducer, message: Any, error: type[Exception]
) -> None:
    """It is found before the message joins a group."""
    producer = producer_of(AnsweringBroker(), **LONG, max_message_size=101)
    future = producer.send_async(order())
    with pytest.raises(error):
        producer.send(message)
    assert isinstance(producer.send_async(message).exception(60), error)
    with pytest.raises(MessageTooLarge):
        producer.send(order(102))
    producer.close()
    assert future.exception(60) is not None or future.result(60)


def test_an_interrupt_of_the_sender_ends_the_others(producer_of: MakeProducer) -> None:
    """It is raised where it came; the others get an error instead of waiting for ever."""
    broker = AnsweringBroker("broker-a", KeyboardInterrupt())
    producer = producer_of(broker, **LONG)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(producer.send, order(60))
        wait_for(lambda: waiting(producer) == 1)
        with pytest.raises(KeyboardInterrupt):
            producer.send(order(60))
        assert isinstance(other.exception(60), ClientError)


def test_the_close_sends_what_waits(producer_of: MakeProducer) -> None:
    """And then a send is refused, as without an accumulator."""
    broker = AnsweringBroker()
    producer = producer_of(broker, **LONG)
    future = producer.send_async(order())
    producer.close()
    assert future.result(60)
    with pytest.raises(ClientError, match="was closed"):
        producer.send(order())
    with pytest.raises(ClientError, match="was closed"):
        producer.send_async(order())
