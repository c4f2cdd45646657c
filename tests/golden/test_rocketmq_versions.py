"""Small directories of each RocketMQ version: mqstore finds in them what RocketMQ itself found.

Made by support/interop/golden.py with 5.5.0, 5.1.4 and 4.9.7, closed or killed: 400 messages in small files,
of every shape that support/interop/messages.py knows. Method: each is opened as it is, reading only, and as a
copy that is recovered for writing; every queue entry, every field of every message, every consumer offset and
the range of the log are compared with the manifest. The same without Java as tests/interop/ does with it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.golden.manifest import VERSION_NAMES, manifest
from support.interop.golden import SETTINGS
from support.interop.mqstore import Operations


@pytest.fixture(params=VERSION_NAMES)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(params=["read-only", "recovered"])
def opened(
    request: pytest.FixtureRequest,
    name: str,
    golden_directory: Callable[[str], Path],
    golden_copy: Callable[[str], Path],
) -> Iterator[Operations]:
    """The directory, open in mqstore."""
    read_only = request.param == "read-only"
    path = (golden_directory if read_only else golden_copy)(name)
    store = Operations()
    store.open(str(path), SETTINGS | {"read_only": read_only, "start": False})
    yield store
    store.close()


@pytest.mark.slow
def test_the_log_begins_and_ends_where_theirs_does(opened: Operations, name: str) -> None:
    assert (opened.range(),) == manifest(name, "log")


@pytest.mark.slow
def test_every_entry_of_every_queue(opened: Operations, name: str) -> None:
    """Physical offset, size and tags code of each; the queue's range; and no queue more or less."""
    expected = manifest(name, "queue")
    assert len(expected) > 40
    found = {(queue["topic"], queue["queue_id"]): queue for queue in opened.queues() if queue["max_offset"]}
    assert len(found) == len(expected)
    for queue in expected:
        of_ours = found[queue["topic"], queue["queue_id"]]
        of_ours["entries"] = [list(entry) for entry in of_ours["entries"]]
        assert of_ours == queue


@pytest.mark.slow
def test_every_field_of_every_message(opened: Operations, name: str) -> None:
    """Also of half and rollback records, which no queue has."""
    expected = manifest(name, "message")
    assert len(expected) >= 400
    for message, found in zip(
        expected, opened.messages([message["physical_offset"] for message in expected]), strict=True
    ):
        assert found == message


@pytest.mark.slow
def test_consumer_positions(opened: Operations, name: str) -> None:
    """Every group stands where it stood."""
    (expected,) = manifest(name, "state")
    assert opened.state()["consumerOffset"] == expected["consumerOffset"]


@pytest.mark.slow
def test_every_message_is_pulled(opened: Operations, name: str) -> None:
    """Following next_begin_offset from 0 gives every entry of a queue once, in order."""
    for queue in manifest(name, "queue"):
        offset, pulled = 0, []
        while offset < queue["max_offset"]:
            (answer,) = opened.get([["group-1", queue["topic"], queue["queue_id"], offset, 32, "*"]])
            pulled += answer["physical_offsets"]
            offset = answer["next_begin_offset"]
        assert pulled == [entry[0] for entry in queue["entries"]]
