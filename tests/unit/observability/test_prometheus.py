"""The collector: what the library writes, its own parser reads; several sources, and one that is gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from mqstore import Message, MessageStore
from mqstore.observability.client_calls import ConsumeCall
from mqstore.observability.client_metrics import CLIENT_METRICS, ClientMetrics
from mqstore.observability.metric import Metric, MetricName
from mqstore.observability.prometheus import MetricsCollector
from mqstore.observability.store_metrics import STORE_METRICS, StoreMetrics
from mqstore.store.errors import StoreClosed
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_store import SmallStore


@pytest.fixture
def store() -> Iterator[MessageStore]:
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as opened:
        yield opened


def scrape(*sources: object) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(MetricsCollector(*sources))  # type: ignore[arg-type]
    return registry


def test_each_metric_is_there_under_its_name(store: MessageStore) -> None:
    """Also those without values yet: a dashboard finds them, and kinds and meanings are those of the list."""
    text = generate_latest(scrape(StoreMetrics(store), ClientMetrics())).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for name in (*STORE_METRICS, *CLIENT_METRICS):
        family = families[name.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (name.kind.value, name.meaning)


def test_values_and_labels(store: MessageStore) -> None:
    """As Prometheus has them, buckets of a histogram included."""
    store.put_message(Message("orders", b"x"))
    store.flush()
    clients = ClientMetrics()
    for seconds in (0.001, 0.02, 60):
        clients.consumed(ConsumeCall("orders", "billing", 1, 0, "SUCCESS", None, seconds))
    registry = scrape(StoreMetrics(store), clients)
    assert registry.get_sample_value("rocketmq_messages_in_total", {"topic": "orders"}) == 1
    labels = {"topic": "orders", "consumer_group": "billing"}
    name = "mqstore_client_consume_seconds"
    of_buckets = {
        bound: registry.get_sample_value(f"{name}_bucket", {**labels, "le": bound})
        for bound in ("0.005", "0.025", "10.0", "+Inf")
    }
    assert of_buckets == {"0.005": 1, "0.025": 2, "10.0": 2, "+Inf": 3}
    assert registry.get_sample_value(f"{name}_count", labels) == 3
    assert registry.get_sample_value(f"{name}_sum", labels) == pytest.approx(60.021)


def test_two_stores_of_a_process(store: MessageStore) -> None:
    """Told apart by a label; without one of their own they are refused."""
    with SmallStore(MemoryFileSystem(), Path("/other")).open() as other:
        other.put_message(Message("orders", b"x"))
        other.flush()
        registry = scrape(StoreMetrics(store, {"store": "a"}), StoreMetrics(other, {"store": "b"}))
        found = [registry.get_sample_value("mqstore_messages", {"store": name}) for name in "ab"]
        assert found == [0, 1]
        with pytest.raises(ValueError, match="give all sources of a kind the same labels"):
            MetricsCollector(StoreMetrics(store), StoreMetrics(other, {"store": "b"}))


class Gone:
    """A source that cannot be asked."""

    names: tuple[MetricName, ...] = ()

    def __init__(self, error: Exception) -> None:
        self.error = error

    def metrics(self) -> list[Metric]:
        raise self.error


@pytest.mark.parametrize("error", [StoreClosed(Path("/store")), OSError(5, "Input/output error")])
def test_a_source_that_is_gone_takes_no_other_with_it(store: MessageStore, error: Exception) -> None:
    """The rest is scraped, and the number of those that answered says that one is missing."""
    registry = scrape(Gone(error), StoreMetrics(store))
    assert registry.get_sample_value("mqstore_sources_up") == 1
    assert registry.get_sample_value("mqstore_messages") == 0


def test_nobody_asks_the_store_when_it_is_registered() -> None:
    """The names are known without."""
    error = AssertionError("asked")
    collector = MetricsCollector(Gone(error))
    assert [family.name for family in collector.describe()] == ["mqstore_sources_up"]
    CollectorRegistry().register(collector)
