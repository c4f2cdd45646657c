"""Metrics and health over HTTP: what Prometheus and an orchestrator ask."""

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from mqstore import Message, MessageStore
from mqstore.observability.prometheus import MetricsCollector
from mqstore.observability.store_metrics import StoreMetrics
from mqstore.server.monitoring.monitoring_server import monitoring
from mqstore.server.monitoring.prometheus_text import SERVER_METRICS, ServerFigures
from mqstore.store.errors import StorePoisoned
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore

FIGURES = ServerFigures(3, 2, {10: 5, 11: 0})
LINE = re.compile(
    r'(# TYPE \w+ (gauge|counter)|# HELP \w+ \w.*\.|\w+(\{(\w+="[^"\n]*",?)+\})? -?\d+(\.\d+)?)'
)


@pytest.fixture
def disk(clock: ManualClock) -> SimulatedDisk:
    return SimulatedDisk(clock=clock)


@pytest.fixture
def store(disk: SimulatedDisk, clock: ManualClock) -> Iterator[MessageStore]:
    with SmallStore(disk, Path("/store"), clock=clock).open(flush_disk_type="SYNC_FLUSH") as opened:
        yield opened


@pytest.fixture
def address(store: MessageStore) -> Iterator[str]:
    with monitoring(store, lambda: FIGURES, 0) as served:
        yield served


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_metrics_are_prometheus_text(store: MessageStore, address: str) -> None:
    """Each line is a type or a sample, and the figures are those of the store and the server."""
    store.put_message(Message("orders", b"x"))
    store.consumer_offsets.commit("billing", "orders", 0, 0)
    assert store.get_max_offset_in_queue("orders", 0) == 1
    status, text = get(address, "/metrics")
    assert status == 200
    assert all(LINE.fullmatch(line) for line in text.splitlines())
    for line in (
        "mqstore_messages 1",
        "mqstore_connections 3",
        "mqstore_held_pulls 2",
        'rocketmq_consumer_lag_messages{consumer_group="billing",topic="orders",queue_id="0"} 1',
        'rocketmq_messages_in_total{topic="orders"} 1',
        'rocketmq_throughput_in_total{topic="orders"} 118',
        'mqstore_requests_total{request_code="SEND_MESSAGE"} 5',
    ):
        assert line in text.splitlines()
    assert "PULL_MESSAGE" not in text


def test_it_is_what_a_program_gives_of_the_same_store(store: MessageStore, address: str) -> None:
    """Prometheus' own parser reads the same samples from the server's text and the library's registry."""
    store.put_message(Message("orders", b"x"))
    store.consumer_offsets.commit("billing", "orders", 0, 0)
    registry = CollectorRegistry()
    registry.register(MetricsCollector(StoreMetrics(store)))
    store.get_message("billing", "orders", 0, 0)
    of_program, of_server = samples(generate_latest(registry).decode()), samples(get(address, "/metrics")[1])
    assert of_program.pop(("mqstore_sources_up", ())) == 1
    more = {name for name, _ in of_server.keys() - of_program.keys()}
    assert more == {name.name for name in SERVER_METRICS}
    # Others write to the disk meanwhile.
    assert {key: of_server[key] for key in of_program if "disk_free" not in key[0]} == {
        key: value for key, value in of_program.items() if "disk_free" not in key[0]
    }


def test_health_says_whether_puts_are_taken(disk: SimulatedDisk, store: MessageStore, address: str) -> None:
    """503 with the reason once a sync has failed; other paths are not found."""
    store.put_message(Message("orders", b"x"))
    assert get(address, "/health") == (200, "ok\n")

    def before(what: str, path: Path) -> None:
        if what == "sync" and path.parent.name == "commitlog":
            raise OSError(5, "Input/output error", str(path))

    disk.before = before
    with pytest.raises(StorePoisoned):
        store.put_message(Message("orders", b"y"))
    disk.before = lambda what, path: None
    status, text = get(address, "/health")
    assert status == 503
    assert text.strip()
    assert get(address, "/")[0] == 404


def test_a_closed_store_is_not_healthy(disk: SimulatedDisk, clock: ManualClock) -> None:
    """While the server ends."""
    closed = SmallStore(disk, Path("/other"), clock=clock).open()
    closed.close()
    with monitoring(closed, lambda: FIGURES, 0) as address:
        assert get(address, "/metrics")[0] in (200, 503)
