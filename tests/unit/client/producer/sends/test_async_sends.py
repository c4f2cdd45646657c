"""All asynchronous sends of a producer: threads, the limit, back pressure, asyncio, the end.

Rows executor and back pressure of docs/spec/client_produce.md section 4.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.errors import ClientNotRunning, SendRejected, SendTimedOut
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.send_result import SendResult, SendStatus
from mqstore.client.producer.sends.async_sends import AsyncSends
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.status import PutMessageStatus
from support.clients.answering_broker import AnsweringBroker
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds
from support.stores.small_store import SmallStore, messages_of

MakeProducer = Callable[..., Producer]
ORDER = Message("orders", b"body")
BACK_PRESSURE: dict[str, Any] = {"enable_backpressure_for_async_mode": True, "async_sender_threads": 1}


@pytest.fixture
def store(clock: ManualClock) -> Any:
    small = SmallStore(MemoryFileSystem(clock=clock), Path("/store"), clock=clock)
    with small.open(flush_disk_type="SYNC_FLUSH", start=True) as opened:
        yield opened


# -- the executor -----------------------------------------------------------------------------------


def test_as_many_threads_as_processors() -> None:
    """Row executor: as many threads as processors, queue of 50,000."""
    settings = ProducerSettings()
    assert (settings.async_sender_threads, settings.async_sender_queue_capacity) == (os.cpu_count(), 50_000)


def test_beyond_the_queue_a_send_is_rejected(producer_of: MakeProducer) -> None:
    """Row executor: full: MQClientException "executor rejected"."""
    broker = AnsweringBroker()
    producer = producer_of(broker, async_sender_threads=1, async_sender_queue_capacity=2)
    gate = broker.hold()
    futures = [producer.send_async(ORDER)]
    gate.begun.wait(60)
    futures += [producer.send_async(ORDER) for _ in range(2)]
    with pytest.raises(SendRejected, match="2 others wait for a thread") as caught:
        producer.send_async(ORDER)
    assert (caught.value.topic, caught.value.waiting) == ("orders", 2)
    gate.opens.set()
    assert [future.exception(60) for future in futures] == [None] * 3
    assert len(broker.sent) == 3


def test_a_send_can_be_cancelled_until_it_begins(producer_of: MakeProducer) -> None:
    """It is not sent then; later `cancel` says no."""
    broker = AnsweringBroker()
    producer = producer_of(broker, async_sender_threads=1)
    gate = broker.hold()
    first = producer.send_async(ORDER)
    gate.begun.wait(60)
    second = producer.send_async(ORDER)
    assert (first.cancel(), second.cancel()) == (False, True)
    gate.opens.set()
    assert first.result(60).send_status is SendStatus.SEND_OK
    producer.close()
    assert len(broker.sent) == 1


def test_sends_that_wait_are_done_before_the_close_ends(producer_of: MakeProducer) -> None:
    """`close` hands over what was accepted, ends the threads, and then none is accepted."""
    broker = AnsweringBroker()
    producer = producer_of(broker, async_sender_threads=1)
    futures = [producer.send_async(ORDER) for _ in range(50)]
    producer.close()
    assert all(future.done() for future in futures)
    assert not [thread for thread in threading.enumerate() if "producer-" in thread.name]
    with pytest.raises(ClientNotRunning):
        producer.send_async(ORDER)


def test_an_answer_after_the_close_is_heard(producer_of: MakeProducer) -> None:
    """The future ends, although the producer has no thread any more."""
    broker = AnsweringBroker()
    broker.is_slow = True
    producer = producer_of(broker)
    future = producer.send_async(ORDER)
    broker.wait_for_futures(1)
    producer.close()
    broker.store_late(0)
    assert future.result(60).send_status is SendStatus.SEND_OK


def test_no_thread_before_the_first_send(producer_of: MakeProducer) -> None:
    """A producer that sends only in SYNC has none."""
    producer = producer_of(AnsweringBroker())
    producer.send(ORDER)
    assert not [thread for thread in threading.enumerate() if "producer-" in thread.name]


# -- back pressure ----------------------------------------------------------------------------------


def under_way(producer: Producer) -> tuple[int, int]:
    """Permits that are free: messages and bytes."""
    sends: AsyncSends = producer._async_sends
    return sends._number.free, sends._bytes.free


@pytest.mark.parametrize(
    ("number", "size", "least"),
    [(1_024, 100 * 1024 * 1024, (1_024, 104_857_600)), (3, 5, (10, 1_048_576))],
)
def test_the_least_that_may_be_under_way(
    producer_of: MakeProducer, number: int, size: int, least: tuple[int, int]
) -> None:
    """Row back pressure: at most 1,024 messages and 100 MiB in flight (least 10 and 1 MiB)."""
    producer = producer_of(
        AnsweringBroker(), back_pressure_for_async_send_num=number, back_pressure_for_async_send_size=size
    )
    assert under_way(producer) == least


def test_what_is_under_way_is_given_back(producer_of: MakeProducer) -> None:
    """After a result, an error, and a cancellation."""
    broker = AnsweringBroker()
    producer = producer_of(broker, back_pressure_for_async_send_num=20, **BACK_PRESSURE)
    before = under_way(producer)
    gate = broker.hold()
    futures = [producer.send_async(ORDER)]
    gate.begun.wait(60)
    futures += [producer.send_async(ORDER), producer.send_async(Message("orders", b""))]
    assert under_way(producer) == (before[0] - 3, before[1] - 8)
    futures[1].cancel()
    gate.opens.set()
    producer.close()
    assert all(future.done() for future in futures)
    assert under_way(producer) == before


@pytest.mark.parametrize("limit", ["number", "bytes"])
def test_waiting_for_permits_counts(producer_of: MakeProducer, limit: str) -> None:
    """Row back pressure: waiting for it counts against the timeout; over it, the future has the error."""
    broker = AnsweringBroker()
    broker.is_slow = True
    producer = producer_of(
        broker, back_pressure_for_async_send_num=10, back_pressure_for_async_send_size=1, **BACK_PRESSURE
    )
    count, size = (10, 1) if limit == "number" else (1, 1024 * 1024)
    messages = [Message("orders", bytes(size))] * count
    futures = [producer.send_async(message) for message in messages]
    late = producer.send_async(ORDER, timeout_ms=5)
    assert isinstance(late.exception(0), SendTimedOut)
    broker.wait_for_futures(count)
    for number in range(count):
        broker.store_late(number)
    assert all(future.exception(60) is None for future in futures)
    broker.is_slow = False
    assert producer.send_async(ORDER).result(60).send_status is SendStatus.SEND_OK


def test_a_full_queue_runs_in_the_caller(producer_of: MakeProducer) -> None:
    """Row executor: full, with back pressure on: run in the caller."""
    broker = AnsweringBroker()
    producer = producer_of(broker, async_sender_queue_capacity=1, **BACK_PRESSURE)
    gate = broker.hold()
    futures = [producer.send_async(ORDER)]
    gate.begun.wait(60)
    futures.append(producer.send_async(ORDER))
    here = producer.send_async(ORDER)
    assert here.done()
    assert here.result().send_status is SendStatus.SEND_OK
    gate.opens.set()
    assert all(future.exception(60) is None for future in futures)


# -- asyncio ----------------------------------------------------------------------------------------


def test_a_send_can_be_awaited(store: MessageStore) -> None:
    """`await producer.send_async(message)`, one and many at once, in SYNC_FLUSH."""

    async def send(producer: Producer) -> list[SendResult]:
        first = await producer.send_async(ORDER)
        return [first, *await asyncio.gather(*[producer.send_async(ORDER) for _ in range(20)])]

    with EmbeddedBroker(store) as broker, Producer(broker, "billing") as producer:
        results = asyncio.run(send(producer))
    assert {result.send_status for result in results} == {SendStatus.SEND_OK}
    ids = {message.unique_key for queue_id in range(8) for message in messages_of(store, "orders", queue_id)}
    assert ids == {result.msg_id for result in results}


def test_an_error_can_be_awaited(producer_of: MakeProducer) -> None:
    """As `result()` would raise it."""

    async def send() -> None:
        await producer_of(AnsweringBroker()).send_async(Message("two words", b"x"))

    with pytest.raises(Exception, match="only the characters"):
        asyncio.run(send())


def test_a_loop_never_asks_a_broker(producer_of: MakeProducer) -> None:
    """What a broker does, as waiting for a disk, is done in other threads: also where the queue is full."""
    broker = AnsweringBroker()
    asked_in: list[threading.Thread] = []

    def answer() -> Any:
        asked_in.append(threading.current_thread())
        return PutMessageStatus.PUT_OK

    broker.answers = [answer] * 60

    async def send(producer: Producer) -> None:
        await asyncio.gather(*[producer.send_async(ORDER) for _ in range(30)])

    asyncio.run(send(producer_of(broker)))
    asyncio.run(send(producer_of(broker, back_pressure_for_async_send_num=10, **BACK_PRESSURE)))
    assert len(asked_in) == 60
    assert threading.current_thread() not in asked_in


def test_a_loop_never_waits_for_permits(producer_of: MakeProducer) -> None:
    """With back pressure on, a sender thread waits for them; a full queue is an error then."""
    broker = AnsweringBroker()
    broker.is_slow = True
    producer = producer_of(
        broker, back_pressure_for_async_send_num=10, async_sender_queue_capacity=2, **BACK_PRESSURE
    )

    async def send() -> None:
        sent = []
        for number in range(10):
            sent.append(producer.send_async(ORDER))
            broker.wait_for_futures(number + 1)
        sent.append(producer.send_async(ORDER))
        while producer._async_sends._number.free or not producer._async_sends._number._waiters:
            await asyncio.sleep(0.001)
        sent += [producer.send_async(ORDER) for _ in range(2)]
        with pytest.raises(SendRejected):
            producer.send_async(ORDER)
        for number in range(13):
            broker.wait_for_futures(number + 1)
            broker.store_late(number)
        await asyncio.gather(*sent)

    asyncio.run(send())


def test_callbacks_do_not_run_where_a_disk_is_synced(store: MessageStore) -> None:
    """A callback may send in SYNC itself, which waits for the disk."""
    done = threading.Event()
    threads: list[str] = []

    with EmbeddedBroker(store) as broker, Producer(broker, "billing") as producer:

        def send_another(future: Any) -> None:
            threads.append(threading.current_thread().name)
            producer.send(ORDER)
            done.set()

        producer.send_async(ORDER).add_done_callback(send_another)
        assert done.wait(60)
    assert all(name.startswith(("mqstore-producer-", "MainThread")) for name in threads)


def test_futures_are_expired_by_a_thread(producer_of: MakeProducer, seconds: ManualSeconds) -> None:
    """One that is started when the first broker does not answer at once, and ended by the close."""
    broker = AnsweringBroker(seconds=seconds)
    broker.is_slow = True
    producer = producer_of(broker)
    assert producer._async_sends._expiry._thread is None
    future = producer.send_async(ORDER)
    broker.wait_for_futures(1)
    seconds.advance(3)
    producer._async_sends._expiry.wake()
    assert future.exception(60) is not None
    thread = producer._async_sends._expiry._thread
    assert thread is not None
    producer.close()
    assert not thread.is_alive()
