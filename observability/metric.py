"""A metric: a name that does not change, what it means, and its values at one moment.

This is what sources of figures give (store_metrics.py, client_metrics.py) and what adapters hand on
(prometheus.py, opentelemetry/, server/monitoring/). Values: any thread may read them.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

__all__ = ["BUCKETS_S", "Histogram", "Kind", "Metric", "MetricName", "MetricSource", "Sample"]

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Upper bounds of the buckets of times, in seconds: those that OpenTelemetry names for messaging."""


class Kind(enum.Enum):
    """COUNTER only grows; GAUGE is as it is now; HISTOGRAM counts how long something took."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricName(NamedTuple):
    """The fixed part: name, kind, labels of its samples, and what a value means."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    unit: str = "1"


class Sample(NamedTuple):
    """One value; `labels` has the names of its metric."""

    value: float
    labels: Mapping[str, str] = {}


class Histogram(NamedTuple):
    """How often something took how long. counts: one for each bucket, and for what took longer.

    bounds_s: upper bounds of the buckets in seconds. sum_s: all times together.
    """

    labels: Mapping[str, str]
    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float


class Metric(NamedTuple):
    """A metric with its values: histograms for a HISTOGRAM, else samples."""

    of: MetricName
    samples: Sequence[Sample] = ()
    histograms: Sequence[Histogram] = ()


class MetricSource(Protocol):
    """What gives metrics: those of a store, or of clients."""

    @property
    def names(self) -> Sequence[MetricName]:
        """All that it gives, whether there are values or not."""
        ...

    def metrics(self) -> Sequence[Metric]:
        """As they are now, one for each name. Raises StoreError where a store cannot be asked."""
        ...
