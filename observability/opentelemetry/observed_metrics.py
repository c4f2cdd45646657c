"""The observed metrics: those of a store, as observable instruments of a meter of OpenTelemetry.

Each instrument has its name from store_metrics.py. A reader that collects asks instrument after instrument;
all get their values from one look at the store, and the next look is when one is asked for the second time.
Threads: those of the readers.
"""

from collections.abc import Callable, Iterable

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from mqstore.observability.metric import Kind, Metric, MetricName, MetricSource
from mqstore.store.errors import StoreError
from mqstore.store.threads.lock import Lock

__all__ = ["observe"]


def observe(source: MetricSource, meter_provider: MeterProvider | None = None) -> None:
    """Let a meter observe the counters and gauges of `source`: StoreMetrics of a store that stays open.

    A store that is closed has no values any more. meter_provider: None for OpenTelemetry's global one.
    """
    meter = metrics.get_meter("mqstore", meter_provider=meter_provider)
    looks = _Looks(source)
    for name in source.names:
        if name.kind is Kind.COUNTER:
            meter.create_observable_counter(name.name, [looks.callback(name)], name.unit, name.meaning)
        elif name.kind is Kind.GAUGE:
            meter.create_observable_gauge(name.name, [looks.callback(name)], name.unit, name.meaning)


class _Looks:
    """One look at a source for all its instruments."""

    def __init__(self, source: MetricSource) -> None:
        self._source = source
        self._lock = Lock()
        # What the last look gave and nobody has asked for yet, by name. Under the lock.
        self._left: dict[str, Metric] = {}

    def callback(self, name: MetricName) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """What the instrument of this name asks."""

        def observe_now(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(value, dict(labels)) for value, labels in self._take(name.name).samples]

        return observe_now

    def _take(self, name: str) -> Metric:
        with self._lock:
            if name not in self._left:
                self._left = {metric.of.name: metric for metric in self._look()}
            return self._left.pop(name)

    def _look(self) -> Iterable[Metric]:
        try:
            return self._source.metrics()
        except (StoreError, OSError):
            return [Metric(name) for name in self._source.names]

    def __repr__(self) -> str:
        return f"_Looks({self._source!r})"
