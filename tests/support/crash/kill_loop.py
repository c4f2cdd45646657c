"""The kill loop: a forked child says what was acknowledged and is killed with SIGKILL, again and again.

The parent is the oracle: it reads what the child says from a pipe and keeps it, and from time to time
opens the directory and compares. A third of the kills strike while the child is still opening (and
recovering from the kill before). The seed decides how many acknowledgements are waited for; the moment at
which a signal strikes is not determined, so runs differ. What it cannot show is a power cut: the
kernel keeps the pages.
"""

import dataclasses
import os
import random
import select
import signal
import threading
import time
import zlib
from pathlib import Path
from typing import NamedTuple

from mqstore import MessageStore
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from support.crash import killed_putter
from support.twins.log_walk import SCHEDULE_TOPIC, LogRecord, walk_log

__all__ = ["KillFigures", "kill_again_and_again"]

CONFIG = dataclasses.replace(killed_putter.CONFIG, max_hash_slot_num=500, max_index_num=2_000)
_PATIENCE_S = 60
_LOOK_EVERY = 100


class KillFigures(NamedTuple):
    """Counts: kills, messages acknowledged before them, copies delivered, records in the log at the end."""

    kills: int
    acknowledged: int
    delivered: int
    records: int


def kill_again_and_again(path: Path, kills: int, seed: int) -> KillFigures:
    """Kill `kills` children one after the other on one directory. Raises AssertionError for anything lost."""
    _warm_up()
    chance = random.Random(seed)
    said: list[list[str]] = []
    delivered = records = 0
    for number in range(kills):
        said += _run_and_kill(path, f"{seed}-{number}", chance, while_opening=number % 3 == 2)
        if number % _LOOK_EVERY == _LOOK_EVERY - 1 or number == kills - 1:
            delivered, records = _look(path, said)
    return KillFigures(kills, len(said), delivered, records)


def _warm_up() -> None:
    """Load compiled code once, here, so that no child needs to."""
    store = MessageStore.open("/store", CONFIG, file_system=MemoryFileSystem(), start=False)
    store.put_message(killed_putter.message(random.Random(1), "warm"))
    store.close()


def _run_and_kill(path: Path, run: str, chance: random.Random, *, while_opening: bool) -> list[list[str]]:
    reader, writer = os.pipe()
    process_id = os.fork()
    if process_id == 0:
        _put_until_killed(path, run, reader, writer)
    os.close(writer)
    text = bytearray()
    try:
        if while_opening:
            time.sleep(chance.uniform(0, 0.04))
        else:
            wanted = chance.randrange(2, 60)
            while text.count(b"\n") < wanted:
                ready, _, _ = select.select([reader], [], [], _PATIENCE_S)
                part = os.read(reader, 65_536) if ready else b""
                assert part, f"the child of run {run} said no more after {text[-200:]!r}"
                text += part
        os.kill(process_id, signal.SIGKILL)
        while part := os.read(reader, 65_536):
            text += part
    finally:
        os.close(reader)
        _, status = os.waitpid(process_id, 0)
    assert os.WIFSIGNALED(status), f"the child of run {run} ended by itself"
    # The last line may be cut; then that message was not acknowledged.
    lines = text.decode().split("\n")[:-1]
    return [line.split() for line in lines if line != "open"]


def _put_until_killed(path: Path, run: str, reader: int, writer: int) -> None:
    try:
        os.close(reader)
        os.dup2(writer, 1)
        store = MessageStore.open(path, CONFIG)
        os.write(1, b"open\n")
        for thread in range(3):
            threading.Thread(
                target=killed_putter.put_for_ever, args=(store, run, thread), daemon=True
            ).start()
        threading.Event().wait()
    finally:
        os._exit(1)


def _look(path: Path, said: list[list[str]]) -> tuple[int, int]:
    """Open the directory and compare; returns the copies delivered and the records in the log."""
    with MessageStore.open(path, CONFIG, start=False) as store:
        records, end = walk_log(OsFileSystem(), path / "commitlog")
        assert (end.offset, end.bytes_behind) == (store.max_offset, 0)
        assert all(record.is_whole for record in records)
        _compare_with_what_was_said(records, said)
        _compare_queues(store, records)
        for topic, _, _, _, _, key in said[-200:]:
            assert any(key in message.keys for message in store.query_message(topic, key)), (topic, key)
    return _delivered(records), len(records)


def _compare_with_what_was_said(records: list[LogRecord], said: list[list[str]]) -> None:
    by_offset = {record.physical_offset: record for record in records}
    for topic, queue_id, queue_offset, physical_offset, crc, key in said:
        record = by_offset.get(int(physical_offset))
        assert record is not None, f"acknowledged message {key} at {physical_offset} is lost"
        found = (record.topic, record.queue_id, record.queue_offset, zlib.crc32(record.body))
        assert found == (topic, int(queue_id), int(queue_offset), int(crc)), (found, key)
        assert record.properties["KEYS"] == key
    places = {physical_offset for _, _, _, physical_offset, _, _ in said}
    assert len(places) == len(said), "an offset was given twice"


def _compare_queues(store: MessageStore, records: list[LogRecord]) -> None:
    ends: dict[tuple[str, int], int] = {}
    for record in records:
        queue = (record.topic, record.queue_id)
        assert record.queue_offset == ends.get(queue, 0), f"{queue} has a hole before {record.queue_offset}"
        ends[queue] = record.queue_offset + 1
        found = store.consume_queues.find(*queue)
        entry = found.entry_at(record.queue_offset) if found is not None else None
        assert entry is not None, f"{queue} has no entry {record.queue_offset}"
        assert entry[:2] == (record.physical_offset, record.size)
    for queue, end in ends.items():
        assert store.get_max_offset_in_queue(*queue) == end


def _delivered(records: list[LogRecord]) -> int:
    """Copies in their own topics; none of them is early."""
    due = {
        record.properties["KEYS"]: record.store_timestamp + 1_000
        for record in records
        if record.topic == SCHEDULE_TOPIC
    }
    copies = [
        record for record in records if record.topic != SCHEDULE_TOPIC and "REAL_TOPIC" in record.properties
    ]
    for record in copies:
        assert record.store_timestamp >= due[record.properties["KEYS"]], "a delivery was early"
    return len(copies)
