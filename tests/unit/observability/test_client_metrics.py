"""The metrics of clients: what is counted of sends, listeners and messages that are sent back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqstore.client import LitePullConsumer, Producer, ProducerSettings
from mqstore.observability.client_calls import ConsumeCall, SendBackCall, SendCall
from mqstore.observability.client_metrics import CLIENT_METRICS, OTHERS, ClientMetrics
from mqstore.observability.metric import Kind
from mqstore.store.errors import StoreFull
from mqstore.store.message.message import Message
from support.clients.answering_broker import AnsweringBroker, as_broker
from support.clients.failing_consumer import fail_until_dead
from support.manual_seconds import ManualSeconds


def values(metrics: ClientMetrics) -> dict[tuple[str, ...], float]:
    return {
        (metric.of.name.removeprefix("mqstore_client_"), *sample.labels.values()): sample.value
        for metric in metrics.metrics()
        for sample in metric.samples
    }


@pytest.fixture
def metrics() -> ClientMetrics:
    return ClientMetrics()


def full() -> StoreFull:
    return StoreFull(Path("/store"), 1, "no room")


def test_from_the_send_to_the_dead_letter(metrics: ClientMetrics) -> None:
    """One message: sent once, consumed twice, sent back twice, the second time as a dead letter."""

    def watch(store: object, *clients: object) -> None:
        for client in clients:
            metrics.watch(client)  # type: ignore[arg-type]

    fail_until_dead(watch, Message("orders", b"x"))
    assert values(metrics) == {
        ("sent_messages_total", "orders", "shop"): 1,
        ("consumed_messages_total", "orders", "billing", "FAILED"): 2,
        ("retried_messages_total", "orders", "billing"): 1,
        ("sent_back_messages_total", "orders", "billing", "RETRY"): 1,
        ("sent_back_messages_total", "orders", "billing", "DEAD_LETTER"): 1,
    }
    times = {metric.of.name: sum(each.counts) for metric in metrics.metrics() for each in metric.histograms}
    assert times == {"mqstore_client_send_seconds": 1, "mqstore_client_consume_seconds": 2}


@pytest.fixture
def failing() -> Iterator[Producer]:
    broker = AnsweringBroker("broker-a", full(), full())
    settings = ProducerSettings(retry_times_when_send_failed=2, retry_times_when_send_async_failed=2)
    with Producer(as_broker(broker), "shop", settings) as producer:
        yield producer


def test_attempts_of_a_send(metrics: ClientMetrics, failing: Producer) -> None:
    """Each attempt that failed is counted by its error, and each that followed one as tried again."""
    metrics.watch(failing)
    failing.send(Message("orders", b"x"))
    assert values(metrics) == {
        ("sent_messages_total", "orders", "shop"): 1,
        ("send_failures_total", "orders", "shop", "StoreFull"): 2,
        ("send_retries_total", "orders", "shop"): 2,
    }


def test_an_asynchronous_send_tells_of_all_attempts_at_its_end(
    metrics: ClientMetrics, failing: Producer
) -> None:
    """Hooks are called once for it; what was tried again is counted."""
    metrics.watch(failing)
    failing.send_async(Message("orders", b"x")).result(30)
    assert values(metrics) == {
        ("sent_messages_total", "orders", "shop"): 1,
        ("send_retries_total", "orders", "shop"): 2,
    }


def test_a_batch_counts_its_messages(metrics: ClientMetrics) -> None:
    """One attempt, three messages."""
    with Producer(as_broker(AnsweringBroker()), "shop") as producer:
        metrics.watch(producer)
        producer.send_batch([Message("orders", b"x")] * 3)
    assert values(metrics) == {("sent_messages_total", "orders", "shop"): 3}


def test_what_no_broker_took_back(metrics: ClientMetrics) -> None:
    """It is no retry and no dead letter."""
    metrics.sent_back(SendBackCall("orders", "billing", "RETRY", is_sent=False, seconds=0.1))
    assert values(metrics) == {("send_back_failures_total", "orders", "billing"): 1}


def test_times_fall_into_buckets() -> None:
    """A bound belongs to its own bucket, and what is beyond all bounds to the last one."""
    seconds = ManualSeconds()
    metrics = ClientMetrics(timer=seconds)
    for taken in (0.0, 0.005, 0.006, 10.0, 11.0):
        metrics.consumed(ConsumeCall("orders", "billing", 1, 0, "SUCCESS", None, taken))
    (histogram,) = next(m for m in metrics.metrics() if m.of.name.endswith("consume_seconds")).histograms
    assert histogram.counts[:3] == (2, 1, 0)
    assert histogram.counts[-2:] == (1, 1)
    assert histogram.sum_s == pytest.approx(21.011)


def test_beyond_the_most_samples_all_is_counted_together(metrics: ClientMetrics) -> None:
    """Nothing is lost, and a program with endless topics does not grow."""
    for number in range(1_005):
        metrics.sent(SendCall(f"t-{number}", "shop", 1, 0, None, 0.1))
    counted = values(metrics)
    assert len(counted) == 1_001
    assert counted["sent_messages_total", OTHERS, OTHERS] == 5


def test_labels_are_on_each_sample() -> None:
    """To tell processes apart that one scrape asks."""
    metrics = ClientMetrics({"shop": "north"})
    metrics.sent(SendCall("orders", "shop", 1, 0, None, 0.1))
    assert metrics.metrics()[0].samples[0].labels["shop"] == "north"
    assert all(name.labels[-1] == "shop" for name in metrics.names)


def test_what_has_no_hooks_is_refused(metrics: ClientMetrics) -> None:
    """A pull consumer, and anything else."""
    with (
        LitePullConsumer(as_broker(AnsweringBroker()), "billing") as consumer,
        pytest.raises(TypeError, match="cannot be watched"),
    ):
        metrics.watch(consumer)  # type: ignore[arg-type]


def test_names_are_proper() -> None:
    """Counters end in _total; times are in seconds, and say so."""
    for name in CLIENT_METRICS:
        assert name.name.endswith("_total" if name.kind is Kind.COUNTER else "_seconds"), name
