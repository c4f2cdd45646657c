"""Segments made ahead of need: on disk they are there, all zero, and nobody minds.

Method: a small store is filled until its next segment is prepared, as the service does it. Then it is closed,
killed, read, copied and checked.
"""

import time
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.repair import rebuild
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.tools.spark.segments.segment_files import list_segments
from mqstore.verify.verification import verify
from support.manual_clock import ManualClock
from support.stores.small_log import SEGMENT_BYTES, small_config
from support.stores.small_store import SmallStore, bodies_of, kill

BODY = bytes(25_000)


@pytest.fixture
def small(file_system: FileSystem, root: Path, clock: ManualClock) -> SmallStore:
    return SmallStore(file_system, root / "store", clock=clock)


@pytest.fixture
def on_disk(tmp_path: Path, clock: ManualClock) -> SmallStore:
    return SmallStore(OsFileSystem(), tmp_path / "store", clock=clock)


def with_prepared(small: SmallStore, **settings: object) -> MessageStore:
    """Four records, and the second segment prepared."""
    store = small.open(**settings)
    for number in range(4):
        store.put_message(Message("orders", bytes([number]) * 25_000))
    store.commit_log.reserve_ahead()
    assert segments(small) == [0, SEGMENT_BYTES]
    assert store.stats().segments == 1
    return store


def wait_for_the_service(store: MessageStore) -> None:
    """Until it has seen what was put."""
    deadline_s = time.monotonic() + 60
    current = store.commit_log.offsets.current
    assert current is not None
    following = store.commit_log.path / f"{current.end_offset:020d}"
    while current.is_nearly_full and not following.exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def segments(small: SmallStore) -> list[int]:
    return [int(entry.name) for entry in small.file_system.list(small.path / "commitlog")]


def test_a_clean_close_leaves_no_empty_segment(small: SmallStore) -> None:
    """Also when the segment that was prepared is needed in the next life."""
    with_prepared(small).close()
    assert segments(small) == [0]
    with small.open() as store:
        store.put_message(Message("orders", bytes(40_000)))
        assert len(bodies_of(store, "orders")) == 5
    assert segments(small) == [0, SEGMENT_BYTES]


def test_a_killed_store_opens_without_a_word(small: SmallStore) -> None:
    """The opening deletes the empty segment; nothing is lost, and nothing is damage."""
    kill(with_prepared(small))
    assert segments(small) == [0, SEGMENT_BYTES]
    with small.open() as store:
        assert segments(small) == [0]
        assert len(bodies_of(store, "orders")) == 4
        store.put_message(Message("orders", bytes(40_000)))
        assert store.stats().segments == 2


def test_a_reader_beside_it_sees_what_is_there(small: SmallStore) -> None:
    """Before the segment is used, when it is, and when it was deleted."""
    with with_prepared(small) as store:
        store.flush()
        reader = small.open(read_only=True)
        assert len(bodies_of(reader, "orders")) == 4
        assert reader.max_offset == store.max_offset
        for _ in range(3):
            store.put_message(Message("orders", BODY))
        store.flush()
        reader.refresh()
        assert len(bodies_of(reader, "orders")) == 7
        for _ in range(2):
            store.put_message(Message("orders", BODY))
        store.commit_log.reserve_ahead()
        store.flush()
        reader.refresh()
        assert len(segments(small)) == 3
        store.close()
        assert len(segments(small)) == 2
        reader.refresh()
        assert len(bodies_of(reader, "orders")) == 9
        reader.close()


def test_retention_never_takes_the_segment_in_use(small: SmallStore, clock: ManualClock) -> None:
    """The one behind it is no newer segment."""
    with with_prepared(small, file_reserved_time=1) as store:
        store.flush()
        clock.advance(10 * 3_600_000)
        assert store.delete_expired_files() == 0
        assert len(bodies_of(store, "orders")) == 4


def test_the_tools_find_nothing_to_say(on_disk: SmallStore, tmp_path: Path) -> None:
    """verify, rebuild and Spark over a killed store; a backup beside the writer."""
    store = with_prepared(on_disk)
    store.backup(tmp_path / "copy")
    kill(store)
    assert [int(path.name) for path in (tmp_path / "copy" / "commitlog").iterdir()] == [0]
    for root in (on_disk.path, tmp_path / "copy"):
        report = verify(root, small_config())
        assert (report.is_sound, report.findings, report.records) == (True, (), 4)
    assert [each.start_offset for each in list_segments(on_disk.path)] == [0]
    rebuild(on_disk.path, small_config())
    with on_disk.open() as again:
        assert len(bodies_of(again, "orders")) == 4


def test_the_service_prepares_by_itself(on_disk: SmallStore) -> None:
    """No put that rolls creates a file, as long as the service keeps up; a clean close takes it away."""
    with on_disk.open(start=True) as store:
        for _ in range(12):
            store.put_message(Message("orders", BODY))
            wait_for_the_service(store)
    assert store.stats().errors == {}
    assert all((on_disk.path / "commitlog" / f"{start:020d}").stat().st_size for start in segments(on_disk))
    assert max(segments(on_disk)) == store.commit_log.max_offset // SEGMENT_BYTES * SEGMENT_BYTES
