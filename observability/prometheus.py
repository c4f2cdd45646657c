"""The adapter for Prometheus: a collector of the library prometheus-client (extra `prometheus`).

    REGISTRY.register(MetricsCollector(StoreMetrics(store), client_metrics))

It asks its sources when it is scraped, and keeps nothing. `mqstore serve` gives the same metrics of its store
without this library (server/monitoring/prometheus_text.py).
Threads: any.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from mqstore.observability.metric import Histogram, Kind, Metric, MetricName, MetricSource
from mqstore.store.errors import StoreError

__all__ = ["MetricsCollector"]

_Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily

_UP: Final = MetricName(
    "mqstore_sources_up", Kind.GAUGE, (), "Stores and clients of this process that gave their figures."
)


class MetricsCollector(Collector):
    """Gives the metrics of stores and clients to a registry.

    A source that cannot be asked (the store's disk is gone, say) is left out of a scrape, and then
    `mqstore_sources_up` is less than before; the others are there.
    """

    def __init__(self, *sources: MetricSource) -> None:
        """sources: StoreMetrics, ClientMetrics. Several of a kind are told apart by labels.

        Raises ValueError where one of several has other labels than the rest.
        """
        self._sources = sources
        known: dict[str, MetricName] = {}
        for name in (name for source in sources for name in source.names):
            if known.setdefault(name.name, name).labels != name.labels:
                raise ValueError(
                    f"{name.name} has the labels {known[name.name].labels} of one source and {name.labels} "
                    "of another: give all sources of a kind the same labels"
                )

    def describe(self) -> Iterable[Family]:
        """All names without values, so that no store is asked when this is registered."""
        names = {name.name: name for source in self._sources for name in source.names}
        return [_family(name) for name in (*names.values(), _UP)]

    def collect(self) -> Iterator[Family]:
        """The metrics as they are now, each name once."""
        families: dict[str, _Family] = {}
        up = 0
        for source in self._sources:
            try:
                metrics = source.metrics()
            except (StoreError, OSError):
                continue
            up += 1
            for metric in metrics:
                family = families.setdefault(metric.of.name, _family(metric.of))
                _add(family, metric)
        yield from families.values()
        yield GaugeMetricFamily(_UP.name, _UP.meaning, value=up)

    def __repr__(self) -> str:
        return f"MetricsCollector{self._sources}"


def _family(of: MetricName) -> _Family:
    name, kind, labels, meaning, _ = of
    if kind is Kind.COUNTER:
        return CounterMetricFamily(name, meaning, labels=labels)
    if kind is Kind.HISTOGRAM:
        return HistogramMetricFamily(name, meaning, labels=labels)
    return GaugeMetricFamily(name, meaning, labels=labels)


def _add(family: _Family, metric: Metric) -> None:
    labels = metric.of.labels
    if isinstance(family, HistogramMetricFamily):
        for each in metric.histograms:
            family.add_metric([each.labels[label] for label in labels], _buckets(each), each.sum_s)
        return
    for value, named in metric.samples:
        family.add_metric([named[label] for label in labels], value)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """As Prometheus has them: each with all that were quicker, the last one with all."""
    bounds = [*map(str, histogram.bounds_s), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))
