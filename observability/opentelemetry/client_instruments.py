"""The instruments of clients: how long sends and listeners take, and how many messages they had.

Names and attributes are those of OpenTelemetry's semantic conventions for messaging (semantic_names.py); a
message that is sent back is an operation `send_back` with its disposition.
Threads: those of the clients.
Source: docs/messaging/messaging-metrics.md of OpenTelemetry's semantic conventions.
"""

import time
from collections.abc import Callable

from opentelemetry import metrics
from opentelemetry.metrics import MeterProvider
from opentelemetry.util.types import AttributeValue

from mqstore.client.consumer.push_consumer import PushConsumer
from mqstore.client.producer.producer_life import ProducerLife
from mqstore.observability.client_calls import ClientCalls, ConsumeCall, SendBackCall, SendCall, watch
from mqstore.observability.metric import BUCKETS_S
from mqstore.observability.opentelemetry import semantic_names as names

__all__ = ["ClientInstruments"]

Attributes = dict[str, AttributeValue]
_SUCCESS = "SUCCESS"


class ClientInstruments:
    """Measures what the clients do that it watches."""

    def __init__(
        self,
        meter_provider: MeterProvider | None = None,
        *,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        """meter_provider: None for OpenTelemetry's global one. timer: seconds of a steady clock."""
        meter = metrics.get_meter("mqstore", meter_provider=meter_provider)
        bounds = list(BUCKETS_S)
        self._hook = ClientCalls(self, timer)
        self._sent = meter.create_counter(
            names.SENT_MESSAGES, "{message}", "Messages that producers attempted to send."
        )
        self._consumed = meter.create_counter(
            names.CONSUMED_MESSAGES, "{message}", "Messages that listeners were given."
        )
        self._operations = meter.create_histogram(
            names.OPERATION_DURATION,
            "s",
            "How long a send, or a send-back, took.",
            explicit_bucket_boundaries_advisory=bounds,
        )
        self._processing = meter.create_histogram(
            names.PROCESS_DURATION,
            "s",
            "How long a listener took.",
            explicit_bucket_boundaries_advisory=bounds,
        )

    def watch(self, client: ProducerLife | PushConsumer) -> None:
        """Measure what a producer or a push consumer does from now on. Raises ConsumerClosed, TypeError."""
        watch(client, self._hook)

    def sent(self, call: SendCall) -> None:
        attributes = _attributes("send", "send", call.topic, call.error)
        attributes[names.PRODUCER_GROUP] = call.producer_group
        self._sent.add(call.messages, attributes)
        self._operations.record(call.seconds, attributes)

    def consumed(self, call: ConsumeCall) -> None:
        error = call.error or (None if call.outcome == _SUCCESS else call.outcome)
        attributes = _attributes("process", "process", call.topic, error)
        attributes[names.CONSUMER_GROUP] = call.consumer_group
        self._consumed.add(call.messages, attributes)
        self._processing.record(call.seconds, attributes)

    def sent_back(self, call: SendBackCall) -> None:
        error = None if call.is_sent else "not_sent"
        attributes = _attributes("send_back", "settle", call.topic, error)
        attributes[names.CONSUMER_GROUP] = call.consumer_group
        attributes[names.DISPOSITION] = call.disposition
        self._operations.record(call.seconds, attributes)

    def __repr__(self) -> str:
        return "ClientInstruments()"


def _attributes(operation: str, kind: str, topic: str, error: str | None) -> Attributes:
    attributes: Attributes = {
        names.SYSTEM: names.ROCKETMQ,
        names.OPERATION_NAME: operation,
        names.OPERATION_TYPE: kind,
        names.DESTINATION: topic,
    }
    if error is not None:
        attributes[names.ERROR_TYPE] = error
    return attributes
