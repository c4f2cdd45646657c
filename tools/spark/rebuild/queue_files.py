"""The queue files that a task of the second half of a rebuild writes: whole queues, each by one task.

Runs come queue by queue, each queue's in the order of the log. They are appended by the store's own
ConsumeQueue, as in a rebuild on one machine (`follow_log`): pre-blank entries before the first message of a
log whose beginning has expired, blank entries where numbers are missing, a new beginning where they begin
again at 0. Files have their full length, zeros behind the last entry.

A queue is written under a name that no other attempt has, synced, and then renamed. So a task that Spark runs
twice, one after the other or both at a time, leaves each queue once, and whole.
"""

import itertools
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.store.files.file_system import BytesLike
from mqstore.store.files.file_tree import delete_tree
from mqstore.store.files.mapped_file import MappedFileSettings
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.tools.spark.rebuild.queue_rules import QueueRules

__all__ = ["FINISHED", "WRITTEN", "RebuiltQueue", "write_queues"]

FINISHED: Final = "finished"
"""The directory under the staging directory in which queues lie that are whole."""
WRITTEN: Final = "topic STRING, queueId INT, minOffset LONG, maxOffset LONG, files INT"
"""A row for each queue, as RebuiltQueue."""
_WRITTEN_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("minOffset", pa.int64()),
        ("maxOffset", pa.int64()),
        ("files", pa.int32()),
    ]
)


class RebuiltQueue(NamedTuple):
    """A queue that was written: entries from `min_offset` on, above 0 behind an expired beginning."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    files: int


class _Run(NamedTuple):
    topic: str
    queue_id: int
    queue_offset: int
    entries: BytesLike


def write_queues(
    batches: Iterator[pa.RecordBatch], staging: Path, rules: QueueRules
) -> Iterator[pa.RecordBatch]:
    """Write the queues of the runs in `batches` (log_entries.py); a row for each. Raises StoreFull."""
    file_system, attempt = OsFileSystem(), staging / f"attempt-{uuid.uuid4()}"
    settings = MappedFileSettings(
        file_size_bytes=rules.file_size_bytes,
        size_key="mapped_file_size_consume_queue",
        reserve_window_bytes=rules.reserve_window_bytes,
        is_derived_row=True,
    )
    for (topic, queue_id), runs in itertools.groupby(_runs(batches), key=lambda run: run[:2]):
        directory = attempt / topic / str(queue_id)
        queue = ConsumeQueue(file_system, directory, topic, queue_id, settings)
        for run in runs:
            queue.append_entries(run.queue_offset, run.entries, follow_log=True)
        if queue.files:
            queue.flush()
            _finish(file_system, directory, staging / FINISHED / topic / str(queue_id))
            yield _row(RebuiltQueue(topic, queue_id, queue.min_offset, queue.max_offset, len(queue.files)))
    delete_tree(file_system, attempt)


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[_Run]:
    for batch in batches:
        topics, queue_ids = batch.column("topic").to_pylist(), batch.column("queueId").to_pylist()
        offsets, entries = batch.column("queueOffset").to_pylist(), batch.column("entries")
        for index, offset in enumerate(offsets):
            yield _Run(
                topics[index], queue_ids[index], offset, memoryview(entries[index].as_buffer()).cast("B")
            )


def _finish(file_system: OsFileSystem, directory: Path, target: Path) -> None:
    """Give a queue its name, durably, unless another attempt of this task has written it."""
    file_system.make_directories(target.parent)
    try:
        directory.rename(target)
    except OSError:
        if not target.exists():
            raise
        delete_tree(file_system, directory)
    file_system.sync_directory(target.parent)


def _row(queue: RebuiltQueue) -> pa.RecordBatch:
    columns = [pa.array([value], field.type) for value, field in zip(queue, _WRITTEN_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_WRITTEN_SCHEMA)
