"""Goal: queues that tasks build from the log are byte for byte those that the store's own dispatch makes.

Method: both halves of the job in this process, with many small ranges and the shuffle as a sort; every byte
of every file is compared, zeros behind the last entry too. What needs a session: tests/spark/test_rebuild.py.
"""

import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mqstore import Message, MessageStore
from mqstore.broker.broker import TransactionState
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY, ENTRY_BYTES
from mqstore.repair.rebuild import rebuild
from mqstore.store.errors import CorruptRecord
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store_layout import StoreLayout
from mqstore.tools.spark.rebuild.log_entries import RUN_SCHEMA, entries_of_ranges
from mqstore.tools.spark.rebuild.queue_files import FINISHED, RebuiltQueue, write_queues
from mqstore.tools.spark.rebuild.queue_rebuild import plan_rebuild
from mqstore.verify.inspection import Inspection
from support.golden.manifest import GOLDEN_NAMES, VERSION_NAMES
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore

RANGE_BYTES = 20_000
HOUR_MS = 3_600_000


def rebuilt(store: Path, target: Path, *, again: bool = False) -> tuple[dict[str, bytes], list[RebuiltQueue]]:
    """The files of the queues that two tasks write, and what they say of them. again: each runs twice."""
    rules, tasks, _ = plan_rebuild(Inspection.of(None, None), StoreLayout(store), RANGE_BYTES)
    rules = pickle.loads(pickle.dumps(rules))
    runs = []
    for ranges in tasks:
        batch = pa.record_batch([pa.array([pickle.dumps(ranges)])], ["ranges"])
        for made in entries_of_ranges(iter([batch]), rules):
            runs += made.to_pylist()
    runs.sort(key=lambda run: (run["topic"], run["queueId"], run["physicalOffset"]))
    written = []
    for task in range(2):
        mine = [run for run in runs if hash((run["topic"], run["queueId"])) % 2 == task]
        for _ in range(1 + again):
            batches = [
                pa.RecordBatch.from_pylist(mine[at : at + 7], RUN_SCHEMA) for at in range(0, len(mine), 7)
            ]
            rows = [row for batch in write_queues(iter(batches), target, rules) for row in batch.to_pylist()]
        written += [RebuiltQueue(*row.values()) for row in rows]
    assert [path.name for path in target.iterdir()] == [FINISHED] * bool(written)
    return files_of(target / FINISHED), sorted(written)


def files_of(directory: Path) -> dict[str, bytes]:
    """Every file under a directory, by its path there."""
    found = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def names_and_sizes(files: dict[str, bytes]) -> dict[str, int]:
    return {name: len(data) for name, data in files.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GOLDEN_NAMES, *VERSION_NAMES])
def test_queues_of_a_broker(name: str, golden_directory: Callable[[str], Path], tmp_path: Path) -> None:
    """Delays, retries, transactions, batches, of each version: whole files are RocketMQ's, byte for byte."""
    store = golden_directory(name)
    files, queues = rebuilt(store, tmp_path / "queues")
    assert files == files_of(store / "consumequeue")
    assert len({Path(file).parent for file in files}) == len(queues)


@pytest.fixture
def small(tmp_path: Path) -> SmallStore:
    return SmallStore(OsFileSystem(), tmp_path / "store", clock=ManualClock(1_790_000_000_000))


