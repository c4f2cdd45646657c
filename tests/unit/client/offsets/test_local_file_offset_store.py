"""Offsets of a broadcasting consumer in a file: where it is, what a persist keeps, and the copy before it."""

from pathlib import Path

import pytest

from mqstore.broker.broker import MessageQueue
from mqstore.client.offsets.local_file_offset_store import LocalFileOffsetStore
from mqstore.client.offsets.local_offset_format import decode
from mqstore.store.errors import StateFileCorrupt
from mqstore.store.files.file_system import FileSystem

CLIENT = "127.0.0.1@DEFAULT"
QUEUE, OTHER = MessageQueue("orders", "broker-a", 0), MessageQueue("refunds", "broker-a", 0)


def opened(file_system: FileSystem, root: Path) -> LocalFileOffsetStore:
    offsets = LocalFileOffsetStore(file_system, root, CLIENT, "billing")
    offsets.load()
    return offsets


def test_where_it_is(file_system: FileSystem, root: Path) -> None:
    """Row Where: <clientId>/<group>/offsets.json, and its .bak."""
    offsets = opened(file_system, root)
    for offset in (1, 2):
        offsets.update(QUEUE, offset, increase_only=True)
        offsets.persist(QUEUE)
    path = root / CLIENT / "billing" / "offsets.json"
    assert offsets.path == path
    assert decode(file_system.read(path)) == {QUEUE: 2}
    assert decode(file_system.read(path.with_name("offsets.json.bak"))) == {QUEUE: 1}


def test_nothing_is_written_without_an_offset(file_system: FileSystem, root: Path) -> None:
    """Row readOffset: -1 if none, and no file comes to be."""
    offsets = opened(file_system, root)
    offsets.persist_all([QUEUE])
    assert (offsets.read(QUEUE), offsets.read_kept(QUEUE)) == (-1, -1)
    assert not file_system.exists(offsets.path)


def test_another_start_goes_on(file_system: FileSystem, root: Path) -> None:
    """What was persisted is loaded."""
    offsets = opened(file_system, root)
    offsets.update(QUEUE, 5, increase_only=True)
    offsets.persist_all([QUEUE])
    again = opened(file_system, root)
    assert (again.read(QUEUE), again.read_kept(QUEUE)) == (5, 5)


def test_a_persist_keeps_what_others_wrote(file_system: FileSystem, root: Path) -> None:
    """Row persistAll: read, merge, rewrite; queues that are not owned keep the offset of the file."""
    first, second = opened(file_system, root), opened(file_system, root)
    first.update(QUEUE, 5, increase_only=True)
    first.persist_all([QUEUE])
    second.update(OTHER, 7, increase_only=True)
    second.update(QUEUE, 1, increase_only=True)
    second.persist_all([OTHER])
    assert decode(file_system.read(first.path)) == {QUEUE: 5, OTHER: 7}


def test_the_copy_counts_where_the_file_is_damaged(file_system: FileSystem, root: Path) -> None:
    """As RocketMQ's readLocalOffsetBak."""
    offsets = opened(file_system, root)
    for offset in (1, 2):
        offsets.update(QUEUE, offset, increase_only=True)
        offsets.persist(QUEUE)
    file_system.write(offsets.path, b"{damaged")
    assert opened(file_system, root).read(QUEUE) == 1


def test_damage_of_both_is_an_error(file_system: FileSystem, root: Path) -> None:
    """It names the file; nobody begins anew by mistake."""
    offsets = opened(file_system, root)
    offsets.update(QUEUE, 1, increase_only=True)
    offsets.persist(QUEUE)
    file_system.write(offsets.path, b"{damaged")
    with pytest.raises(StateFileCorrupt):
        opened(file_system, root)
