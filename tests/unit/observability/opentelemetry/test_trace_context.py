"""The trace context of messages: what goes in comes out, and what is no context is none."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from mqstore.observability.opentelemetry.trace_context import (
    context_of,
    span_context_of,
    trace_properties,
    with_trace_context,
)
from mqstore.store.message.message import Message

ORIGIN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_current_span_is_the_origin() -> None:
    """The message names it; a copy is changed, and nothing else of it."""
    message = Message("orders", b"x", properties={"a": "b"})
    with TracerProvider().get_tracer("test").start_as_current_span("checkout") as span:
        traced = with_trace_context(message)
        assert traced.properties == {"a": "b", **trace_properties()}
        origin = span_context_of(traced.properties)
        assert origin is not None
        assert (origin.trace_id, origin.span_id) == (
            span.get_span_context().trace_id,
            span.get_span_context().span_id,
        )
    assert message.properties == {"a": "b"}


def test_an_origin_that_is_there_stays() -> None:
    """A message that is passed on keeps where it came from."""
    message = Message("orders", b"x", properties={"traceparent": ORIGIN})
    with TracerProvider().get_tracer("test").start_as_current_span("relay"):
        assert with_trace_context(message) is message


def test_without_a_span_there_is_no_origin() -> None:
    """And nothing is copied."""
    message = Message("orders", b"x")
    assert with_trace_context(message) is message
    assert span_context_of({}) is None


@pytest.mark.parametrize(
    "text", ["", "no", ORIGIN[:-1], ORIGIN.replace("0af7", "zzzz"), "00-" + "0" * 32 + ORIGIN[35:]]
)
def test_what_is_no_context_is_none(text: str) -> None:
    """Anybody may write this property."""
    assert span_context_of({"traceparent": text}) is None
    assert not trace.get_current_span(context_of({"traceparent": text})).get_span_context().is_valid


def test_the_state_comes_along() -> None:
    """`tracestate` belongs to vendors, and is kept as it is."""
    origin = span_context_of({"traceparent": ORIGIN, "tracestate": "vendor=value"})
    assert origin is not None
    assert origin.trace_state.get("vendor") == "value"
