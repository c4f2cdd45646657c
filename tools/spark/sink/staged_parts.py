"""Staged parts: the rows of one task of a write, in a file of Arrow, until the driver's commit puts them.

    <root>/mqstore/imports/<writer>/part-<partition>-<attempt>.arrow

`writer` is drawn for each writer that Spark asks for; for a stream it asks for several. A task that is
repeated, or that runs twice, writes a file of its own, and the commit is told which of them count. A batch of
Arrow is a block of records (row_encoder.py): column `record` has their bytes, `group` says which of its
queues each goes to, and the batch's metadata have, as JSON (`head`), those queues, the records' marks and
the number of the first row in the part, and the CRC-32 of all of that (`crc32`): the commit and the loops
under it trust what they are given. The commit fills in what is missing and copies, and a row that cannot be
stored is found before anything is put.

Threads: a part has one, and a second one that syncs. Durability: a part is synced when `stage` returns.
"""

import contextlib
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
from mqstore.store.checksum.crc32 import crc32
from mqstore.store.errors import StoreError
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.threads.run_in_thread import CallInThread, run_in_thread
from mqstore.tools.spark.sink.row_encoder import EncodingRules, RowEncoder
from mqstore.tools.spark.sink.row_keys import number_rows

__all__ = ["Part", "PartDamaged", "numbered_blocks", "stage"]

_BLOCK_BYTES = 12 << 20
"""About so much is encoded and put in one step. The pool keeps buffers of that size."""
_RECORD_BYTES: Final = 256
"""About so much a record has besides the columns."""
_SYNC_BYTES = 64 << 20
"""So much is staged before the disk is told to begin: it works while the next rows are made."""
_SCHEMA: Final = pa.schema([("record", pa.large_binary()), ("group", pa.int32())])
_HEAD: Final = b"head"
_CRC32: Final = b"crc32"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One staged part. queues: by topic the greatest queue id of a row."""

    folder: str
    name: str
    rows: int
    queues: dict[str, int]


class PartDamaged(StoreError):
    """A staged part is not there, or does not hold what was staged. path: of its file."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"staged rows in {path}: {what}")
        self.path = path


class _Head(msgspec.Struct, frozen=True):
    """What the metadata of a batch say. marks: of all its records, as in RecordBlock.

    first_row: its number in the part. Where blocks are, Arrow says without a checksum.
    """

    first_row: int
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
            unsynced_bytes += _write(writer, encoded.block, rows)
            encoder.release(encoded)
            rows += table.num_rows
            if unsynced_bytes >= _SYNC_BYTES:
                if sync is not None:
                    sync.result()
                sync, unsynced_bytes = run_in_thread(partial(files.sync, path)), 0
        if sync is not None:
            sync.result()
        if writer is None:
            return None
        writer.close()
        files.sync(path)
        files.sync_directory(path.parent)
    except BaseException:
        if sync is not None:
            sync.wait()
        if writer is not None:
            try:
                writer.close()
            finally:
                files.delete(path)
        raise
    return Part(folder=path.parent.name, name=path.name, rows=rows, queues=queues)


def numbered_blocks(
    directory: Path, parts: Iterable[Part], prefix: str, first_row: int
) -> Iterator[RecordBlock]:
    """The rows from number `first_row` on, in blocks to be put, with their keys. directory: `imports`.

    A block is valid until the next one is asked for. Raises PartDamaged, OSError.
    """
    number, buffers = 0, BufferPool()
    for part in parts:
        end = number + part.rows
        if end > first_row:
            path = directory / part.folder / part.name
            for staged in _staged(path):
                skipped = max(first_row - number, 0)
                if skipped < len(staged):
                    block = _copy(staged, skipped, buffers)
                    number_rows(block, prefix, number + skipped)
                    yield block
                    buffers.release(block.buffer)
                number += len(staged)
            if number != end:
                raise PartDamaged(path, f"they are not the {part.rows} that were staged")
        number = end


