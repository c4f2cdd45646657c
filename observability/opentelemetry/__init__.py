"""OpenTelemetry: metrics of stores and clients, and traces of messages. Extra: opentelemetry."""

from mqstore.observability.opentelemetry.client_instruments import ClientInstruments
from mqstore.observability.opentelemetry.message_tracing import MessageTracing
from mqstore.observability.opentelemetry.observed_metrics import observe
from mqstore.observability.opentelemetry.trace_context import with_trace_context

__all__ = ["ClientInstruments", "MessageTracing", "observe", "with_trace_context"]
