"""Requests and their replies: each row of docs/spec/client_produce.md section 6.

The broker is a real one over a store in memory. Requests are consumed by the test, and replied to with
another producer; time passes by the test's seconds, but for the wait of a SYNC request, which is short.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, StoredMessage
from mqstore.broker.broker import MessageQueue, PullRequest, ReplyNotDelivered
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.errors import (
    ClientNotRunning,
    QueueNotSelected,
    RequestNotSent,
    RequestTimedOut,
    SendFailed,
    SendRejected,
    TopicRouteNotFound,
)
from mqstore.client.producer.message.reply_message import create_reply_message
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.send_result import SendResult
from mqstore.store.errors import CorruptBody, MessageIllegal, StoreFull
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.clients.answering_broker import AnsweringBroker
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds
from support.stores.small_store import SmallStore, messages_of

PING = Message("orders", b"ping", tags="a")
QUEUE = MessageQueue("orders", "broker-a", 0)
FULL = StoreFull(Path("/full"), 1, "no room")


class Exchange:
    """A producer that requests, one that replies, and the broker between them."""

    def __init__(self, store: MessageStore, clock: ManualClock, seconds: ManualSeconds) -> None:
        store.topics.create("orders", 1)
        self.store = store
        self.broker = EmbeddedBroker(store, now_s=seconds)
        self.requester = self.producer(clock, seconds)
        self.replier = self.producer(clock, seconds)
        self.consumed = 0

    def producer(self, clock: ManualClock, seconds: ManualSeconds, **settings: Any) -> Producer:
        producer = Producer(self.broker, "billing", ProducerSettings(**settings), clock=clock, timer=seconds)
        producer.start()
        return producer

    def consume(self) -> StoredMessage:
        """The next request, as a consumer gets it."""
        arrived = threading.Event()
        found: list[StoredMessage] = []

        def take(answer: Any) -> None:
            found.extend(answer.messages)
            arrived.set()

        self.broker.pull_later(PullRequest("workers", "orders", 0, self.consumed, 1, "*", 600_000), take)
        assert arrived.wait(60)
        self.consumed += 1
        return found[0]

    def reply(self, body: bytes = b"pong") -> SendResult:
        """Consume one request, and reply to it."""
        return self.replier.send(create_reply_message(self.consume(), body))

    def close(self) -> None:
        self.requester.close()
        self.replier.close()
        self.broker.close()


@pytest.fixture
def exchange(clock: ManualClock, seconds: ManualSeconds) -> Iterator[Exchange]:
    small = SmallStore(MemoryFileSystem(clock=clock), Path("/store"), clock=clock)
    with small.open() as store:
        made = Exchange(store, clock, seconds)
        yield made
        made.close()


def test_a_request_gets_its_reply(exchange: Exchange) -> None:
    """SYNC: the reply is returned, with what the replier gave, and when it was pushed and arrived."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(exchange.requester.request, PING, 10_000)
        sent = exchange.reply()
        reply = waiting.result(60)
    assert (reply.topic, reply.body) == ("DefaultCluster_REPLY_TOPIC", b"pong")
    assert reply.properties["UNIQ_KEY"] == sent.msg_id
    assert reply.properties["PUSH_REPLY_TIME"] == reply.properties["ARRIVE_TIME"] == str(1_726_740_000_000)
    (kept,) = messages_of(exchange.store, "DefaultCluster_REPLY_TOPIC")
    assert (kept.body, kept.properties["MSG_TYPE"]) == (b"pong", "reply")


def test_the_properties_of_a_request(exchange: Exchange) -> None:
    """Row properties: CORRELATION_ID, REPLY_TO_CLIENT, TTL; the broker adds CLUSTER; the message is
    consumed."""
    exchange.requester.request_async(PING, 1_500)
    request = exchange.consume()
    assert (request.body, request.tags) == (b"ping", "a")
    assert request.properties["REPLY_TO_CLIENT"] == exchange.requester.client_id
    assert request.properties["TTL"] == "1500"
    assert request.properties["CLUSTER"] == "DefaultCluster"
    assert len(request.properties["CORRELATION_ID"]) == 36
    assert request.unique_key


def test_each_request_gets_its_own_reply(exchange: Exchange) -> None:
    """Whatever the order of the replies."""
    futures = [exchange.requester.request_async(Message("orders", b"%d" % n), 60_000) for n in range(5)]
    requests = sorted((exchange.consume() for _ in futures), key=lambda request: request.body, reverse=True)
    for request in requests:
        exchange.replier.send(create_reply_message(request, b"reply to " + request.body))
    assert [future.result(60).body for future in futures] == [b"reply to %d" % number for number in range(5)]


