"""The observed metrics: names, values and labels in OpenTelemetry, and one look for one collection."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint, Sum

from mqstore import Message, MessageStore
from mqstore.observability.metric import Kind, Metric
from mqstore.observability.opentelemetry.observed_metrics import observe
from mqstore.observability.store_metrics import STORE_METRICS, StoreMetrics
from mqstore.store.errors import StoreClosed
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_store import SmallStore


class Looked(StoreMetrics):
    """Counts how often it was asked."""

    looks = 0
    error: Exception | None = None

    def metrics(self) -> Sequence[Metric]:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return super().metrics()


@pytest.fixture
def store() -> Iterator[MessageStore]:
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as opened:
        yield opened


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


def collect(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, object], float]]]:
    data = reader.get_metrics_data()
    found = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics if data else ():
        points = metric.data.data_points
        found[metric.name] = [
            (dict(point.attributes or {}), point.value)
            for point in points
            if isinstance(point, NumberDataPoint)
        ]
    return found


def test_names_values_and_labels(store: MessageStore, reader: InMemoryMetricReader) -> None:
    """Those of the list; a metric without values is left out, as OpenTelemetry does."""
    store.put_message(Message("orders", b"x"))
    store.flush()
    source = StoreMetrics(store)
    observe(source, MeterProvider([reader]))
    found = collect(reader)
    assert found["rocketmq_messages_in_total"] == [({"topic": "orders"}, 1)]
    with_values = {metric.of.name for metric in source.metrics() if metric.samples}
    assert set(found) == with_values <= {name.name for name in STORE_METRICS}


def test_counters_are_sums(store: MessageStore, reader: InMemoryMetricReader) -> None:
    """That only grow."""
    store.put_message(Message("orders", b"x"))
    observe(StoreMetrics(store), MeterProvider([reader]))
    data = reader.get_metrics_data()
    assert data is not None
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        is_counter = any(name.name == metric.name and name.kind is Kind.COUNTER for name in STORE_METRICS)
        assert isinstance(metric.data, Sum) == is_counter


def test_one_look_for_all_instruments(store: MessageStore, reader: InMemoryMetricReader) -> None:
    """Each collection has a new one."""
    source = Looked(store)
    observe(source, MeterProvider([reader]))
    for expected in (1, 2, 3):
        store.put_message(Message("orders", b"x"))
        store.flush()
        assert collect(reader)["mqstore_messages"] == [({}, expected)]
        assert source.looks == expected


def test_a_store_that_is_gone_has_no_values(store: MessageStore, reader: InMemoryMetricReader) -> None:
    """And breaks no collection of others."""
    source = Looked(store)
    source.error = StoreClosed(Path("/store"))
    observe(source, MeterProvider([reader]))
    assert collect(reader) == {}
    source.error = None
    assert collect(reader)["mqstore_messages"] == [({}, 0)]
