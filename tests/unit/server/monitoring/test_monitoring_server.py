"""Metrics and health over HTTP: what Prometheus and an orchestrator ask."""

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from mqstore import Message, MessageStore
from mqstore.server.monitoring.monitoring_server import monitoring
from mqstore.server.monitoring.prometheus_text import ServerFigures
from mqstore.store.errors import StorePoisoned
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore

FIGURES = ServerFigures(3, 2, {10: 5, 11: 0})
LINE = re.compile(r'(# TYPE \w+ (gauge|counter)|\w+(\{(\w+="[^"\n]*",?)+\})? -?\d+)')


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
        'mqstore_requests_total{request_code="SEND_MESSAGE"} 5',
    ):
        assert line in text.splitlines()
    assert "PULL_MESSAGE" not in text


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