def _pieces(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The tables, in pieces that are worth a block; none without rows."""
    for table in tables:
        record_bytes = table.nbytes + table.num_rows * _RECORD_BYTES
        rows = max(1, table.num_rows * _BLOCK_BYTES // max(record_bytes, 1))
        for first in range(0, table.num_rows, rows):
            yield table.slice(first, rows)


def _write(writer: Any, block: RecordBlock, first_row: int) -> int:
    """Append a block to a part; returns how many bytes its records have."""
    data = block.buffer[: block.starts[-1]]
    records = pa.Array.from_buffers(
        pa.large_binary(), len(block), [None, pa.py_buffer(block.starts), pa.py_buffer(data)]
    )
    # All rows of one table were born alike, and have the CRC or not: so they have the same marks.
    head = msgspec.json.encode(_Head(first_row, block.queues, int(block.marks[0])))
    checksum = _checksum(head, block.starts, block.groups, data)
    writer.write_batch(
        pa.record_batch([records, pa.array(block.groups)], schema=_SCHEMA),
        custom_metadata={_HEAD: head, _CRC32: checksum},
    )
    return len(data)


def _staged(path: Path) -> Iterator[RecordBlock]:
    """The blocks of a part, as they were written; their arrays are read-only. Raises PartDamaged, OSError."""
    try:
        with pa.OSFile(str(path)) as source:
            reader = pa.ipc.open_file(source)
            if reader.schema != _SCHEMA:
                raise PartDamaged(path, "the file has other columns")
            end = rows = 0
            for index in range(reader.num_record_batches):
                batch, metadata = reader.get_batch_with_custom_metadata(index)
                block = _checked(path, batch, metadata, rows)
                rows += len(block)
                end += batch.nbytes
                _drop_pages(source, end)
                yield block
    except MemoryError:
        # Arrow's is a kind of what follows.
        raise
    except FileNotFoundError as error:
        raise PartDamaged(path, "there is no such file") from error
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise PartDamaged(path, f"the file is damaged: {error}") from error
    except OSError as error:
        # Arrow says so of lengths that cannot be, too. What the system says has a number.
        if error.errno is None:
            raise PartDamaged(path, f"the file is damaged: {error}") from error
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def _checked(path: Path, batch: pa.RecordBatch, metadata: Any, first_row: int) -> RecordBlock:
    batch.validate(full=True)
    records, groups = batch.columns
    if records.null_count or groups.null_count:
        raise PartDamaged(path, "there is a null among them")
    _, places, data = records.buffers()
    starts = np.frombuffer(places, np.int64, len(batch) + 1)
    buffer = np.frombuffer(data, np.uint8, int(starts[-1]))
    block_groups = groups.to_numpy()
    head = metadata[_HEAD]
    if metadata[_CRC32] != _checksum(head, starts, block_groups, buffer):
        raise PartDamaged(path, "a checksum does not match")
    said = msgspec.json.decode(head, type=_Head)
    if said.first_row != first_row:
        raise PartDamaged(path, f"row {said.first_row} comes where row {first_row} should")
    return RecordBlock(buffer, starts, np.full(len(batch), said.marks, np.uint8), said.queues, block_groups)


def _checksum(*parts: Any) -> bytes:
    """CRC-32 of bytes and arrays that come one behind the other, as eight hexadecimal digits."""
    checksum = 0
    for part in parts:
        checksum = crc32(part, checksum)
    return b"%08x" % checksum


def _drop_pages(source: Any, end: int) -> None:
    """Tell the system that what was read is not read again: the log that is written now takes its memory."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # a hint
            os.posix_fadvise(source.fileno(), 0, end, os.POSIX_FADV_DONTNEED)


def _copy(block: RecordBlock, first: int, buffers: BufferPool) -> RecordBlock:
    """The rows from `first` on, in a buffer that may be written to."""
    begin, end = int(block.starts[first]), int(block.starts[-1])
    buffer = buffers.take(end - begin)
    buffer[: end - begin] = block.buffer[begin:end]
    starts, marks, groups = block.starts[first:] - begin, block.marks[first:], block.groups[first:]
    return RecordBlock(buffer, starts, marks, block.queues, groups)
