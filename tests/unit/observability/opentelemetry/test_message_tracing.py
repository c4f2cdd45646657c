"""The spans of messages: one trace from the put to the dead letter; batches, other threads, and failures."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mqstore.broker.broker import MessageQueue
from mqstore.client import ConsumeMessageContext, Producer, ProducerSettings
from mqstore.client.consumer.consume_hooks import ConsumeReturnType
from mqstore.client.consumer.listener import ConsumeConcurrentlyStatus
from mqstore.observability.opentelemetry.message_tracing import MessageTracing
from mqstore.store.errors import StoreFull
from mqstore.store.message.message import Message
from support.clients.answering_broker import AnsweringBroker, as_broker
from support.clients.failing_consumer import fail_until_dead
from support.clients.stored_messages import stored_message

ORIGIN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traced:
    """A provider whose finished spans are kept."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self.exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = MessageTracing(self.provider)
        self.tracer = self.provider.get_tracer("test")

    def watch(self, store: object, *clients: object) -> None:
        for client in clients:
            self.tracing.watch(client)  # type: ignore[arg-type]

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def traced() -> Traced:
    return Traced()


@pytest.fixture
def broker() -> AnsweringBroker:
    return AnsweringBroker()


@pytest.fixture
def producer(traced: Traced, broker: AnsweringBroker) -> Iterator[Producer]:
    with Producer(as_broker(broker), "shop") as opened:
        traced.tracing.watch(opened)
        yield opened


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def origin_in(message: Message) -> tuple[int, int]:
    _, trace_id, span_id, _ = message.properties["traceparent"].split("-")
    return int(trace_id, 16), int(span_id, 16)


@pytest.mark.parametrize("way", ["send", "send_async", "send_oneway"])
@pytest.mark.parametrize("delay_level", [0, 2])
def test_put_delivery_retry_and_dead_letter_are_one_trace(traced: Traced, way: str, delay_level: int) -> None:
    """Whichever way it is sent, and when it waits first: all spans are children of the send's."""
    message = Message("orders", b"x", delay_level=delay_level)

    def send(producer: Producer, message: Message) -> None:
        with traced.tracer.start_as_current_span("checkout"):
            sent = getattr(producer, way)(message)
        if way == "send_async":
            sent.result(30)

    letter = fail_until_dead(traced.watch, message, send)
    (checkout,), (sent,) = traced.named("checkout"), traced.named("send orders")
    trace_id, span_id = ids(sent)
    assert sent.parent is not None
    assert (sent.parent.span_id, sent.kind) == (ids(checkout)[1], SpanKind.PRODUCER)
    of_trace = [span for span in traced.spans if ids(span)[0] == trace_id]
    told = [(span.name, dict(span.attributes or {}).get("mqstore.disposition")) for span in of_trace]
    assert sorted(told, key=str) == sorted(
        [
            ("checkout", None),
            ("send orders", None),
            ("process orders", None),
            ("send_back orders", "RETRY"),
            ("process orders", None),
            ("send_back orders", "DEAD_LETTER"),
        ],
        key=str,
    )
    for span in of_trace:
        if span.name.startswith(("process", "send_back")):
            assert span.parent is not None
            assert span.parent.span_id == span_id
            assert [link.context.span_id for link in span.links] == [span_id]
    assert letter.properties["traceparent"].split("-")[1:3] == [f"{trace_id:032x}", f"{span_id:016x}"]


