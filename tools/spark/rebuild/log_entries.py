"""The entries of a range of the log: what a task of the first half of a rebuild makes.

Records are read and checked by tools/spark/segments/segment_reader.py; their entries are made by the loop
that the store itself dispatches with, `consume_queue_entries` in index/queue/entry_kernels.py. A row is a
run: consecutive entries of one queue, in the order of the log.

Damage ends the job: a queue without the entries of damaged records would look whole.
"""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqstore.index.arrow import column_kernels
from mqstore.index.arrow.records import Records
from mqstore.index.queue.consume_queue_format import ENTRY_BYTES
from mqstore.index.queue.consume_queue_store import is_queue_name
from mqstore.index.queue.entry_kernels import consume_queue_entries
from mqstore.store.errors import CorruptRecord
from mqstore.store.record.record_format import PHYSICAL_OFFSET_POSITION
from mqstore.tools.spark.read.partitions import SegmentRange
from mqstore.tools.spark.rebuild.queue_rules import QueueRules
from mqstore.tools.spark.segments.segment_reader import PassedOver, read_range

__all__ = ["RANGES", "RUN", "RUN_SCHEMA", "entries_of_ranges"]

RANGES: Final = "ranges BINARY"
"""A row for each task: the pickled list of its SegmentRanges."""
RUN: Final = "topic STRING, queueId INT, physicalOffset LONG, queueOffset LONG, entries BINARY"
"""A run, as Spark has it: the offsets are those of its first entry."""
RUN_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("physicalOffset", pa.int64()),
        ("queueOffset", pa.int64()),
        ("entries", pa.binary()),
    ]
)

_OFFSET_BYTES: Final = 8


class _Run(NamedTuple):
    topic: str
    queue_id: int
    physical_offset: int
    queue_offset: int
    entries: bytes


def entries_of_ranges(batches: Iterator[pa.RecordBatch], rules: QueueRules) -> Iterator[pa.RecordBatch]:
    """The runs of the ranges in `batches` (RANGES: a row for a task), a batch for each piece of the log.

    Raises CorruptRecord, SegmentMissing, ForgedBoundary.
    """
    for batch in batches:
        for pickled in batch.column(0).to_pylist():
            ranges: list[SegmentRange] = pickle.loads(pickled)
            for one in ranges:
                for records in read_range(one.segment, one.begin, one.end):
                    assert not isinstance(records, PassedOver), records
                    yield _batch(list(_runs(records, one, rules)))


def _runs(records: Records, one: SegmentRange, rules: QueueRules) -> Iterator[_Run]:
    begin = int(records.layout[column_kernels.POSITION, 0])
    end = int(records.layout[column_kernels.POSITION, -1] + records.layout[column_kernels.SIZE, -1])
    base_offset = int(records.int64(records.starts[:1], PHYSICAL_OFFSET_POSITION)[0])
    data = records.buffer[begin:end]
    entries, runs, consumed, _, _ = consume_queue_entries(data, base_offset, rules.delay_tables)
    if consumed != len(data):
        raise _no_record(one, base_offset + int(consumed), data[consumed : consumed + 8])
    if rules.deleted.concern(base_offset):
        runs = rules.deleted.remaining(data, entries, runs)
    for index, count, queue_offset, topic_at, topic_length, queue_id in runs.tolist():
        topic = data[topic_at : topic_at + topic_length].tobytes().decode("utf-8", "replace")
        if topic not in rules.without_queues and is_queue_name(topic, queue_id):
            part = entries[index * ENTRY_BYTES : (index + count) * ENTRY_BYTES].tobytes()
            first = int.from_bytes(part[:_OFFSET_BYTES], "big")
            yield _Run(topic, queue_id, first, queue_offset, part)


def _no_record(one: SegmentRange, physical_offset: int, found: npt.NDArray[np.uint8]) -> CorruptRecord:
    position = physical_offset - one.segment.start_offset
    expected = f"a record at physical offset {physical_offset}"
    return CorruptRecord(Path(one.segment.path), position, expected, found.tobytes().hex(" "))


def _batch(runs: list[_Run]) -> pa.RecordBatch:
    columns = list(zip(*runs, strict=True)) or [()] * len(RUN_SCHEMA)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, RUN_SCHEMA, strict=True)],
        schema=RUN_SCHEMA,
    )
