"""The events of a store and its clients, as a program's handler gets them: from the opening to the close.

Each is brought about for real: a crash, a disk that fails or is full, a segment that ends, a dead letter.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore
from mqstore.repair import rebuild, repair_in_place
from mqstore.store.errors import StoreFull, StorePoisoned
from mqstore.store.files.file_system import DiskUsage
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.clients.failing_consumer import fail_until_dead
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore

Events = Callable[[], list[tuple[str, dict[str, Any]]]]
STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "event"}


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Events:
    """The events since the last call, with their fields."""
    caplog.set_level(logging.INFO, "mqstore")

    def since() -> list[tuple[str, dict[str, Any]]]:
        records = [record for record in caplog.records if hasattr(record, "event")]
        caplog.clear()
        return [
            (record.event, {name: value for name, value in vars(record).items() if name not in STANDARD})  # type: ignore[attr-defined]
            for record in records
        ]

    return since


@pytest.fixture
def small() -> SmallStore:
    return SmallStore(MemoryFileSystem(), Path("/store"))


def names_of(told: Events) -> list[str]:
    return [name for name, _ in told()]


def test_the_life_of_a_store(small: SmallStore, told: Events) -> None:
    """Opened, closed, opened again; and after a kill it is recovered."""
    with small.open() as store:
        end = store.put_message(Message("orders", b"x")).physical_offset + 118
    assert told() == [
        ("store.opened", {"store_path": "/store", "read_only": False, "min_offset": 0, "max_offset": 0}),
        ("store.closed", {"store_path": "/store", "max_offset": end}),
    ]
    with small.killed() as store:
        store.put_message(Message("orders", b"x"))
        store.flush()
    told()
    small.open().close()
    (name, fields), *_ = told()
    assert name == "store.recovered"
    assert (fields["end_offset"], fields["erased_bytes"]) == (2 * end, 0)


def test_a_segment_that_ends(small: SmallStore, told: Events) -> None:
    """Told by the next look of a service, once."""
    with small.open() as store:
        size = store.config.mapped_file_size_commit_log
        store.put_message(Message("orders", b"x"))
        store._services.reserve()
        told()
        while store.max_offset < size:
            store.put_message(Message("orders", b"x" * 5_000))
        store._services.reserve()
        store._services.reserve()
        segment = f"/store/commitlog/{size:020}"
        assert told() == [
            ("log.segment_begun", {"store_path": "/store", "segment": segment, "start_offset": size})
        ]


def test_a_disk_that_fails(told: Events) -> None:
    """Once, with the reason, and not as a disk that is full."""
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
        told()
        store._services.reserve()
        store._services.reserve()
        ((name, fields),) = told()
        assert name == "store.failed"
        assert "Input/output error" in fields["reason"]


def test_a_disk_that_is_full_and_has_room_again(
    small: SmallStore, told: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused once, accepted once."""
    with small.open() as store:
        told()
        for free in (0, 0, 100):
            monkeypatch.setattr(small.file_system, "disk_usage", lambda path, free=free: DiskUsage(100, free))
            store._services.retain()
            if not free:
                with pytest.raises(StoreFull):
                    store.put_message(Message("orders", b"x"))
            store._services.reserve()
        assert names_of(told) == ["store.puts_refused", "store.puts_accepted"]


def test_a_message_that_nobody_could_consume(told: Events) -> None:
    """The queues that the group got, and the dead letter with the id that its sender knows."""
    letter = fail_until_dead(lambda *_: None, Message("orders", b"x"))
    found = told()
    assert ("consumer.rebalanced", {"consumer_group": "billing", "topic": "orders", "queues": 8}) in found
    dead = {
        "consumer_group": "billing",
        "topic": "orders",
        "message_id": letter.unique_key,
        "reconsume_times": 2,
    }
    assert [fields for name, fields in found if name == "message.dead_lettered"] == [dead]


def test_a_dead_letter_that_a_client_put(small: SmallStore, told: Events) -> None:
    """The second way of a send-back, and that of a group in order."""
    with small.open() as store:
        told()
        properties = {"RETRY_TOPIC": "orders", "UNIQ_KEY": "u-1", "RECONSUME_TIME": "3"}
        store.put_retry(Message("%RETRY%billing", b"x", properties=properties), is_in_order=False)
        assert told() == []
        store.put_retry(Message("%RETRY%billing", b"x", properties=properties), is_in_order=True)
        fields = {"consumer_group": "billing", "topic": "orders", "message_id": "u-1", "reconsume_times": 3}
        assert told() == [("message.dead_lettered", fields)]


@pytest.mark.slow
def test_a_repair_and_a_rebuild(tmp_path: Path, told: Events) -> None:
    """With what was found, and what there is then."""
    with MessageStore.open(tmp_path) as store:
        put = store.put_message(Message("orders", b"x" * 100))
        store.put_message(Message("orders", b"y" * 100))
        segment, position = store.commit_log.place_of(put.physical_offset)
    data = bytearray(segment.read_bytes())
    data[position + 90] ^= 1
    segment.write_bytes(data)
    told()
    repair_in_place(tmp_path)
    repaired = dict(told())["store.repaired"]
    assert (repaired["store_path"], repaired["placeholders"]) == (str(tmp_path), 1)
    assert repaired["findings"] > 0
    rebuild(tmp_path, queues=True)
    assert dict(told())["store.rebuilt"] == {"store_path": str(tmp_path), "queues": 1, "messages": 2}