def test_the_attributes_are_those_of_the_conventions(traced: Traced) -> None:
    """System, operation, destination, group, partition; of one message its id, tag, keys and attempt."""
    fail_until_dead(traced.watch, Message("orders", b"four", tags="created", keys=("o-1",)))
    (sent,) = traced.named("send orders")
    attributes = dict(sent.attributes or {})
    message_id = attributes.pop("messaging.message.id")
    assert attributes.pop("messaging.destination.partition.id") in {"0", "1", "2", "3"}
    assert attributes == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.rocketmq.client_group": "shop",
        "messaging.message.body.size": 4,
        "messaging.rocketmq.message.tag": "created",
        "messaging.rocketmq.message.keys": ("o-1",),
        "mqstore.message.queue_offset": 0,
    }
    first, second = (dict(span.attributes or {}) for span in traced.named("process orders"))
    assert (first["messaging.message.id"], second["messaging.message.id"]) == (message_id, message_id)
    assert (first["mqstore.message.reconsume_times"], second["mqstore.message.reconsume_times"]) == (0, 1)
    assert (first["messaging.consumer.group.name"], first["error.type"]) == ("billing", "FAILED")
    assert {span.kind for span in traced.named("process orders")} == {SpanKind.CONSUMER}
    assert {span.kind for span in traced.named("send_back orders")} == {SpanKind.CLIENT}
    assert {span.status.status_code for span in traced.named("process orders")} == {StatusCode.ERROR}


def test_each_attempt_is_a_span(traced: Traced) -> None:
    """The message names the attempt that stored it; one that failed has its error."""
    broker = AnsweringBroker("broker-a", StoreFull(Path("/store"), 1, "no room"))
    settings = ProducerSettings(retry_times_when_send_failed=1)
    with Producer(as_broker(broker), "shop", settings) as producer:
        traced.tracing.watch(producer)
        producer.send(Message("orders", b"x"))
    failed, stored = traced.named("send orders")
    assert failed.status.status_code is StatusCode.ERROR
    assert dict(failed.attributes or {})["error.type"] == "StoreFull"
    assert origin_in(broker.sent[-1]) == ids(stored)


def test_a_batch_has_one_span_for_all(traced: Traced, broker: AnsweringBroker, producer: Producer) -> None:
    """All messages name it, but for one that came with an origin of its own, to which the span links."""
    messages = [Message("orders", b"x"), Message("orders", b"y", properties={"traceparent": ORIGIN})]
    producer.send_batch(messages)
    (span,) = traced.named("send orders")
    assert dict(span.attributes or {})["messaging.batch.message_count"] == 2
    assert origin_in(broker.sent[0]) == ids(span)
    assert broker.sent[1].properties["traceparent"] == ORIGIN
    assert [f"{link.context.span_id:016x}" for link in span.links] == [ORIGIN.split("-")[2]]
    assert messages[0].properties == {}


def consume(traced: Traced, count: int, **outcome: object) -> ReadableSpan:
    messages = [stored_message(n, properties={"traceparent": ORIGIN}) for n in range(count)]
    queue = MessageQueue("orders", "broker-a", 0)
    context = ConsumeMessageContext("billing", queue, messages, 0)
    traced.tracing.consume_message_before(context)
    for name, value in outcome.items():
        setattr(context, name, value)
    traced.tracing.consume_message_after(context)
    return traced.spans[-1]


def test_several_messages_begin_a_trace_of_their_own(traced: Traced) -> None:
    """A span has one parent, and they may have many origins: it links to all."""
    span = consume(traced, 2, status=ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
    assert span.parent is None
    assert len(span.links) == 2
    assert span.status.status_code is StatusCode.UNSET


def test_a_span_that_is_current_is_the_parent(traced: Traced) -> None:
    """As the conventions want it: the message's origin is then a link alone."""
    with traced.tracer.start_as_current_span("worker") as worker:
        span = consume(traced, 1, status=ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
    assert span.parent is not None
    assert span.parent.span_id == worker.get_span_context().span_id
    assert [f"{link.context.span_id:016x}" for link in span.links] == [ORIGIN.split("-")[2]]


def test_what_a_listener_raised(traced: Traced) -> None:
    """By class and text."""
    status = ConsumeConcurrentlyStatus.RECONSUME_LATER
    kind = ConsumeReturnType.EXCEPTION
    span = consume(traced, 1, status=status, return_type=kind, error=ValueError("no card"))
    assert span.status.description == "ValueError: no card"
    assert dict(span.attributes or {})["error.type"] == "ValueError"