def fill(small: SmallStore, count: int = 300) -> None:
    """Delays that change, transactions, a topic deleted and created again, more than one file a queue."""
    for levels in ("1s 5s", "2s 7s 9s"):
        with small.open(message_delay_level=levels) as store, EmbeddedBroker(store) as broker:
            store.topics.create("orders", 2)
            store.topics.create("gone", 1)
            for number in range(count):
                message = Message("orders", b"x" * (number % 700), tags=f"t{number % 5}", queue_id=number % 2)
                store.put_message(message)
                if number % 10 == 0:
                    store.put_message(Message("gone", b"%d" % number, tags="old"))
                    store.put_message(Message("orders", b"later", delay_level=1 + number % 2))
                    half = broker.send_half(Message("orders", b"half"), "payments", timeout_ms=3_000)
                    states = (TransactionState.COMMIT_MESSAGE, TransactionState.ROLLBACK_MESSAGE)
                    broker.end_transaction(half, "payments", states[number // 10 % 2])
            small.clock.advance(6_000)
            store.deliver_due()
            store.delete_topic("gone")
            store.topics.create("gone", 1)
            store.put_message(Message("gone", b"new", tags="new"))


def test_queues_of_a_store(small: SmallStore, tmp_path: Path) -> None:
    """Whole files again; a topic that was created again begins with its first new message."""
    fill(small)
    files, queues = rebuilt(small.path, tmp_path / "queues")
    own = files_of(small.path / "consumequeue")
    assert names_and_sizes(files) == names_and_sizes(own)
    assert files == own
    assert [queue[2:] for queue in queues if queue.topic == "gone"] == [(0, 1, 1)]
    assert {queue.topic for queue in queues} > {"orders", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"}


def test_a_task_that_runs_twice_leaves_its_queues_once(small: SmallStore, tmp_path: Path) -> None:
    """As Spark does it after a failure."""
    fill(small, 30)
    assert rebuilt(small.path, tmp_path / "twice", again=True)[0] == files_of(small.path / "consumequeue")


def expire(small: SmallStore) -> None:
    with small.open(file_reserved_time=1) as store:
        small.clock.advance(3 * HOUR_MS)
        for number in range(150):
            store.put_message(Message("orders", b"y" * 500, queue_id=number % 2))
    for path in sorted((small.path / "commitlog").iterdir())[:2]:
        path.unlink()


def live_entries(files: dict[str, bytes], min_offset: int) -> Iterator[tuple[str, int, bytes]]:
    """(queue, queue offset, entry) of all entries of messages at or behind a physical offset."""
    for name, data in files.items():
        queue, _, start = name.rpartition("/")
        for at in range(0, len(data), ENTRY_BYTES):
            offset, size, _ = ENTRY.unpack_from(data, at)
            if size not in (0, BLANK_SIZE) and offset >= min_offset:
                yield queue, (int(start) + at) // ENTRY_BYTES, data[at : at + ENTRY_BYTES]


@pytest.mark.slow
def test_queues_of_a_log_whose_beginning_has_expired(small: SmallStore, tmp_path: Path) -> None:
    """As the store's own rebuild makes them, whole; entries of what the log has are those that it had.

    Before these, in the first file of a queue, are pre-blank entries; files before that are gone, and so are
    queues of which the log has nothing.
    """
    fill(small)
    expire(small)
    own = files_of(small.path / "consumequeue")
    files, queues = rebuilt(small.path, tmp_path / "queues")
    first = min(int(path.name) for path in (small.path / "commitlog").iterdir())
    assert list(live_entries(files, 0)) == list(live_entries(own, first))
    assert any(queue.min_offset % 100 for queue in queues)
    for queue in queues:
        name = f"{queue.topic}/{queue.queue_id}/{queue.min_offset // 100 * 2000:020}"
        blank = files[name][: queue.min_offset % 100 * ENTRY_BYTES]
        assert blank == ENTRY.pack(0, BLANK_SIZE, 0) * (queue.min_offset % 100)
    copy = Path(shutil.copytree(small.path, tmp_path / "copy"))
    rebuild(copy, queues=True)
    assert files == files_of(copy / "consumequeue")


def test_a_torn_tail_has_no_entries(small: SmallStore, tmp_path: Path) -> None:
    """The next opening cuts it off."""
    fill(small, 20)
    expected = files_of(small.path / "consumequeue")
    last = max(path for path in (small.path / "commitlog").iterdir() if path.read_bytes()[:8] != bytes(8))
    data = bytearray(last.read_bytes())
    end = len(data.rstrip(b"\0")) + 8
    data[end : end + 8] = data[:8]
    last.write_bytes(data)
    assert rebuilt(small.path, tmp_path / "queues")[0] == expected


def test_damage_is_an_error(small: SmallStore, tmp_path: Path) -> None:
    """A queue without the entries of damaged records would look whole."""
    fill(small, 30)
    path = min((small.path / "commitlog").iterdir())
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecord):
        rebuilt(small.path, tmp_path / "queues")


def test_an_empty_log_has_no_queues(small: SmallStore, tmp_path: Path) -> None:
    """No file is made."""
    with small.open():
        pass
    (tmp_path / "queues").mkdir()
    assert rebuilt(small.path, tmp_path / "queues") == ({}, [])


def test_the_store_opens_with_the_new_queues(small: SmallStore, tmp_path: Path) -> None:
    """Moved in, they are what it goes on with."""
    fill(small, 40)
    target = tmp_path / "queues"
    rebuilt(small.path, target)
    shutil.rmtree(small.path / "consumequeue")
    (target / FINISHED).rename(small.path / "consumequeue")
    before = files_of(small.path / "consumequeue")
    with small.open() as store:
        assert isinstance(store, MessageStore)
        assert store.get_max_offset_in_queue("gone", 0) == 1
    assert files_of(small.path / "consumequeue") == before
