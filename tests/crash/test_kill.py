"""kill -9 of a process that is putting: whatever it was told is kept, is there when the directory is opened.

A child puts from four threads in SYNC_FLUSH and says what was acknowledged. It is killed after a random
number of acknowledgements, or at a random moment while it is still opening (and recovering from the kill
before); then the directory is opened and compared with all that was ever acknowledged. The same directory
goes through all rounds. The seed is fixed; the moment at which a signal strikes is not, so runs differ.
"""

import random
import signal
import subprocess
import sys
import time
import zlib
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from mqstore import MessageStore, StoredMessage
from mqstore.store.record.record_format import check_record
from support.crash import killed_putter
from support.crash.killed_putter import CONFIG

SEED = 20240919
ROUNDS = 12


class Acknowledged(NamedTuple):
    """What the child said of one message."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    body_crc: int
    key: str


def run_and_kill(path: Path, run: str, choice: random.Random, *, while_opening: bool) -> list[Acknowledged]:
    """One round: start the child, kill it, and return what it said before."""
    process = subprocess.Popen(
        [sys.executable, killed_putter.__file__, str(path), run], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        lines: list[str] = []
        if while_opening:
            time.sleep(choice.uniform(0, 0.6))
        else:
            assert process.stdout.readline() == "open\n", "the child could not open the store"
            wanted = choice.randrange(1, 400)
            while len(lines) < wanted:
                lines.append(process.stdout.readline())
        process.kill()
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    # The last line may be cut; then that message was not acknowledged.
    said = [line.split() for line in lines if line.endswith("\n") and line != "open\n"]
    return [Acknowledged(topic, *map(int, numbers), key) for topic, *numbers, key in said]  # type: ignore[arg-type]


def every_record(store: MessageStore) -> list[StoredMessage]:
    """The log, walked from its first byte to its last."""
    offset, records = store.min_offset, []
    segment_bytes = CONFIG.mapped_file_size_commit_log
    while offset < store.max_offset:
        message = store.look_message_by_offset(offset)
        if message is None:
            offset = (offset // segment_bytes + 1) * segment_bytes
            continue
        check_record(message.record, offset)
        records.append(message)
        offset += message.store_size
    return records


def check(store: MessageStore, acknowledged: list[Acknowledged]) -> None:
    """Everything acknowledged is there; queues and keys say what the log says; offsets have no hole."""
    records = every_record(store)
    by_offset = {record.physical_offset: record for record in records}
    for said in acknowledged:
        record = by_offset[said.physical_offset]
        assert (record.topic, record.queue_id, record.queue_offset) == said[:3]
        assert (zlib.crc32(record.body), record.keys) == (said.body_crc, (said.key,))
    queues: defaultdict[tuple[str, int], list[StoredMessage]] = defaultdict(list)
    for record in records:
        queues[record.topic, record.queue_id].append(record)
    assert store.consume_queues.queues() == sorted(queues)
    for (topic, queue_id), messages in queues.items():
        assert [message.queue_offset for message in messages] == list(range(len(messages)))
        assert store.get_max_offset_in_queue(topic, queue_id) == len(messages)
        queue = store.consume_queues.find(topic, queue_id)
        assert queue is not None
        for message in messages:
            entry = queue.entry_at(message.queue_offset)
            assert entry is not None
            assert entry[:2] == (message.physical_offset, message.store_size)


def check_keys(store: MessageStore, acknowledged: list[Acknowledged]) -> None:
    """Each message is found by its key, in the topic that it was stored under."""
    for said in acknowledged:
        found = [message.physical_offset for message in store.query_message(said.topic, said.key)]
        assert said.physical_offset in found


@pytest.mark.slow
def test_what_was_acknowledged_survives_every_kill(tmp_path: Path) -> None:
    """Twelve kills in a row, a third of them while the store is being opened."""
    path = tmp_path / "store"
    choice = random.Random(SEED)
    acknowledged: list[Acknowledged] = []
    for number in range(ROUNDS):
        said = run_and_kill(path, f"{SEED}-{number}", choice, while_opening=number % 3 == 2)
        acknowledged += said
        with MessageStore.open(path, CONFIG, read_only=True) as reader:
            for each in said:
                assert reader.look_message_by_offset(each.physical_offset) is not None
        if number % 4 == 3:
            # Otherwise the next child recovers by itself.
            with MessageStore.open(path, CONFIG, start=False) as store:
                check(store, acknowledged)
                check_keys(store, said)
    with MessageStore.open(path, CONFIG, start=False) as store:
        check(store, acknowledged)
        check_keys(store, acknowledged[-500:])
    assert len({said.physical_offset for said in acknowledged}) == len(acknowledged) > 500
