r"""The figures of a server in Prometheus' text form: a name, its labels, its value, a line each.

    # TYPE rocketmq_storage_size gauge
    rocketmq_storage_size 131072

Names are RocketMQ's where it has the same figure, and begin with mqstore_ where it has not. Pure; any thread.
Source: Prometheus' exposition formats; BrokerMetricsConstant, DefaultStoreMetricsConstant of Apache RocketMQ.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mqstore.remoting.request_codes import RequestCode
from mqstore.store_stats import StoreStats

__all__ = ["CONTENT_TYPE", "ServerFigures", "prometheus_text"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class ServerFigures(NamedTuple):
    """What a server counts itself. requests: by code."""

    connections: int
    held_pulls: int
    requests: Mapping[int, int]


class _Sample(NamedTuple):
    value: int
    labels: Mapping[str, object] = {}


def prometheus_text(stats: StoreStats, figures: ServerFigures) -> str:
    """All of it, each name once."""
    counters = stats.counters
    parts = (
        _gauge("rocketmq_storage_size", [_Sample(stats.storage_size_bytes)]),
        _gauge("rocketmq_storage_flush_behind_bytes", [_Sample(stats.flush_behind_bytes)]),
        _gauge("rocketmq_storage_dispatch_behind_bytes", [_Sample(stats.dispatch_behind_bytes)]),
        _gauge("rocketmq_consumer_lag_messages", _lags(stats)),
        _gauge("mqstore_messages", [_Sample(stats.messages)]),
        _gauge("mqstore_topics", [_Sample(stats.topics)]),
        _gauge("mqstore_puts_refused", [_Sample(int(stats.refusal is not None))]),
        _gauge("mqstore_connections", [_Sample(figures.connections)]),
        _gauge("mqstore_held_pulls", [_Sample(figures.held_pulls)]),
        _counter("rocketmq_messages_in_total", _by("topic", counters.topic_put_nums)),
        _counter("rocketmq_messages_out_total", _by("topic_and_group", counters.group_get_nums)),
        _counter("mqstore_messages_sent_back_total", _by("topic_and_group", counters.sndbck_put_nums)),
        _counter("mqstore_requests_total", _requests(figures.requests)),
    )
    return "".join(parts)


def _lags(stats: StoreStats) -> list[_Sample]:
    return [
        _Sample(lag.lag, {"consumer_group": lag.group, "topic": lag.topic, "queue_id": lag.queue_id})
        for lag in stats.consumer_lags
    ]


def _by(label: str, table: Mapping[str, int]) -> list[_Sample]:
    return [_Sample(value, {label: name}) for name, value in sorted(table.items())]


def _requests(counts: Mapping[int, int]) -> list[_Sample]:
    return [
        _Sample(count, {"request_code": RequestCode(code).name}) for code, count in counts.items() if count
    ]


def _gauge(name: str, samples: Iterable[_Sample]) -> str:
    return _metric(name, "gauge", samples)


def _counter(name: str, samples: Iterable[_Sample]) -> str:
    return _metric(name, "counter", samples)


def _metric(name: str, kind: str, samples: Iterable[_Sample]) -> str:
    lines = [f"# TYPE {name} {kind}\n"]
    for value, labels in samples:
        shown = ",".join(f'{label}="{str(text).translate(_ESCAPES)}"' for label, text in labels.items())
        lines.append(f"{name}{{{shown}}} {value}\n" if shown else f"{name} {value}\n")
    return "".join(lines)
