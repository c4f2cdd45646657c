"""Staged parts: the rows of one task of a write, in a file of Arrow, until the driver's commit puts them.

    <root>/mqstore/imports/<writer>/part-<partition>-<attempt>.arrow

`writer` is drawn for each writer that Spark asks for; for a stream it asks for several. A task that is
repeated, or that runs twice, writes a file of its own, and the commit is told which of them count. A batch of
Arrow is a block of records (row_encoder.py): column `record` has their bytes, `group` says which of its
queues each goes to, and the batch's metadata `block` is JSON of those queues and of their marks. So the
commit fills in numbers and copies, and a row that cannot be stored is found before anything is put.

Threads: a part has one, and a second one that syncs. Durability: a part is synced when `stage` returns.
"""

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from mqstore.store.bulk.buffer_pool import BufferPool
from mqstore.store.bulk.record_block import RecordBlock
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.threads.run_in_thread import CallInThread, run_in_thread
from mqstore.tools.spark.sink.row_encoder import EncodingRules, RowEncoder
from mqstore.tools.spark.sink.row_keys import number_rows

__all__ = ["Part", "PartDamaged", "numbered_blocks", "stage"]

_BLOCK_BYTES = 12 << 20
"""About so much is encoded and put in one step. The pool keeps buffers of that size."""
_SYNC_BYTES = 64 << 20
"""So much is staged before the disk is told to begin: it works while the next rows are made."""
_SCHEMA: Final = pa.schema([("record", pa.large_binary()), ("group", pa.int32())])
_BLOCK: Final = b"block"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One staged part. queues: by topic the greatest queue id of a row."""

    folder: str
    name: str
    rows: int
    queues: dict[str, int]


class PartDamaged(ValueError):
    """A staged part does not hold what was staged."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} is damaged: {what}")


class _BlockHead(msgspec.Struct, frozen=True):
    """What the metadata of a batch say. marks: of all its records, as in RecordBlock."""

    queues: list[tuple[str, int]]
    marks: int


def stage(path: Path, tables: Iterable[pa.Table], rules: EncodingRules) -> Part | None:
    """Write the rows of one task to `path`; None if there are none. Raises MessageIllegal, OSError."""
    files, encoder = OsFileSystem(), RowEncoder(rules)
    rows = 0
    queues: dict[str, int] = {}
    writer: Any = None
    unsynced_bytes = 0
    sync: CallInThread[None] | None = None
    try:
        for table in _pieces(tables):
            encoded = encoder.encode(table)
            for topic, queue_id in encoded.queues.items():
                queues[topic] = max(queue_id, queues.get(topic, -1))
            if writer is None:
                files.make_directories(path.parent)
                writer = pa.ipc.new_file(str(path), _SCHEMA)
            unsynced_bytes += _write(writer, encoded.block)
            encoder.release(encoded)
            rows += table.num_rows
            if unsynced_bytes >= _SYNC_BYTES:
                if sync is not None:
                    sync.result()
                sync, unsynced_bytes = run_in_thread(partial(files.sync, path)), 0
        if sync is not None:
            sync.result()
    except BaseException:
        if sync is not None:
            sync.wait()
        if writer is not None:
            writer.close()
            files.delete(path)
        raise
    if writer is None:
        return None
    writer.close()
    files.sync(path)
    files.sync_directory(path.parent)
    return Part(folder=path.parent.name, name=path.name, rows=rows, queues=queues)


def numbered_blocks(
    directory: Path, parts: Iterable[Part], prefix: str, first_row: int
) -> Iterator[RecordBlock]:
    """The rows from number `first_row` on, in blocks to be put, with their keys. directory: `imports`.

    A block is valid until the next one is asked for. Raises FileNotFoundError if a part is gone, PartDamaged.
    """
    number, buffers = 0, BufferPool()
    for part in parts:
        end = number + part.rows
        if end > first_row:
            path = directory / part.folder / part.name
            with pa.OSFile(str(path)) as source:
                for batch, head in _batches(path, source):
                    skipped = min(max(first_row - number, 0), batch.num_rows)
                    if skipped < batch.num_rows:
                        block = _block(path, batch.slice(skipped), head, buffers)
                        damaged = number_rows(block, prefix, number + skipped)
                        if damaged is not None:
                            raise PartDamaged(path, f"its row {damaged} from {number + skipped} on")
                        yield block
                        buffers.release(block.buffer)
                    number += batch.num_rows
            if number != end:
                raise PartDamaged(path, f"the number of its rows, which should be {part.rows}")
        number = end


def _pieces(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The tables, in pieces that are worth a block; none without rows."""
    for table in tables:
        rows = max(1, table.num_rows * _BLOCK_BYTES // max(table.nbytes, 1))
        for first in range(0, table.num_rows, rows):
            yield table.slice(first, rows)


def _write(writer: Any, block: RecordBlock) -> int:
    """Append a block to a part; returns how many bytes its records have."""
    end = int(block.starts[-1])
    buffers = [None, pa.py_buffer(block.starts), pa.py_buffer(block.buffer[:end])]
    records = pa.Array.from_buffers(pa.large_binary(), len(block), buffers)
    batch = pa.record_batch([records, pa.array(block.groups)], schema=_SCHEMA)
    # All rows of one table were born alike, and have the CRC or not: so they have the same marks.
    head = msgspec.json.encode(_BlockHead(block.queues, int(block.marks[0])))
    writer.write_batch(batch, custom_metadata={_BLOCK: head})
    return end


def _batches(path: Path, source: Any) -> Iterator[tuple[pa.RecordBatch, _BlockHead]]:
    """Raises PartDamaged."""
    try:
        reader = pa.ipc.open_file(source)
        if reader.schema != _SCHEMA:
            raise PartDamaged(path, f"its columns are {reader.schema.names}")
        end = 0
        for index in range(reader.num_record_batches):
            batch, metadata = reader.get_batch_with_custom_metadata(index)
            # Places of texts and groups that a loop can trust.
            batch.validate(full=True)
            end += batch.nbytes
            _drop_pages(source, end)
            yield batch, msgspec.json.decode(metadata[_BLOCK], type=_BlockHead)
    except (pa.ArrowException, KeyError, TypeError, msgspec.MsgspecError) as error:
        raise PartDamaged(path, str(error)) from error
    except OSError as error:
        # Arrow says so of lengths that cannot be, too. What the system says has a number.
        if error.errno is not None:
            raise
        raise PartDamaged(path, str(error)) from error


def _drop_pages(source: Any, end: int) -> None:
    """Tell the system that what was read is not read again: the log that is written now takes its memory."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(source.fileno(), 0, end, os.POSIX_FADV_DONTNEED)


def _block(path: Path, batch: pa.RecordBatch, head: _BlockHead, buffers: BufferPool) -> RecordBlock:
    """A copy of a batch that is not empty, to be completed. Raises PartDamaged."""
    count, records = batch.num_rows, batch.column(0)
    _, places, data = records.buffers()
    starts = np.frombuffer(places, np.int64, count + 1, 8 * records.offset)
    first, end = int(starts[0]), int(starts[-1])
    buffer = buffers.take(end - first)
    buffer[: end - first] = np.frombuffer(data, np.uint8, end - first, first)
    groups = batch.column(1).to_numpy()
    if not 0 <= groups.min() <= groups.max() < len(head.queues):
        raise PartDamaged(path, f"a group is not among its {len(head.queues)} queues")
    return RecordBlock(buffer, starts - first, np.full(count, head.marks, np.uint8), head.queues, groups)
