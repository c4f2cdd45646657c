"""The metrics of a store: its figures (store_figures.py) under names that do not change.

Names are RocketMQ's where it has the same figure, and begin with mqstore_ where it has not. The list is in
docs/monitoring.md, and a test compares. Counters begin when the store is opened.
Threads: any. Source: BrokerMetricsConstant, DefaultStoreMetricsConstant of Apache RocketMQ.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from mqstore.message_store import MessageStore
from mqstore.observability.metric import Kind, Metric, MetricName, Sample
from mqstore.observability.store_figures import StoreFigures, store_figures
from mqstore.store.message.topic_names import dead_letter_topic

__all__ = ["STORE_METRICS", "StoreMetrics", "metrics_of"]

_C, _G = Kind.COUNTER, Kind.GAUGE
_TOPIC, _GROUP = ("topic",), ("consumer_group",)
_BOTH = ("topic", "consumer_group", "topic_and_group")
_LEVEL = ("level",)

Samples = Callable[[StoreFigures], Iterable[Sample]]


class _Row(NamedTuple):
    of: MetricName
    samples: Samples


def _one(value: Callable[[StoreFigures], float | None]) -> Samples:
    """One sample without labels; none where there is no value."""

    def samples(figures: StoreFigures) -> Iterable[Sample]:
        found = value(figures)
        return () if found is None else (Sample(found),)

    return samples


def _by_topic(field: str) -> Samples:
    def samples(figures: StoreFigures) -> Iterator[Sample]:
        for topic, each in figures.topics.items():
            yield Sample(getattr(each, field), {"topic": topic})

    return samples


def _puts(field: str) -> Samples:
    """By topic, of those that were put to since the store was opened."""

    def samples(figures: StoreFigures) -> Iterator[Sample]:
        for topic, each in figures.topics.items():
            if each.puts:
                yield Sample(getattr(each, field), {"topic": topic})

    return samples


def _of_keys(table: Callable[[StoreFigures], Mapping[str, int]]) -> Samples:
    """By `topic@group`, and by each of the two."""

    def samples(figures: StoreFigures) -> Iterator[Sample]:
        for key, value in sorted(table(figures).items()):
            topic, _, group = key.partition("@")
            yield Sample(value, {"topic": topic, "consumer_group": group or key, "topic_and_group": key})

    return samples


def _lags(figures: StoreFigures) -> Iterator[Sample]:
    for lag in figures.stats.consumer_lags:
        labels = {"consumer_group": lag.group, "topic": lag.topic, "queue_id": str(lag.queue_id)}
        yield Sample(lag.lag, labels)


def _dead(figures: StoreFigures) -> Iterator[Sample]:
    for group, each in figures.retries.items():
        yield Sample(each.dead_letters, {"consumer_group": group, "topic": dead_letter_topic(group)})


def _dead_held(figures: StoreFigures) -> Iterator[Sample]:
    for group, each in figures.retries.items():
        yield Sample(each.dead_letters_held, {"consumer_group": group})


def _levels(value: Callable[..., float]) -> Samples:
    """Of each delay level, by what `value` makes of its LevelStatus."""

    def samples(figures: StoreFigures) -> Iterator[Sample]:
        for level in figures.stats.delay_levels:
            yield Sample(value(level), {"level": str(level.level)})

    return samples


def _errors(figures: StoreFigures) -> Iterator[Sample]:
    for service in figures.stats.errors:
        yield Sample(1, {"service": service})


_ROWS: Final = (
    _Row(
        MetricName("rocketmq_storage_size", _G, (), "Bytes of the commit log.", "By"),
        _one(lambda figures: figures.stats.storage_size_bytes),
    ),
    _Row(
        MetricName(
            "rocketmq_storage_flush_behind_bytes", _G, (), "Bytes of the log that are not yet durable.", "By"
        ),
        _one(lambda figures: figures.stats.flush_behind_bytes),
    ),
    _Row(
        MetricName(
            "rocketmq_storage_dispatch_behind_bytes", _G, (), "Bytes of the log not yet in the queues.", "By"
        ),
        _one(lambda figures: figures.stats.dispatch_behind_bytes),
    ),
    _Row(
        MetricName(
            "rocketmq_consumer_lag_messages",
            _G,
            ("consumer_group", "topic", "queue_id"),
            "Messages of a queue that a group has not consumed.",
        ),
        _lags,
    ),
    _Row(
        MetricName("mqstore_messages", _G, (), "Messages in all queues."),
        _one(lambda figures: figures.stats.messages),
    ),
    _Row(
        MetricName("mqstore_topics", _G, (), "Topics, those of the store itself included."),
        _one(lambda figures: figures.stats.topics),
    ),
    _Row(
        MetricName("mqstore_puts_refused", _G, (), "1 while the store refuses puts, else 0."),
        _one(lambda figures: int(figures.stats.refusal is not None)),
    ),
    _Row(
        MetricName("mqstore_topic_messages", _G, _TOPIC, "Messages in the queues of a topic."),
        _by_topic("messages"),
    ),
    _Row(
        MetricName("rocketmq_messages_in_total", _C, _TOPIC, "Messages put to a topic."),
        _puts("puts"),
    ),
    _Row(
        MetricName("rocketmq_throughput_in_total", _C, _TOPIC, "Bytes of records put to a topic.", "By"),
        _puts("put_bytes"),
    ),
    _Row(
        MetricName("rocketmq_messages_out_total", _C, _BOTH, "Messages of a topic handed to a group."),
        _of_keys(lambda figures: figures.stats.counters.group_get_nums),
    ),
    _Row(
        MetricName("rocketmq_throughput_out_total", _C, _BOTH, "Bytes of records handed to a group.", "By"),
        _of_keys(lambda figures: figures.stats.counters.group_get_size),
    ),
    _Row(
        MetricName(
            "mqstore_messages_sent_back_total",
            _C,
            _BOTH,
            "Messages that a group sent back; the topic is where the copy went.",
        ),
        _of_keys(lambda figures: figures.stats.counters.sndbck_put_nums),
    ),
    _Row(
        MetricName(
            "rocketmq_send_to_dlq_messages_total",
            _C,
            ("consumer_group", "topic"),
            "Messages that became dead letters of a group.",
        ),
        _dead,
    ),
    _Row(MetricName("mqstore_dead_letters", _G, _GROUP, "Dead letters held for a group."), _dead_held),
    _Row(
        MetricName("mqstore_log_start_offset", _G, (), "Physical offset of the first byte of the log.", "By"),
        _one(lambda figures: figures.stats.min_offset),
    ),
    _Row(
        MetricName("mqstore_log_end_offset", _G, (), "Physical offset behind the last record.", "By"),
        _one(lambda figures: figures.stats.max_offset),
    ),
    _Row(
        MetricName("mqstore_log_flushed_offset", _G, (), "Up to where the log is durable.", "By"),
        _one(lambda figures: figures.stats.flushed_offset),
    ),
    _Row(
        MetricName("mqstore_log_segments", _G, (), "Segments of the log."),
        _one(lambda figures: figures.stats.segments),
    ),
    _Row(
        MetricName(
            "mqstore_key_index_behind_bytes",
            _G,
            (),
            "Bytes of the log not yet in the key index.",
            "By",
        ),
        _one(lambda figures: figures.stats.key_index_behind_bytes),
    ),
    _Row(
        MetricName("mqstore_delayed_messages", _G, _LEVEL, "Messages that wait in a delay level."),
        _levels(lambda level: level.pending),
    ),
    _Row(
        MetricName(
            "mqstore_delay_lateness_seconds", _G, _LEVEL, "How long the first of them has been due.", "s"
        ),
        _levels(lambda level: level.lateness_ms / 1000),
    ),
    _Row(
        MetricName("mqstore_delay_delivered_total", _C, _LEVEL, "Messages that a delay level has delivered."),
        _levels(lambda level: level.delivered),
    ),
    _Row(
        MetricName(
            "mqstore_delay_level_blocked", _G, _LEVEL, "1 while a message that cannot be delivered stops it."
        ),
        _levels(lambda level: int(level.error is not None)),
    ),
    _Row(
        MetricName("mqstore_disk_total_bytes", _G, (), "Size of the file system of the store.", "By"),
        _one(lambda figures: figures.disk.total_bytes),
    ),
    _Row(
        MetricName("mqstore_disk_free_bytes", _G, (), "Room on it for an unprivileged writer.", "By"),
        _one(lambda figures: figures.disk.free_bytes),
    ),
    _Row(
        MetricName("mqstore_service_failed", _G, ("service",), "1 for each service whose last step failed."),
        _errors,
    ),
)

STORE_METRICS: Final[Sequence[MetricName]] = tuple(row.of for row in _ROWS)
"""All metrics of a store."""


def metrics_of(figures: StoreFigures, labels: Mapping[str, str] | None = None) -> list[Metric]:
    """The figures as metrics, one for each of STORE_METRICS. labels: added to each sample."""
    more = dict(labels or {})
    metrics = [Metric(row.of, list(row.samples(figures))) for row in _ROWS]
    if not more:
        return metrics
    return [
        Metric(
            _with_labels(metric.of, more),
            [Sample(sample.value, {**sample.labels, **more}) for sample in metric.samples],
        )
        for metric in metrics
    ]


def _with_labels(name: MetricName, labels: Mapping[str, str]) -> MetricName:
    return name._replace(labels=(*name.labels, *labels))


class StoreMetrics:
    """The metrics of one open store, for an adapter."""

    def __init__(self, store: MessageStore, labels: Mapping[str, str] | None = None) -> None:
        """labels: added to each sample, to tell several stores of a process apart."""
        self._store = store
        self._labels = dict(labels or {})

    @property
    def names(self) -> Sequence[MetricName]:
        return [_with_labels(name, self._labels) for name in STORE_METRICS]

    def metrics(self) -> Sequence[Metric]:
        return metrics_of(store_figures(self._store), self._labels)

    def __repr__(self) -> str:
        return f"StoreMetrics({self._store!r}, {self._labels})"
