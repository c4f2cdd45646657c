r"""The metrics of a server in Prometheus' text form: a name, its labels, its value, a line each.

    # HELP rocketmq_storage_size Bytes of the commit log.
    # TYPE rocketmq_storage_size gauge
    rocketmq_storage_size 131072

The figures of the store, and their names, are those of observability/store_metrics.py; a server adds what it
counts itself. It needs no library: `mqstore serve` of a plain install has it. Pure; any thread.
Source: Prometheus' exposition formats.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mqstore.observability.metric import Kind, Metric, MetricName, Sample
from mqstore.observability.store_figures import StoreFigures
from mqstore.observability.store_metrics import metrics_of
from mqstore.remoting.request_codes import RequestCode

__all__ = ["CONTENT_TYPE", "SERVER_METRICS", "ServerFigures", "prometheus_text"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

_CONNECTIONS: Final = MetricName("mqstore_connections", Kind.GAUGE, (), "Connections of clients.")
_HELD_PULLS: Final = MetricName("mqstore_held_pulls", Kind.GAUGE, (), "Pulls that wait for a message.")
_REQUESTS: Final = MetricName("mqstore_requests_total", Kind.COUNTER, ("request_code",), "Requests served.")
SERVER_METRICS: Final[Sequence[MetricName]] = (_CONNECTIONS, _HELD_PULLS, _REQUESTS)
"""What a server has beside the metrics of its store."""


class ServerFigures(NamedTuple):
    """What a server counts itself. requests: by code."""

    connections: int
    held_pulls: int
    requests: Mapping[int, int]


def prometheus_text(store: StoreFigures, figures: ServerFigures) -> str:
    """All of it, each name once."""
    requests = [
        Sample(count, {"request_code": RequestCode(code).name})
        for code, count in figures.requests.items()
        if count
    ]
    metrics = (
        *metrics_of(store),
        Metric(_CONNECTIONS, [Sample(figures.connections)]),
        Metric(_HELD_PULLS, [Sample(figures.held_pulls)]),
        Metric(_REQUESTS, requests),
    )
    return "".join(map(_text_of, metrics))


def _text_of(metric: Metric) -> str:
    name, kind, _, meaning, _ = metric.of
    lines = [f"# HELP {name} {meaning}\n# TYPE {name} {kind.value}\n"]
    for value, labels in metric.samples:
        shown = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels.items())
        lines.append(f"{name}{{{shown}}} {value}\n" if shown else f"{name} {value}\n")
    return "".join(lines)
