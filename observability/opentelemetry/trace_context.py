"""The trace context in messages: W3C's `traceparent` and `tracestate` as properties.

They are properties like any other: the store keeps them in the record, through delays, retries and dead
letters, and any other client of RocketMQ sees them. A message that has them already is left as it is.
Pure functions: any thread. Source: W3C Trace Context; OpenTelemetry's API.
"""

from collections.abc import Mapping

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mqstore.store.message.message import Message

__all__ = ["context_of", "span_context_of", "trace_properties", "with_trace_context"]

_W3C = TraceContextTextMapPropagator()


def trace_properties(context: Context | None = None) -> dict[str, str]:
    """The properties that name the current span, or that of `context`; none without a span."""
    properties: dict[str, str] = {}
    _W3C.inject(properties, context)
    return properties


def with_trace_context(message: Message) -> Message:
    """The message with the current span as its origin: for a put without a producer, or a batch by others.

    It is returned as it is without a current span, or when it has an origin.
    """
    properties = trace_properties()
    if not properties or "traceparent" in message.properties:
        return message
    return msgspec.structs.replace(message, properties={**message.properties, **properties})


def context_of(properties: Mapping[str, str]) -> Context:
    """A context whose current span is the origin of a message; an empty one if it names none, or wrongly."""
    return _W3C.extract(properties, Context())


def span_context_of(properties: Mapping[str, str]) -> SpanContext | None:
    """The origin of a message; None if it names none, or wrongly."""
    found = trace.get_current_span(context_of(properties)).get_span_context()
    return found if found.is_valid else None
