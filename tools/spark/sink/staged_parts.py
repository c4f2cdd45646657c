"""Staged parts: the rows of one task of a write, in a file of Arrow, until the driver's commit puts them.

    <root>/mqstore/imports/<writer>/part-<partition>-<attempt>.arrow

`writer` is drawn for each writer that Spark asks for; for a stream it asks for several. A task that is
repeated, or that runs twice, writes a file of its own, and the commit is told which of them count. Each row
is encoded once here and thrown away: a row that cannot be stored is found in its task, before anything is
put.

A row's UNIQ_KEY is given when it is put: 16 hexadecimal digits of the write's application and version, 16 of
the row's number. So a commit that was killed finds out how far it came, and a consumer knows a message that
it has seen.
Threads: a part has one, and a second one that syncs. Durability: a part is synced when `stage` returns.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.delay.delayed_columns import rewrite
from mqstore.store.bulk.buffer_pool import BufferPool
from mqstore.store.bulk.columns_encoder import ColumnsEncoder
from mqstore.store.bulk.message_columns import read_columns
from mqstore.store.config import StoreConfig
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.record.properties_format import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, UNIQ_KEY
from mqstore.store.threads.run_in_thread import CallInThread, run_in_thread

__all__ = ["Part", "RowCheck", "numbered_tables", "row_key_prefix", "row_number", "stage"]

_PUT_BYTES = 32 << 20
_SYNC_BYTES = 64 << 20
"""So much is staged before the disk is told to begin: it works while the next rows are made."""
_DIGITS = 16


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One staged part. queues: by topic the greatest queue id that a row names; -1: none does."""

    folder: str
    name: str
    rows: int
    queues: dict[str, int]


@dataclass(frozen=True)
class RowCheck:
    """What rows are checked by in a task: the store's settings."""

    max_message_size: int
    delay_levels: str

    def check(self, table: pa.Table) -> dict[str, int]:
        """The greatest queue id by topic. Raises MessageIllegal and its leaves."""
        buffers = BufferPool()
        encoder = ColumnsEncoder(StoreConfig(max_message_size=self.max_message_size), buffers)
        columns = read_columns(table)
        block = encoder.encode(rewrite(columns, DelayLevels.parse(self.delay_levels)))
        buffers.release(block.buffer)
        greatest = np.full(len(columns.topics), -1, np.int64)
        np.maximum.at(greatest, columns.topic_indices, columns.queue_ids)
        return dict(zip(columns.topics, greatest.tolist(), strict=True))


def stage(path: Path, tables: Iterable[pa.Table], check: RowCheck) -> Part | None:
    """Write the rows of one task to `path`; None if there are none. Raises MessageIllegal, OSError."""
    files = OsFileSystem()
    rows = 0
    queues: dict[str, int] = {}
    writer: Any = None
    unsynced_bytes = 0
    sync: CallInThread[None] | None = None
    try:
        for table in tables:
            if not table.num_rows:
                continue
            for topic, queue_id in check.check(table).items():
                queues[topic] = max(queue_id, queues.get(topic, -1))
            if writer is None:
                files.make_directories(path.parent)
                writer = pa.ipc.new_file(str(path), table.schema)
            writer.write_table(table)
            rows += table.num_rows
            unsynced_bytes += table.nbytes
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


def numbered_tables(
    directory: Path, parts: Iterable[Part], prefix: str, first_row: int
) -> Iterator[pa.Table]:
    """The rows from number `first_row` on, in tables to be put, with their keys. directory: `imports`.

    Raises FileNotFoundError if a part is gone.
    """
    number = 0
    for part in parts:
        if number + part.rows <= first_row:
            number += part.rows
            continue
        with pa.memory_map(str(directory / part.folder / part.name)) as source:
            reader = pa.ipc.open_file(source)
            for batches in _joined(reader):
                table = pa.Table.from_batches(batches, reader.schema)
                skipped = min(max(first_row - number, 0), table.num_rows)
                wanted = table.slice(skipped)
                if wanted.num_rows:
                    yield _with_keys(wanted, prefix, number + skipped)
                number += table.num_rows


def _joined(reader: Any) -> Iterator[list[pa.RecordBatch]]:
    """Batches that together are worth a put."""
    batches: list[pa.RecordBatch] = []
    for index in range(reader.num_record_batches):
        batches.append(reader.get_batch(index))
        if sum(batch.nbytes for batch in batches) >= _PUT_BYTES:
            yield batches
            batches = []
    if batches:
        yield batches


def row_key_prefix(app_id: str, version: int) -> str:
    """What the keys of all rows of a write begin with."""
    digest = hashlib.sha256(f"{app_id}\0{version}".encode()).hexdigest()
    return digest[:_DIGITS].upper()


def row_number(key: str | None, prefix: str) -> int | None:
    """The number of the row with this UNIQ_KEY; None if it is none of the write."""
    if key is None or len(key) != 2 * _DIGITS or not key.startswith(prefix):
        return None
    try:
        return int(key[_DIGITS:], 16)
    except ValueError:
        return None


def _with_keys(table: pa.Table, prefix: str, first_row: int) -> pa.Table:
    """The rows with UNIQ_KEY before their other properties."""
    count = table.num_rows
    numbers = np.arange(first_row, first_row + count, dtype=">u8").tobytes().hex().upper().encode()
    begin = f"{UNIQ_KEY}{NAME_VALUE_SEPARATOR}{prefix}".encode()
    texts = np.empty((count, len(begin) + _DIGITS + 1), np.uint8)
    texts[:, : len(begin)] = np.frombuffer(begin, np.uint8)
    texts[:, len(begin) : -1] = np.frombuffer(numbers, np.uint8).reshape(count, _DIGITS)
    texts[:, -1] = ord(PROPERTY_SEPARATOR)
    places = np.arange(count + 1, dtype=np.int64) * texts.shape[1]
    keys = pa.LargeStringArray.from_buffers(count, pa.py_buffer(places), pa.py_buffer(texts))
    at = table.schema.get_field_index("properties")
    if at < 0:
        return table.append_column("properties", keys)
    others = pc.fill_null(table.column(at).cast(pa.large_string()), "")
    return table.set_column(
        at, "properties", pc.binary_join_element_wise(keys, others, pa.scalar("", pa.large_string()))
    )
