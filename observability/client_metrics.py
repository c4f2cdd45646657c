"""The metrics of clients: what producers and consumers of this process sent, consumed and sent back.

    metrics = ClientMetrics()
    metrics.watch(producer)
    metrics.watch(consumer)

Any number of clients may be watched by one. A client that nobody watches counts nothing. Messages that came
to be dead letters without a client are counted by the store alone (store_metrics.py).
Each metric has at most 1,000 samples; what comes later is counted under OTHERS.
Threads: any; a lock is held for as long as it takes to add.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mqstore.client.consumer.push_consumer import PushConsumer
from mqstore.client.producer.producer_life import ProducerLife
from mqstore.observability.client_calls import ClientCalls, ConsumeCall, SendBackCall, SendCall, watch
from mqstore.observability.metric import BUCKETS_S, Histogram, Kind, Metric, MetricName, Sample
from mqstore.store.threads.lock import Lock

__all__ = ["CLIENT_METRICS", "OTHERS", "ClientMetrics"]

OTHERS: Final = "*"
"""The labels of all that comes after a metric has as many samples as it may have."""

_MOST_SAMPLES: Final = 1_000
_C, _H = Kind.COUNTER, Kind.HISTOGRAM
_SEND, _CONSUME = ("topic", "producer_group"), ("topic", "consumer_group")

_SENT: Final = MetricName("mqstore_client_sent_messages_total", _C, _SEND, "Messages that were sent.")
_SEND_FAILURES: Final = MetricName(
    "mqstore_client_send_failures_total", _C, (*_SEND, "error"), "Attempts of sends that failed."
)
_SEND_RETRIES: Final = MetricName(
    "mqstore_client_send_retries_total", _C, _SEND, "Attempts of sends after one that failed."
)
_SEND_SECONDS: Final = MetricName(
    "mqstore_client_send_seconds", _H, _SEND, "How long attempts of sends took.", "s"
)
_CONSUMED: Final = MetricName(
    "mqstore_client_consumed_messages_total",
    _C,
    (*_CONSUME, "outcome"),
    "Messages that a listener was given, by how it ended.",
)
_RETRIED: Final = MetricName(
    "mqstore_client_retried_messages_total", _C, _CONSUME, "Messages among them that had failed before."
)
_CONSUME_SECONDS: Final = MetricName(
    "mqstore_client_consume_seconds", _H, _CONSUME, "How long calls of a listener took.", "s"
)
_SENT_BACK: Final = MetricName(
    "mqstore_client_sent_back_messages_total",
    _C,
    (*_CONSUME, "disposition"),
    "Messages that were sent back, to be retried or dead.",
)
_SEND_BACK_FAILURES: Final = MetricName(
    "mqstore_client_send_back_failures_total", _C, _CONSUME, "Messages that no broker took back."
)

CLIENT_METRICS: Final[Sequence[MetricName]] = (
    *(_SENT, _SEND_FAILURES, _SEND_RETRIES, _SEND_SECONDS),
    *(_CONSUMED, _RETRIED, _CONSUME_SECONDS, _SENT_BACK, _SEND_BACK_FAILURES),
)
"""All metrics of clients."""

Labels = tuple[str, ...]


class _Times:
    """The times of one histogram: how many in each bucket, and their sum."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Count a time; a bound is of its own bucket."""
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


class ClientMetrics:
    """Counts what the clients do that it watches.

    >>> from mqstore import Message, MessageStore
    >>> from mqstore.client import EmbeddedBroker, Producer
    >>> metrics = ClientMetrics()
    >>> with MessageStore.open("watched") as store, EmbeddedBroker(store) as broker:
    ...     with Producer(broker, "shop") as producer:
    ...         metrics.watch(producer)
    ...         sent = producer.send(Message("orders", b"first"))
    >>> metrics.metrics()[0].samples
    [Sample(value=1, labels={'topic': 'orders', 'producer_group': 'shop'})]
    """

    def __init__(
        self, labels: Mapping[str, str] | None = None, *, timer: Callable[[], float] = time.perf_counter
    ) -> None:
        """labels: added to each sample. timer: seconds of a clock that only goes forward."""
        self._labels = dict(labels or {})
        self._hook = ClientCalls(self, timer)
        self._lock = Lock()
        # Both by metric and values of its labels, under the lock.
        self._counts: dict[MetricName, dict[Labels, int]] = {
            name: {} for name in CLIENT_METRICS if name.kind is _C
        }
        self._times: dict[MetricName, dict[Labels, _Times]] = {
            name: {} for name in CLIENT_METRICS if name.kind is _H
        }

    def watch(self, client: ProducerLife | PushConsumer) -> None:
        """Count what a producer or a push consumer does from now on. Raises ConsumerClosed, TypeError."""
        watch(client, self._hook)

    @property
    def names(self) -> Sequence[MetricName]:
        return [name._replace(labels=(*name.labels, *self._labels)) for name in CLIENT_METRICS]

    def metrics(self) -> Sequence[Metric]:
        with self._lock:
            counts = {name: dict(table) for name, table in self._counts.items()}
            times = {
                name: {key: (tuple(each.counts), each.sum_s) for key, each in table.items()}
                for name, table in self._times.items()
            }
        found = []
        for name, named in zip(CLIENT_METRICS, self.names, strict=True):
            samples = [Sample(n, self._named(name, key)) for key, n in counts.get(name, {}).items()]
            histograms = [
                Histogram(self._named(name, key), BUCKETS_S, of_buckets, sum_s)
                for key, (of_buckets, sum_s) in times.get(name, {}).items()
            ]
            found.append(Metric(named, samples, histograms))
        return found

    def _named(self, name: MetricName, values: Labels) -> dict[str, str]:
        return {**dict(zip(name.labels, values, strict=True)), **self._labels}

    # -- what clients did -----------------------------------------------------------------------------

    def sent(self, call: SendCall) -> None:
        key = call.topic, call.producer_group
        with self._lock:
            if call.error is None:
                self._add(_SENT, key, call.messages)
            else:
                self._add(_SEND_FAILURES, (*key, call.error), 1)
            self._add(_SEND_RETRIES, key, call.again)
            self._add_time(_SEND_SECONDS, key, call.seconds)

    def consumed(self, call: ConsumeCall) -> None:
        key = call.topic, call.consumer_group
        with self._lock:
            self._add(_CONSUMED, (*key, call.outcome), call.messages)
            self._add(_RETRIED, key, call.again)
            self._add_time(_CONSUME_SECONDS, key, call.seconds)

    def sent_back(self, call: SendBackCall) -> None:
        key = call.topic, call.consumer_group
        with self._lock:
            if call.is_sent:
                self._add(_SENT_BACK, (*key, call.disposition), 1)
            else:
                self._add(_SEND_BACK_FAILURES, key, 1)

    def _add(self, name: MetricName, key: Labels, number: int) -> None:
        table = self._counts[name]
        if number:
            key = _key_in(table, key)
            table[key] = table.get(key, 0) + number

    def _add_time(self, name: MetricName, key: Labels, seconds: float) -> None:
        table = self._times[name]
        table.setdefault(_key_in(table, key), _Times()).add(seconds)

    def __repr__(self) -> str:
        return f"ClientMetrics({self._labels})"


def _key_in(table: Mapping[Labels, object], key: Labels) -> Labels:
    return key if key in table or len(table) < _MOST_SAMPLES else (OTHERS,) * len(key)
