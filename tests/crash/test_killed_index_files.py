"""What a broker finds by key in a directory of ours after a kill: everything, at whatever moment it was.

Method: messages are put, dispatched and flushed over files that fill up quickly; before each step on an index
file or the checkpoint, the directory as it is then goes through what RocketMQ does after an unclean stop:
IndexService#load drops the files that end later than checkpoint.indexMsgTimestamp, the others answer by slot
and chain, and of the segments from checkpoint.logicsPhysicalOffset on it puts in what lies behind their end.
"""

import random
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.index.index_file.index_file_format import (
    decode_entry,
    decode_header,
    decode_slot,
    entry_position,
    key_hash,
)
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.state.checkpoint_format import decode_checkpoint
from support.disks.watched_file_system import WatchedFileSystem
from support.manual_clock import ManualClock

ROOT = Path("/store")
SLOTS, ENTRIES = 40, 90
SEGMENT_BYTES = 68_000
CONFIG = StoreConfig(
    mapped_file_size_commit_log=SEGMENT_BYTES,
    mapped_file_size_consume_queue=2_000,
    max_message_size=2_048,
    key_index="index_file",
    max_hash_slot_num=SLOTS,
    max_index_num=ENTRIES,
    index_tags=False,
)

Key = tuple[int, int]
"""Hash and physical offset."""


class Broker:
    """Opens the directory after a kill, at any moment."""

    def __init__(self, watched: WatchedFileSystem) -> None:
        self._watched = watched
        self.put: list[Key] = []
        self.moments = 0

    def assert_misses_nothing(self, _step: str, path: Path) -> None:
        if path.parent.name != "index" and path.name != "checkpoint":
            return
        data = self._watched.read(ROOT / "checkpoint") if self._watched.exists(ROOT / "checkpoint") else b""
        checkpoint = decode_checkpoint(data)
        found: set[Key] = set()
        end_offset = 0
        for entry in self._watched.list(ROOT / "index"):
            file = self._watched.read(ROOT / "index" / entry.name)
            header = decode_header(memoryview(file))
            if header.end_timestamp_ms <= checkpoint.index_msg_timestamp:
                found |= _keys_in(memoryview(file), header.index_count)
                end_offset = header.end_physical_offset
        start = max(0, checkpoint.logics_physical_offset) // SEGMENT_BYTES * SEGMENT_BYTES
        missing = [key for key in self.put if key not in found and key[1] < max(start, end_offset)]
        assert not missing
        self.moments += 1


def _keys_in(file: memoryview, index_count: int) -> set[Key]:
    """What the chains of a file hold, walked as IndexFile#selectPhyOffset does."""
    found: set[Key] = set()
    for slot in range(SLOTS):
        number = decode_slot(file, slot)
        while 0 < number <= index_count and index_count > 1:
            entry = decode_entry(file, entry_position(number, SLOTS))
            found.add((entry.key_hash, entry.physical_offset))
            number = entry.previous_entry if entry.previous_entry != number else 0
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_broker_misses_no_key_after_a_kill(seed: int) -> None:
    """Whatever was flushed by then, and wherever a file was full."""
    chance = random.Random(seed)
    clock = ManualClock()
    watched = WatchedFileSystem(MemoryFileSystem())
    broker = Broker(watched)
    watched.before = broker.assert_misses_nothing
    for _ in range(3):
        store = MessageStore.open(ROOT, CONFIG, clock=clock, file_system=watched, start=False)
        for _ in range(80):
            clock.advance(chance.choice([0, 1, 700]))
            keys = [f"key-{chance.randrange(30)}" for _ in range(chance.randrange(5))]
            put = store.put_message(Message("orders", bytes(chance.randrange(2_000)), keys=keys))
            broker.put += [(key_hash("orders", key), put.physical_offset) for key in keys]
            if chance.random() < 0.2:
                store.flush()
        store.close()
    assert broker.moments > 100
    assert len(watched.list(ROOT / "index")) > 3