def test_a_reply_may_be_awaited(exchange: Exchange) -> None:
    """In asyncio."""

    async def ask() -> Message:
        return await exchange.requester.request_async(PING, 60_000)

    with ThreadPoolExecutor(1) as pool:
        replied = pool.submit(exchange.reply)
        assert asyncio.run(ask()).body == b"pong"
        replied.result(60)


@pytest.mark.parametrize("way", ["send", "send_async", "send_oneway"])
def test_a_reply_may_be_sent_in_any_way(exchange: Exchange, way: str) -> None:
    """It is handed to its client by the broker, whichever way it comes."""
    future = exchange.requester.request_async(PING, 60_000)
    getattr(exchange.replier, way)(create_reply_message(exchange.consume(), b"pong"))
    assert future.result(60).body == b"pong"


def test_a_long_reply_comes_as_it_was_given(exchange: Exchange) -> None:
    """Compressed on its way."""
    future = exchange.requester.request_async(PING, 60_000)
    exchange.reply(bytes(9_000))
    assert future.result(60).body == bytes(9_000)


def test_a_request_may_choose_its_queue(exchange: Exchange) -> None:
    """By name, or by a selector."""
    for way in ({"queue": QUEUE}, {"selector": lambda queues, message, arg: queues[arg], "arg": 0}):
        future = exchange.requester.request_async(PING, 60_000, **way)  # type: ignore[arg-type]
        exchange.reply()
        assert future.result(60).body == b"pong"


# -- no reply ---------------------------------------------------------------------------------------


def test_a_request_without_a_reply(exchange: Exchange) -> None:
    """Row waiting: sent, no reply: RequestTimeoutException 10006; a reply that comes later is dropped."""
    with pytest.raises(RequestTimedOut, match="no reply came within 20 ms") as caught:
        exchange.requester.request(PING, 20)
    assert caught.value.code == 10006
    assert isinstance(caught.value, TimeoutError)
    assert exchange.reply().put
    assert not exchange.requester._requests._waiting


def test_expired_requests_are_looked_for(exchange: Exchange, seconds: ManualSeconds) -> None:
    """Row callback form: expired ones are looked for every second and get 10006."""
    future = exchange.requester.request_async(PING, 2_000)
    requests = exchange.requester._requests
    exchange.consume()
    seconds.advance(2)
    requests.expire_once()
    assert not future.done()
    seconds.advance(0.001)
    requests._expiry.wake()
    with pytest.raises(RequestTimedOut) as caught:
        future.result(60)
    assert caught.value.code == 10006


def test_a_request_that_is_given_up(exchange: Exchange) -> None:
    """A cancelled future: the reply finds nobody, and disturbs nothing."""
    future = exchange.requester.request_async(PING, 60_000)
    assert future.cancel()
    assert exchange.reply().put
    assert exchange.requester.send(PING).put


@pytest.mark.parametrize(
    ("message", "error"),
    [(Message("orders", b""), MessageIllegal), (None, MessageIllegal)],
)
def test_what_is_wrong_with_a_message_is_raised(
    exchange: Exchange, message: Any, error: type[Exception]
) -> None:
    """At once, in both forms."""
    with pytest.raises(error):
        exchange.requester.request(message, 60_000)
    with pytest.raises(error):
        exchange.requester.request_async(message, 60_000)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"selector": lambda queues, message, arg: None}, QueueNotSelected),
        ({"queue": MessageQueue("invoices", "broker-a", 0)}, MessageIllegal),
    ],
)
def test_a_request_that_was_not_sent(
    exchange: Exchange, options: dict[str, Any], cause: type[Exception]
) -> None:
    """Row waiting: not sent: MQClientException with the cause."""
    with pytest.raises(RequestNotSent, match="was not sent") as caught:
        exchange.requester.request(PING, 60_000, **options)
    assert isinstance(caught.value.__cause__, cause)
    assert isinstance(exchange.requester.request_async(PING, 60_000, **options).exception(60), RequestNotSent)


def test_a_reply_whose_body_is_wrong(exchange: Exchange) -> None:
    """The one who waits gets the error."""
    future = exchange.requester.request_async(PING, 60_000)
    reply = create_reply_message(exchange.consume(), b"no frame")
    exchange.broker.send_reply(
        Message(reply.topic, reply.body, properties=reply.properties, sys_flag=0x101), timeout_ms=0
    )
    assert isinstance(future.exception(60), CorruptBody)


