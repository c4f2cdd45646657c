"""The queue table: a range of one queue as an Arrow table, or as record batches one after another.

The entries of the queue say where the records lie. Each record is compared with its entry, and its lengths
are checked (its CRCs are not); compiled loops gather the fields. A batch covers records of one segment, at
most `_BATCH_RECORDS` of them and a number of bytes: few where batches are streamed, many in a table.

It does not walk the log (tools/spark/segments/segment_reader.py) and has no groups. Threads: any; no lock is
taken. A segment that retention deletes meanwhile stays readable while a table refers to its bodies.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqstore.index.arrow import column_kernels
from mqstore.index.arrow.record_columns import SCHEMA, build_columns
from mqstore.index.arrow.records import Records
from mqstore.index.arrow.sent_bodies import as_sent
from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY_BYTES, ENTRY_DTYPE
from mqstore.store.errors import ConfigIllegal, CorruptRecord
from mqstore.store.files.mapped_file import MappedFile
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.log.commit_log import CommitLog

__all__ = ["Entries", "joined_tables", "queue_batches", "queue_table", "table_schema"]

_BATCH_RECORDS = 65_536
# Offsets within an array of bytes have 31 bits.
_TABLE_BATCH_BYTES = 1 << 30
# What a program that goes from batch to batch holds in memory.
_STREAM_BATCH_BYTES = 64 << 20


class Entries(NamedTuple):
    """Where the records of consecutive queue entries lie, and their sizes in bytes."""

    physical_offsets: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int32]

    @classmethod
    def of(cls, view: memoryview) -> "Entries":
        """The entries in `view` that are not blank."""
        entries = np.frombuffer(view, ENTRY_DTYPE)
        found = cls(entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int32))
        is_blank = found.sizes == BLANK_SIZE
        return found.select(~is_blank) if is_blank.any() else found

    def select(self, which: slice | npt.NDArray[np.bool_]) -> "Entries":
        """The entries that `which` selects."""
        return Entries(self.physical_offsets[which], self.sizes[which])


def table_schema(columns: Sequence[str] | None, *, lend_bodies: bool) -> pa.Schema:
    """SCHEMA, or the given columns in their order. Raises ConfigIllegal for an unknown one."""
    known = {field.name: field for field in SCHEMA}
    fields = []
    for name in known if columns is None else columns:
        if name not in known:
            close = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            raise ConfigIllegal(f"a queue has no column {name!r}: {hint}", key="columns", value=name)
        fields.append(known[name])
    if lend_bodies:
        fields = [field.with_type(pa.binary_view()) if field.name == "body" else field for field in fields]
    return pa.schema(fields)


def queue_table(
    commit_log: CommitLog,
    queue: ConsumeQueue,
    begin_offset: int,
    end_offset: int,
    schema: pa.Schema,
    *,
    decompress: bool = True,
) -> pa.Table:
    """The messages of entries `begin_offset` to `end_offset` (not included), as far as they exist.

    decompress: decompress bodies that producers compressed. Raises CorruptRecord if an entry
    points at bytes that are not its record; with `decompress` also CorruptBody and BodyTooLarge.
    """
    batches = queue_batches(
        commit_log,
        queue,
        begin_offset,
        end_offset,
        schema,
        decompress=decompress,
        batch_bytes=_TABLE_BATCH_BYTES,
    )
    return pa.Table.from_batches(batches, schema)


def joined_tables(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """The rows of several queues, one queue after the other; nothing is copied."""
    return pa.concat_tables(tables) if tables else schema.empty_table()


def queue_batches(
    commit_log: CommitLog,
    queue: ConsumeQueue,
    begin_offset: int,
    end_offset: int,
    schema: pa.Schema,
    *,
    decompress: bool = True,
    keep_broken: bool = False,
    batch_bytes: int = _STREAM_BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The rows of `queue_table` in batches, each made when it is asked for; none is empty.

    keep_broken: bodies that cannot be decompressed stay as stored, with a warning for each. batch_bytes: of
    the records of a batch; a longer record is a batch of its own. Raises as `queue_table`.
    """
    for records in _records(commit_log, queue, begin_offset, end_offset, batch_bytes):
        for shown in as_sent(records, schema, keep_broken=keep_broken) if decompress else (records,):
            yield pa.RecordBatch.from_arrays(build_columns(shown, schema), schema=schema)


def _records(
    commit_log: CommitLog, queue: ConsumeQueue, begin_offset: int, end_offset: int, batch_bytes: int
) -> Iterator[Records]:
    offset = begin_offset
    end_offset = min(end_offset, queue.end_below(commit_log.visible_offset))
    # Retention may raise the minimum meanwhile.
    while (offset := max(offset, queue.min_offset)) < end_offset:
        view = queue.view_from(offset, min(end_offset - offset, _BATCH_RECORDS))
        if not view:
            if offset >= queue.min_offset:  # a file that retention of another process has deleted
                offset = queue.roll_next_file(offset)
            continue
        entries = Entries.of(view)
        offset += len(view) // ENTRY_BYTES
        while len(entries.sizes):
            physical_offset = int(entries.physical_offsets[0])
            segment = commit_log.files.file_for(physical_offset)
            if segment is not None:
                count = _count_in(segment, entries, batch_bytes)
                records = _lay_out(commit_log, segment, entries.select(slice(count)))
                if records is not None:
                    yield records
                entries = entries.select(slice(count, None))
            elif physical_offset < commit_log.min_offset:
                entries = entries.select(entries.physical_offsets >= commit_log.min_offset)
            else:
                expected = f"a queue entry that points below {commit_log.max_offset}"
                raise CorruptRecord(queue.directory, offset * ENTRY_BYTES, expected, str(physical_offset))


def _count_in(segment: MappedFile, entries: Entries, batch_bytes: int) -> int:
    """How many of the first entries make one batch; the first one's record is in `segment`."""
    ends_before = np.searchsorted(entries.physical_offsets, segment.end_offset)
    fits = np.searchsorted(np.cumsum(entries.sizes, dtype=np.int64), batch_bytes, side="right")
    return max(1, int(min(ends_before, fits)))


def _lay_out(commit_log: CommitLog, segment: MappedFile, entries: Entries) -> Records | None:
    """The records of `entries`, all in `segment`; None if the segment is gone."""
    try:
        data = segment.array
    except FileNotFoundError as error:
        raise_foreign(error)
        # Deleted by retention (of another process, perhaps) before it was first mapped here.
        return None
    physical_offsets, sizes = entries
    layout = np.empty((column_kernels.LAYOUT_FIELDS, len(sizes)), np.int32)
    end = min(commit_log.visible_offset - segment.start_offset, segment.size_bytes)
    count = column_kernels.lay_out(data, end, segment.start_offset, physical_offsets, sizes, layout)
    if count < len(sizes):
        position = int(physical_offsets[count]) - segment.start_offset
        expected = f"the record of {sizes[count]} bytes of a queue entry"
        raise CorruptRecord(segment.path, position, expected, "something else")
    return Records(data, layout)
