"""What a pull collects: the limits, and that compiled loops and the plain one take the same.

Method: entries of a real small log are given to a collector as they lie, and as one alone that compiled loops
leave alone. The rules as a whole are tested through the reader (test_message_reader.py).
"""

from pathlib import Path

import pytest

from mqstore.index.pull import message_collector
from mqstore.index.pull.message_collector import Collected, MessageCollector
from mqstore.index.pull.tag_filter import parse_subscription
from mqstore.index.queue.consume_queue_format import PRE_BLANK_ENTRY
from mqstore.store.errors import CorruptRecord
from mqstore.store.files.file_system import FileSystem
from mqstore.store.status import GetMessageStatus
from support.stores.filled_queues import FilledQueues


@pytest.fixture
def filled(file_system: FileSystem, root: Path) -> FilledQueues:
    """Twelve messages with the tags a, b and c in turn, in one file of a queue."""
    filled = FilledQueues(file_system, root)
    for at in range(12):
        filled.put(b"body %d" % at, tags="abc"[at % 3])
    return filled


def entries_of(filled: FilledQueues) -> bytes:
    queue = filled.queues.find("orders", 0)
    assert queue is not None
    return bytes(queue.view_from(0, 100))


def collect(filled: FilledQueues, entries: bytes, tags: str = "*", max_msg_nums: int = 32) -> Collected:
    collector = MessageCollector(filled.log, filled.config)
    return collector.collect(memoryview(entries), parse_subscription(tags), max_msg_nums)


def bodies(collected: Collected) -> list[int]:
    return [int(message.body.split()[1]) for message in collected.messages]


def test_messages_their_entries_and_their_bytes(filled: FilledQueues) -> None:
    """Each of the three numbers is told."""
    collected = collect(filled, entries_of(filled), max_msg_nums=5)
    assert (bodies(collected), collected.examined) == ([0, 1, 2, 3, 4], 5)
    assert collected.total_bytes == sum(len(message.record) for message in collected.messages)
    assert collected.status is GetMessageStatus.FOUND


def test_nothing_wanted(filled: FilledQueues) -> None:
    """All entries are done with, and the status says why there is no message."""
    collected = collect(filled, entries_of(filled), tags="d")
    assert collected == Collected([], 12, 0, GetMessageStatus.NO_MATCHED_MESSAGE)
    assert collect(filled, b"") == Collected()


@pytest.mark.slow
@pytest.mark.parametrize("tags", ["*", "b", "a || c", "d"])
@pytest.mark.parametrize("max_msg_nums", [0, 1, 3, 4, 6, 40])
@pytest.mark.parametrize("blank_at", [0, 1, 5, 6, 12])
def test_compiled_loops_take_what_the_plain_one_takes(
    filled: FilledQueues, monkeypatch: pytest.MonkeyPatch, tags: str, max_msg_nums: int, blank_at: int
) -> None:
    """With a blank entry anywhere between them, any filter and any limit."""
    entries = entries_of(filled)
    entries = entries[: blank_at * 20] + PRE_BLANK_ENTRY + entries[blank_at * 20 :]
    compiled = collect(filled, entries, tags, max_msg_nums)
    monkeypatch.setattr(message_collector, "_FEW", 1_000)
    plain = collect(filled, entries, tags, max_msg_nums)
    assert bodies(compiled) == bodies(plain)
    assert (compiled.examined, compiled.total_bytes) == (plain.examined, plain.total_bytes)
    assert compiled.status is plain.status


def test_one_message_at_least(file_system: FileSystem, root: Path) -> None:
    """However few messages or bytes are allowed."""
    filled = FilledQueues(file_system, root, max_transfer_bytes_on_message_in_memory=1)
    for at in range(6):
        filled.put(b"body %d" % at)
    assert bodies(collect(filled, entries_of(filled))) == [0]
    assert bodies(collect(filled, entries_of(filled), max_msg_nums=0)) == [0]


def test_an_entry_of_another_record_is_an_error(filled: FilledQueues) -> None:
    """Behind ordinary ones too: what was collected before is not given out."""
    entries = bytearray(entries_of(filled))
    entries[9 * 20 + 11] += 1
    with pytest.raises(CorruptRecord, match="something else"):
        collect(filled, bytes(entries))