# -- the life of a producer -------------------------------------------------------------------------


def test_after_the_close_nobody_waits(exchange: Exchange) -> None:
    """Requests under way end; the broker has nobody to give a reply to, which the replier learns."""
    future = exchange.requester.request_async(PING, 60_000)
    request = exchange.consume()
    exchange.requester.close()
    assert isinstance(future.exception(60), ClientNotRunning)
    with pytest.raises(ClientNotRunning):
        exchange.requester.request(PING, 1)
    with pytest.raises(SendFailed) as caught:
        exchange.replier.send(create_reply_message(request, b"pong"))
    assert isinstance(caught.value.__cause__, ReplyNotDelivered)
    assert messages_of(exchange.store, "DefaultCluster_REPLY_TOPIC") == []


def test_a_producer_that_requests_nothing_takes_no_replies(exchange: Exchange) -> None:
    """It is made known to the brokers by its first request."""
    exchange.replier.send(PING)
    known = exchange.broker._producers.reply_receiver
    assert known(exchange.replier.client_id) is None
    exchange.requester.request_async(PING, 60_000)
    assert known(exchange.requester.client_id) is not None


class ReplyBroker(AnsweringBroker):
    """A broker that may refuse to hand replies on."""

    def __init__(self, name: str, *answers: Any, error: Exception | None = None) -> None:
        super().__init__(name, *answers)
        self.error = error
        self.receivers: dict[str, Any] = {}

    def register_reply_receiver(self, client_id: str, receive: Any) -> None:
        if self.error is not None:
            raise self.error
        self.receivers[client_id] = receive

    def unregister_reply_receiver(self, client_id: str) -> None:
        self.receivers.pop(client_id, None)


MakeProducer = Callable[..., Producer]


def test_a_reply_may_come_through_any_broker(
    producer_of: MakeProducer, caplog: pytest.LogCaptureFixture
) -> None:
    """A request goes to one broker, its reply comes through another; one that is closed is left out."""
    brokers = [ReplyBroker("a"), ReplyBroker("b"), ReplyBroker("closed", error=FULL)]
    producer = producer_of(*brokers)
    for number, broker in enumerate(brokers[:2]):
        future = producer.request_async(
            PING, 60_000, queue=MessageQueue("orders", brokers[1 - number].name, 0)
        )
        brokers[1 - number].wait_for_futures(1)
        properties = brokers[1 - number].sent[-1].properties
        broker.receivers[producer.client_id](Message("x_REPLY_TOPIC", b"pong", properties=properties))
        assert future.result(60).body == b"pong"
    assert "broker closed will hand no reply on" in caplog.text
    producer.close()
    assert not any(broker.receivers for broker in brokers)


def test_a_request_is_sent_as_an_asynchronous_message(producer_of: MakeProducer) -> None:
    """Row properties: sent ASYNC, so what could not be sent is tried again, and a full queue rejects it."""
    broker = ReplyBroker("broker-a", FULL, FULL, FULL)
    producer = producer_of(broker, async_sender_threads=1, async_sender_queue_capacity=1)
    future = producer.request_async(PING, 60_000)
    assert isinstance(future.exception(60), RequestNotSent)
    assert future.exception(0).__cause__ is FULL  # type: ignore[union-attr]
    assert len(broker.sent) == 3
    gate = broker.hold()
    producer.send_async(PING)
    gate.begun.wait(60)
    producer.send_async(PING)
    with pytest.raises(SendRejected):
        producer.request_async(PING, 60_000)
    assert not producer._requests._waiting
    gate.opens.set()


def test_a_topic_without_a_route(producer_of: MakeProducer) -> None:
    """Not sent, for that reason."""
    future = producer_of(ReplyBroker("broker-a")).request_async(Message("invoices", b"x"), 60_000)
    assert isinstance(future.exception(60), RequestNotSent)
    assert isinstance(future.exception(0).__cause__, TopicRouteNotFound)  # type: ignore[union-attr]


def test_the_time_that_has_passed_counts(producer_of: MakeProducer, seconds: ManualSeconds) -> None:
    """Row waiting: timeout less what has passed: here all of it, so nobody waits an hour."""

    class Slow(ReplyBroker):
        def register_reply_receiver(self, client_id: str, receive: Any) -> None:
            seconds.advance(3_600)

    with pytest.raises((RequestTimedOut, RequestNotSent)):
        producer_of(Slow("broker-a")).request(PING, 3_600_000)
