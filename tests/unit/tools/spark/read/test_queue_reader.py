"""A read through the queues loses no row silently when an entry is damaged, and names the entry that is.

Method: a store of two topics, one entry of a queue of the chosen topic changed, and then read in one process,
beside a read of the log, which does not know the queues.
"""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from mqstore import MessageStore, StoreConfig
from mqstore.index.queue.consume_queue_format import ENTRY_BYTES
from mqstore.store.errors import CorruptRecord
from mqstore.tools.spark.options import ReadOptions
from mqstore.tools.spark.read.batch_reader import MqstoreReader
from mqstore.tools.spark.read.partitions import LogPartition, QueuePartition
from mqstore.tools.spark.schema import SCHEMA

COUNT = 36
CHANGED = 10
_ENTRY = struct.Struct(">QI")
Change = Callable[[int, int], tuple[int, int]]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Each fourth message is of the topic that is read, in two queues; all records are as long."""
    config = StoreConfig(mapped_file_size_commit_log=1 << 20, max_message_size=60_000)
    path = tmp_path / "store"
    with MessageStore.open(path, config) as opened:
        for number in range(8 * COUNT):
            topic = "b" if number % 4 else "a"
            opened.put(topic, b"%0194d" % number, queue_id=number // 4 % 2)
    return path


def change(store: Path, index: int, changed: Change) -> None:
    """Change physical offset and size of an entry of queue 0."""
    (path,) = (store / "consumequeue" / "a" / "0").iterdir()
    data = bytearray(path.read_bytes())
    place = index * ENTRY_BYTES
    _ENTRY.pack_into(data, place, *changed(*_ENTRY.unpack_from(data, place)))
    path.write_bytes(data)


def reader_of(store: Path, **options: str) -> MqstoreReader:
    columns = StructType([SCHEMA["queueId"], SCHEMA["queueOffset"]])
    return MqstoreReader(columns, ReadOptions.parse({"path": str(store), "topic": "a", **options}))


def rows_of(store: Path, **options: str) -> Iterator[tuple[int, int]]:
    reader = reader_of(store, **options)
    for partition in reader.partitions():
        for batch in reader.read(partition):
            for row in batch.to_pylist():
                yield row["queueId"], row["queueOffset"]


def all_rows() -> list[tuple[int, int]]:
    return sorted((queue_id, offset) for queue_id in (0, 1) for offset in range(COUNT))


CHANGES: dict[str, Change] = {
    "far ahead": lambda offset, size: (offset + 40 * size, size),
    "between records": lambda offset, size: (offset + 1, size),
    "behind the log": lambda offset, size: (offset + (1 << 40), size),
    "before the log": lambda offset, size: (offset | 1 << 63, size),
    "to a record of the other topic": lambda offset, size: (offset + size, size),
    "to a record of the other queue": lambda offset, size: (offset + 4 * size, size),
    "another size": lambda offset, size: (offset, size ^ 1),
    "a size of half a gigabyte": lambda offset, size: (offset, size | 1 << 29),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_damaged_entry_costs_its_own_row_and_is_told_of(store: Path, name: str) -> None:
    """Whatever it points to: the log still has all rows, and without errors all others are read."""
    assert sorted(rows_of(store, queueScan="true")) == all_rows()
    change(store, CHANGED, CHANGES[name])
    assert {type(each) for each in reader_of(store, queueScan="true").partitions()} == {QueuePartition}
    with pytest.raises(CorruptRecord) as raised:
        list(rows_of(store, queueScan="true"))
    is_named = f"entry {CHANGED} of queue 0" in str(raised.value)
    assert is_named or raised.value.position == CHANGED * ENTRY_BYTES
    found = sorted(rows_of(store, queueScan="true", mode="DROPMALFORMED"))
    assert found == [row for row in all_rows() if row != (0, CHANGED)]
    assert sorted(rows_of(store, queueScan="false")) == all_rows()


@pytest.mark.parametrize("index", [1, 2, 4])
def test_a_queue_whose_beginning_is_damaged_is_not_believed(store: Path, index: int) -> None:
    """Its first message is searched by bisection, which the damage leads astray: the log is read."""
    change(store, index, CHANGES["before the log"])
    assert {type(each) for each in reader_of(store).partitions()} == {LogPartition}
    assert sorted(rows_of(store)) == all_rows()
