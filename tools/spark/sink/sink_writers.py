"""The writers that Spark asks for: tasks stage their rows, the driver commits them.

    driver    the options, the columns and the store are checked; the store is made if there is none
    tasks     rows -> columns -> records -> staged (row_columns.py, row_encoder.py, staged_parts.py)
    driver    all tasks have succeeded: commit (sink_commit.py); else abort deletes what they staged

Spark makes a writer in a Python process of the driver, sends it to the tasks, and commits in another one. So
the writer's lock is held for the commit alone; that no other process has the store open is looked at before
any task runs, and holds only if it stays so. The staging lies in the store's directory, which tasks on other
machines must have mounted.
Threads: one. Durability: sink_commit.py.
"""

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.fs as pa_fs
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from mqstore.store_layout import StoreLayout
from mqstore.tools.spark.options import SparkOptionIllegal
from mqstore.tools.spark.sink.row_columns import check_row_schema, message_table
from mqstore.tools.spark.sink.row_encoder import EncodingRules
from mqstore.tools.spark.sink.sink_commit import Write, commit, discard
from mqstore.tools.spark.sink.sink_options import WriteOptions
from mqstore.tools.spark.sink.staged_parts import Part, stage
from mqstore.tools.spark.sink.store_lock import opened_for_write
from mqstore.tools.spark.worker_heap import freeze_imports

__all__ = ["MqstoreStreamWriter", "MqstoreWriter", "StagedPart"]

_logger = logging.getLogger(__name__)


@dataclass
class StagedPart(WriterCommitMessage):
    """What a task tells the driver. part: None if it had no rows."""

    part: Part | None


class _Staging:
    """What both writers share: the checks, and what runs in a task."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        """Raises SchemaIllegal, LockTimeout, and what else MessageStore.open raises."""
        check_row_schema(schema, options.topic)
        self._options = options
        self._root = Path(options.directory)
        self._staging = uuid.uuid4().hex
        with opened_for_write(self._root, options.lock_timeout_ms) as store:
            self._rules = EncodingRules.of(store)

    def stage(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        """Stage the rows of this task."""
        context = TaskContext.get()
        assert context is not None
        name = f"part-{context.partitionId():05}-{context.taskAttemptId()}.arrow"
        tables = (message_table(batch, self._options.topic) for batch in iterator)
        staged = stage(StoreLayout(self._root).imports / self._staging / name, tables, self._rules)
        freeze_imports()
        return StagedPart(staged)


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[Part]:
    """The parts that count, in the order of the partitions."""
    parts = [message.part for message in messages if isinstance(message, StagedPart)]
    return sorted((part for part in parts if part is not None), key=lambda part: part.name)


class MqstoreWriter(_Staging, DataSourceArrowWriter):
    """Writes a DataFrame into a store."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        """In a task."""
        return self.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """In the driver, after all tasks."""
        options = self._options
        write = Write(app=options.app_id, version=options.version or 0)
        commit(self._root, write, _parts(messages), lock_timeout_ms=options.lock_timeout_ms)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """In the driver, after a task or the commit has failed."""
        discard(self._root, _parts(messages), self._staging)


class MqstoreStreamWriter(_Staging, DataSourceStreamArrowWriter):
    """Writes a stream into a store, each batch once."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        """In a task."""
        return self.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver, after all tasks of a batch."""
        app = self._options.app_id or query_id(self._options.checkpoint or "")
        write, timeout_ms = Write(app=app, version=batchId), self._options.lock_timeout_ms
        commit(self._root, write, _parts(messages), lock_timeout_ms=timeout_ms)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver, after a task or the commit has failed."""
        discard(self._root, _parts(messages), self._staging)


def query_id(checkpoint: str) -> str:
    """The id of the query that a checkpoint belongs to: a checkpoint that is made anew is another query.

    Raises SparkOptionIllegal if its file `metadata` cannot be read.
    """
    try:
        if "://" in checkpoint or checkpoint.startswith("file:"):
            file_system, path = pa_fs.FileSystem.from_uri(checkpoint)
        else:
            file_system, path = pa_fs.LocalFileSystem(), str(Path(checkpoint).absolute())
        with file_system.open_input_stream(f"{path.rstrip('/')}/metadata") as stream:
            found = msgspec.json.decode(stream.read(), type=dict[str, str])["id"]
    except (OSError, ValueError, KeyError) as error:
        raise SparkOptionIllegal(
            f"the checkpoint {checkpoint!r} does not say which query it is of ({error}): give the stream a "
            "name of its own by option 'txnAppId'",
            key="checkpointLocation",
            value=checkpoint,
        ) from error
    return f"query-{found}"
