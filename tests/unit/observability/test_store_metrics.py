"""The metrics of a store: each name once, its samples with its labels, and labels that are added."""

from pathlib import Path

import pytest

from mqstore import Message
from mqstore.observability.metric import Kind, Metric
from mqstore.observability.store_metrics import STORE_METRICS, StoreMetrics
from mqstore.store.errors import StorePoisoned
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore


def by_name(metrics: StoreMetrics) -> dict[str, Metric]:
    found = {metric.of.name: metric for metric in metrics.metrics()}
    assert list(found) == [name.name for name in metrics.names]
    return found


def test_names_are_proper() -> None:
    """Counters end in _total, as Prometheus wants it; each name is there once and says what it means."""
    assert len({name.name for name in STORE_METRICS}) == len(STORE_METRICS)
    for name in STORE_METRICS:
        assert (name.kind is Kind.COUNTER) == name.name.endswith("_total"), name
        assert name.meaning.endswith("."), name


def test_samples_have_the_labels_of_their_metric() -> None:
    """A store that has had a bit of everything gives each metric but that of failed services."""
    clock = ManualClock()
    with SmallStore(MemoryFileSystem(), Path("/store"), clock=clock).open() as store:
        put = store.put_message(Message("orders", b"x"))
        store.put_message(Message("orders", b"later", delay_level=1))
        store.consumer_send_msg_back("billing", put.physical_offset, -1)
        store.get_message("billing", "orders", 0, 0)
        store.consumer_offsets.commit("billing", "orders", 0, 0)
        clock.advance(3_000)
        found = by_name(StoreMetrics(store))
    for metric in found.values():
        assert all(tuple(sample.labels) == metric.of.labels for sample in metric.samples), metric
    assert [name for name, metric in found.items() if not metric.samples] == ["mqstore_service_failed"]
    values = {
        (metric.of.name, *sample.labels.values()): sample.value
        for metric in found.values()
        for sample in metric.samples
    }
    assert values["mqstore_delayed_messages", "1"] == 1
    assert values["mqstore_delay_lateness_seconds", "1"] == 2
    assert values["rocketmq_send_to_dlq_messages_total", "billing", "%DLQ%billing"] == 1
    assert values["rocketmq_messages_out_total", "orders", "billing", "orders@billing"] == 1
    assert values["rocketmq_consumer_lag_messages", "billing", "orders", "0"] == 1


def test_labels_tell_stores_apart() -> None:
    """They are on each sample, and among the labels of each name."""
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
        metrics = StoreMetrics(store, {"store": "north"})
        for metric in metrics.metrics():
            assert metric.of.labels[-1] == "store"
            assert all(sample.labels["store"] == "north" for sample in metric.samples)


def test_a_store_that_refuses_puts_says_so() -> None:
    """After a failed sync, and without a step of any service."""
    disk = SimulatedDisk(clock=ManualClock())
    with SmallStore(disk, Path("/store")).open(flush_disk_type="SYNC_FLUSH") as store:
        store.put_message(Message("orders", b"x"))

        def before(what: str, path: Path) -> None:
            if what == "sync" and path.parent.name == "commitlog":
                raise OSError(5, "Input/output error", str(path))

        disk.before = before
        with pytest.raises(StorePoisoned):
            store.put_message(Message("orders", b"y"))
        disk.before = lambda what, path: None
        assert by_name(StoreMetrics(store))["mqstore_puts_refused"].samples[0].value == 1
