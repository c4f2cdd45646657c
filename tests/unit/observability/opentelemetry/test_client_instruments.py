"""The instruments of clients: names and attributes of the conventions, from a send to a dead letter."""

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from mqstore.observability.client_calls import SendBackCall, SendCall
from mqstore.observability.metric import BUCKETS_S
from mqstore.observability.opentelemetry.client_instruments import ClientInstruments
from mqstore.store.message.message import Message
from support.clients.failing_consumer import fail_until_dead


def collect(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    data = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics if data else ()
    return {metric.name: list(metric.data.data_points) for metric in metrics}


def test_from_the_send_to_the_dead_letter() -> None:
    """A send, two calls of the listener that failed, two messages sent back."""
    reader = InMemoryMetricReader()
    instruments = ClientInstruments(MeterProvider([reader]))

    def watch(store: object, *clients: object) -> None:
        for client in clients:
            instruments.watch(client)  # type: ignore[arg-type]

    fail_until_dead(watch, Message("orders", b"x"))
    found = collect(reader)
    common = {"messaging.system": "rocketmq", "messaging.destination.name": "orders"}
    (sent,) = found["messaging.client.sent.messages"]
    assert sent.value == 1
    assert dict(sent.attributes) == {
        **common,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.rocketmq.client_group": "shop",
    }
    (consumed,) = found["messaging.client.consumed.messages"]
    assert consumed.value == 2
    assert dict(consumed.attributes) == {
        **common,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "billing",
        "error.type": "FAILED",
    }
    (processing,) = found["messaging.process.duration"]
    assert (processing.count, tuple(processing.explicit_bounds)) == (2, BUCKETS_S)
    operations = [
        (
            point.attributes["messaging.operation.name"],
            point.attributes.get("mqstore.disposition"),
            point.count,
        )
        for point in found["messaging.client.operation.duration"]
    ]
    assert operations == [("send", None, 1), ("send_back", "RETRY", 1), ("send_back", "DEAD_LETTER", 1)]


def test_what_failed_has_the_kind_of_its_error() -> None:
    """A send by the error's class; what no broker took back says so."""
    reader = InMemoryMetricReader()
    instruments = ClientInstruments(MeterProvider([reader]))
    instruments.sent(SendCall("orders", "shop", 1, 0, "StoreFull", 0.1))
    instruments.sent_back(SendBackCall("orders", "billing", "RETRY", is_sent=False, seconds=0.1))
    found = collect(reader)["messaging.client.operation.duration"]
    assert [point.attributes["error.type"] for point in found] == ["StoreFull", "not_sent"]
