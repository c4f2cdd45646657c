"""A consume queue that somebody has deleted: noticed when the store is opened, and rebuilt from the log.

Goal: no queue offset is given twice, whatever is missing in `consumequeue/`. An opening reads the end of the
log only, so what is kept beside the queues must tell.
"""

from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.store.files.file_system import FileSystem
from support.manual_clock import ManualClock
from support.stores.small_log import small_config
from support.stores.small_store import SmallStore, messages_of


@pytest.fixture
def small(file_system: FileSystem, root: Path, clock: ManualClock) -> SmallStore:
    return SmallStore(file_system, root / "store", clock=clock)


def fill(store: MessageStore, count: int) -> None:
    for number in range(count):
        for topic, queue_id in (("orders", 0), ("orders", 1), ("events", 0)):
            store.put_message(Message(topic, b"%d" % number, queue_id=queue_id))


def lose(small: SmallStore, topic: str, queue_id: int, *, directory_too: bool) -> None:
    """What a hand does that slips."""
    directory = small.path / "consumequeue" / topic / str(queue_id)
    for entry in small.file_system.list(directory):
        small.file_system.delete(directory / entry.name)
    if directory_too:
        small.file_system.delete_directory(directory)


def opened_telling(small: SmallStore, told: list[str]) -> MessageStore:
    """The store, opened; what it did on the way goes into `told`."""
    return MessageStore.open(
        small.path,
        small_config(),
        clock=small.clock,
        file_system=small.file_system,
        start=False,
        on_progress=lambda what, done, total: told.append(what),
    )


@pytest.mark.parametrize("directory_too", [True, False])
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_lost_queue_is_rebuilt_and_counts_on(
    small: SmallStore, *, is_killed: bool, directory_too: bool
) -> None:
    """After a clean close and after a kill, with its directory or without: byte for byte what it was."""
    with small.open() as store:
        fill(store, 150)
    before = {name: data for name, data in small.content.items() if name.startswith("consumequeue")}
    if is_killed:
        with small.killed() as store:
            store.flush()
    lose(small, "orders", 1, directory_too=directory_too)
    with small.open() as store:
        assert [message.body for message in messages_of(store, "orders", 1)] == [
            b"%d" % n for n in range(150)
        ]
        assert store.put_message(Message("orders", b"next", queue_id=1)).queue_offset == 150
        assert store.put_message(Message("orders", b"next", queue_id=0)).queue_offset == 150
    after = small.content
    assert {name: after[name] for name in before if "/orders/1/" in name}.keys() == {
        name for name in before if "/orders/1/" in name
    }
    assert all(after[name] == data for name, data in before.items() if "/events/" in name)


@pytest.mark.parametrize("index", [0, -1])
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_lost_file_of_a_queue_is_noticed(small: SmallStore, *, is_killed: bool, index: int) -> None:
    """The last one, or its numbers would be given out again; and the first, whose messages were hidden."""
    with small.open() as store:
        fill(store, 350)
    if is_killed:
        with small.killed() as store:
            store.flush()
    directory = small.path / "consumequeue" / "orders" / "1"
    files = small.file_system.list(directory)
    assert len(files) == 4
    small.file_system.delete(directory / files[index].name)
    with small.open() as store:
        assert len(messages_of(store, "orders", 1)) == 350
        assert store.put_message(Message("orders", b"next", queue_id=1)).queue_offset == 350
    assert small.file_system.list(directory) == files


def test_files_that_retention_takes_are_not_missed(small: SmallStore) -> None:
    """Though the names on the disk are those of before, as after a kill in the middle of it."""
    told: list[str] = []
    with small.open() as store:
        fill(store, 350)
        for topic in ("orders", "events"):
            store.put_messages([Message(topic, bytes(50_000))] * 10)
        store.flush()
        names = small.file_system.read(small.path / "mqstore" / "queue-names")
        store.commit_log.files.delete_first()
        assert store.consume_queues.delete_expired(store.min_offset) > 0
    for content in (small.file_system.read(small.path / "mqstore" / "queue-names"), names):
        small.file_system.write(small.path / "mqstore" / "queue-names", content)
        with opened_telling(small, told) as store:
            assert store.get_min_offset_in_queue("events", 0) == 350
    assert "dispatch" not in told


def test_a_queue_that_is_complete_is_not_rebuilt(small: SmallStore) -> None:
    """Nothing is dispatched again when nothing is missing."""
    with small.open() as store:
        fill(store, 5)
    told: list[str] = []
    opened_telling(small, told).close()
    assert "dispatch" not in told


def test_a_store_without_names_takes_those_it_finds(small: SmallStore) -> None:
    """One that a broker, or an earlier version, has written: what it has from now on is not lost again."""
    with small.open() as store:
        fill(store, 5)
    small.file_system.delete(small.path / "mqstore" / "queue-names")
    with small.open() as store:
        store.put_message(Message("others", b"of another queue"))
    lose(small, "orders", 1, directory_too=True)
    with small.open() as store:
        assert store.put_message(Message("orders", b"next", queue_id=1)).queue_offset == 5


@pytest.mark.parametrize("content", [b"", b"MQSQ", b"MQSQ\0\0\0\2{}\0\0\0\0", b"MQSQ\0\0\0\3{}\0\0\0\0"])
def test_damaged_names_cost_nothing(small: SmallStore, content: bytes) -> None:
    """They are a check, not the truth: the store opens, and writes them anew."""
    with small.open() as store:
        fill(store, 5)
    path = small.path / "mqstore" / "queue-names"
    whole = small.file_system.read(path)
    small.file_system.write(path, content)
    with small.open() as store:
        assert store.put_message(Message("orders", b"next", queue_id=1)).queue_offset == 5
    assert small.file_system.read(path) == whole
