"""The tracing of messages: spans of sends, of calls of listeners, and of messages that are sent back.

    send orders           PRODUCER   each attempt of a send; its context goes into the messages
    process orders        CONSUMER   each call of a listener, current while it works
    send_back orders      CLIENT     a message that failed: a retry, or with the disposition DEAD_LETTER dead

A span of `process` or `send_back` links to the origin of each of its messages. With one message it is also
the child of that origin, so that put, delivery, retries and dead letter are one trace; unless a span is
current already, which is then the parent. With several messages it begins a trace of its own, as
OpenTelemetry asks. `send_back` is the child of the origin, too: the listener's span has ended.

Names: semantic_names.py. What goes wrong in here is logged by the clients, and no message suffers from it.
Threads: those of the clients.
Source: docs/messaging/messaging-spans.md of OpenTelemetry's semantic conventions.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

from mqstore.client.consumer.consume_hooks import ConsumeMessageContext
from mqstore.client.consumer.push_consumer import PushConsumer
from mqstore.client.consumer.send_back_hooks import SendBackContext
from mqstore.client.producer.producer_life import ProducerLife
from mqstore.client.producer.sends.send_hooks import SendMessageContext
from mqstore.observability.client_calls import watch
from mqstore.observability.opentelemetry import semantic_names as names
from mqstore.observability.opentelemetry.trace_context import context_of, span_context_of, trace_properties
from mqstore.store.message.message import Message
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.properties_format import UNIQ_KEY

__all__ = ["MessageTracing"]

Attributes = dict[str, AttributeValue]


class _Current(NamedTuple):
    """A span that is current until `leaving` is left."""

    span: Span
    leaving: AbstractContextManager[Span]


class MessageTracing:
    """Makes spans for the clients that it watches.

    >>> from mqstore import Message, MessageStore
    >>> from mqstore.client import EmbeddedBroker, Producer
    >>> tracing = MessageTracing()
    >>> with MessageStore.open("traced") as store, EmbeddedBroker(store) as broker:
    ...     with Producer(broker, "shop") as producer:
    ...         tracing.watch(producer)
    ...         sent = producer.send(Message("orders", b"first"))
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        """tracer_provider: None for OpenTelemetry's global one."""
        self._tracer = trace.get_tracer("mqstore", tracer_provider=tracer_provider)

    def watch(self, client: ProducerLife | PushConsumer) -> None:
        """Trace what a producer or a push consumer does from now on. Raises ConsumerClosed, TypeError."""
        watch(client, self)

    # -- sends ----------------------------------------------------------------------------------------

    def send_message_before(self, context: SendMessageContext) -> None:
        topic, messages = context.message_queue.topic, context.messages
        attributes = _operation("send", "send", topic)
        attributes[names.PRODUCER_GROUP] = context.producer_group
        attributes[names.PARTITION] = str(context.message_queue.queue_id)
        attributes |= _of_sent(messages)
        links = _links(message.properties for message in messages)
        span = self._tracer.start_span(
            f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes, links=links
        )
        context.kept[self] = span
        context.add_properties(trace_properties(trace.set_span_in_context(span, Context())))

    def send_message_after(self, context: SendMessageContext) -> None:
        span: Span = context.kept.pop(self)
        if context.exception is not None:
            _fail(span, context.exception)
        elif context.send_result is not None:
            span.set_attribute(names.QUEUE_OFFSET, context.send_result.queue_offset)
        span.end()

    # -- listeners ------------------------------------------------------------------------------------

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        messages = context.messages
        topic = messages[0].topic
        attributes = _operation("process", "process", topic)
        attributes[names.CONSUMER_GROUP] = context.consumer_group
        attributes[names.PARTITION] = str(context.message_queue.queue_id)
        attributes |= _of_received(messages)
        leaving = self._tracer.start_as_current_span(
            f"process {topic}",
            context=_parent(messages),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=_links(message.properties for message in messages),
        )
        context.kept[self] = _Current(leaving.__enter__(), leaving)

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        span, leaving = context.kept.pop(self)
        if not context.is_success:
            if context.error is not None:
                _fail(span, context.error)
            else:
                kind = "" if context.return_type is None else context.return_type.value
                span.set_attribute(names.ERROR_TYPE, kind)
                span.set_status(Status(StatusCode.ERROR, f"the listener answered {_answer(context)}"))
        leaving.__exit__(None, None, None)

    # -- messages that are sent back ------------------------------------------------------------------

    def send_back_before(self, context: SendBackContext) -> None:
        message = context.message
        attributes = _operation("send_back", "settle", message.topic)
        attributes[names.CONSUMER_GROUP] = context.consumer_group
        attributes[names.DISPOSITION] = context.disposition.value
        attributes |= _of_received([message])
        context.kept[self] = self._tracer.start_span(
            f"send_back {message.topic}",
            context=_parent([message]),
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=_links([message.properties]),
        )

    def send_back_after(self, context: SendBackContext) -> None:
        span: Span = context.kept.pop(self)
        if not context.is_sent:
            span.set_attribute(names.ERROR_TYPE, "not_sent")
            span.set_status(Status(StatusCode.ERROR, "no broker took it: it comes again from memory"))
        span.end()

    def __repr__(self) -> str:
        return f"MessageTracing({self._tracer!r})"


def _operation(name: str, kind: str, topic: str) -> Attributes:
    return {
        names.SYSTEM: names.ROCKETMQ,
        names.OPERATION_NAME: name,
        names.OPERATION_TYPE: kind,
        names.DESTINATION: topic,
    }


def _parent(messages: Sequence[StoredMessage]) -> Context | None:
    """The origin of a single message; None, which stands for the current context, in all other cases."""
    if len(messages) != 1 or trace.get_current_span().get_span_context().is_valid:
        return None
    return context_of(messages[0].properties)


def _links(properties: Iterable[Mapping[str, str]]) -> list[Link]:
    """A link to each origin that is named."""
    origins = map(span_context_of, properties)
    return [Link(origin) for origin in origins if origin is not None]


def _of_sent(messages: Sequence[Message]) -> Attributes:
    if len(messages) > 1:
        return {names.BATCH_MESSAGE_COUNT: len(messages)}
    message = messages[0]
    keys = message.keys.split() if isinstance(message.keys, str) else list(message.keys)
    found: Attributes = {names.BODY_SIZE: len(message.body)}
    if UNIQ_KEY in message.properties:
        found[names.MESSAGE_ID] = message.properties[UNIQ_KEY]
    if message.delay_level:
        found[names.DELAY_LEVEL] = message.delay_level
    return found | _tag_and_keys(message.tags, keys)


def _of_received(messages: Sequence[StoredMessage]) -> Attributes:
    if len(messages) > 1:
        return {names.BATCH_MESSAGE_COUNT: len(messages)}
    message = messages[0]
    found: Attributes = {
        names.MESSAGE_ID: message.unique_key or message.msg_id,
        names.QUEUE_OFFSET: message.queue_offset,
        names.RECONSUME_TIMES: message.reconsume_times,
    }
    return found | _tag_and_keys(message.tags, message.keys)


def _tag_and_keys(tag: str | None, keys: Sequence[str]) -> Attributes:
    found: Attributes = {}
    if tag:
        found[names.TAG] = tag
    if keys:
        found[names.KEYS] = list(keys)
    return found


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute(names.ERROR_TYPE, type(error).__name__)
    span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))


def _answer(context: ConsumeMessageContext) -> str:
    return "nothing" if context.status is None else context.status.name
