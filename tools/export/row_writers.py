"""Row writers: batches of one schema go into an open file, as Parquet, JSON lines or CSV.

    parquet   row groups of up to 131,072 rows or 64 MiB; batches wait in memory until one is full; null for a
              time that no calendar has
    jsonl     one object a line, with the names of the columns; properties are an object
    csv       a header, then a line a row, texts in quotes; null is an empty field without quotes; properties
              are an object of JSON

A file without a row is valid, too: Parquet with its schema, CSV with its header. `close` ends the content,
and after an error `abandon` takes its place; the file itself is the caller's to close, afterwards.
Imported when an export begins, since it imports pyarrow.
"""

import gzip
import io
from collections.abc import Callable
from typing import BinaryIO, Final, Protocol

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from mqstore.tools.export.calendar_times import calendar_schema, with_calendar_times
from mqstore.tools.export.export_form import ExportForm
from mqstore.tools.export.text_columns import text_columns
from mqstore.tools.ingest.row_files import RowFormat

__all__ = ["RowWriter", "row_writer"]

_GROUP_ROWS: Final = 131_072
_GROUP_BYTES: Final = 64 << 20
# Rows that are Python objects at one time.
_LINES_AT_ONCE: Final = 4_096
_JSON: Final = msgspec.json.Encoder()


class RowWriter(Protocol):
    """What takes batches; `waiting_bytes` of them are not yet in the file."""

    waiting_bytes: int

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        ...

    def flush(self) -> None:
        """Bring what waits into the file."""
        ...

    def close(self) -> None:
        """End the content; the file stays open."""
        ...

    def abandon(self) -> None:
        """Write no more, however incomplete the content is."""
        ...


def row_writer(file: BinaryIO, form: ExportForm, schema: pa.Schema) -> RowWriter:
    """A writer of rows of `schema` into `file`."""
    if form.row_format is RowFormat.PARQUET:
        return _ParquetWriter(file, schema, form.compression)

    def texts(batch: pa.RecordBatch) -> pa.RecordBatch:
        return text_columns(batch, all_base64=form.all_base64)

    is_packed = form.compression == "gzip"
    if form.row_format is RowFormat.JSONL:
        return _TextWriter(file, lambda batch: _json_lines(texts(batch)), is_packed=is_packed)
    header = _csv_lines(texts(pa.RecordBatch.from_pylist([], schema)), with_header=True)
    return _TextWriter(file, lambda batch: _csv_lines(texts(batch)), header, is_packed=is_packed)


class _ParquetWriter:
    def __init__(self, file: BinaryIO, schema: pa.Schema, compression: str) -> None:
        self._writer = pyarrow.parquet.ParquetWriter(file, calendar_schema(schema), compression=compression)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self.waiting_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if self._waiting_rows + batch.num_rows > _GROUP_ROWS:
            self.flush()
        self._waiting.append(with_calendar_times(batch))
        self._waiting_rows += batch.num_rows
        self.waiting_bytes += batch.nbytes
        if self.waiting_bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=_GROUP_ROWS)
        self._waiting = []
        self._waiting_rows = self.waiting_bytes = 0

    def close(self) -> None:
        self.flush()
        self._writer.close()

    def abandon(self) -> None:
        # Or its destructor would write the end of the file.
        self._writer.is_open = False


class _TextWriter:
    """Lines that `encode` makes of a batch; nothing waits."""

    def __init__(
        self,
        file: BinaryIO,
        encode: Callable[[pa.RecordBatch], bytes],
        header: bytes = b"",
        *,
        is_packed: bool,
    ) -> None:
        self.waiting_bytes = 0
        self._encode = encode
        # No name and no time: the same rows give the same bytes.
        self._packed = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if is_packed else None
        self._target = self._packed or file
        self._target.write(header)

    def write(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, _LINES_AT_ONCE):
            self._target.write(self._encode(batch.slice(start, _LINES_AT_ONCE)))

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        if self._packed is not None:
            self._packed.close()

    def abandon(self) -> None:
        if self._packed is not None:
            # Or its destructor would write the end into the file.
            self._packed.fileobj = io.BytesIO()
            self._packed.close()


def _json_lines(texts: pa.RecordBatch) -> bytes:
    names = texts.schema.names
    columns = [
        _objects(column) if pa.types.is_map(column.type) else column.to_pylist() for column in texts.columns
    ]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return _JSON.encode_lines(rows)


def _csv_lines(texts: pa.RecordBatch, *, with_header: bool = False) -> bytes:
    columns = [_as_json(column) if pa.types.is_map(column.type) else column for column in texts.columns]
    flat = pa.RecordBatch.from_arrays(columns, names=texts.schema.names)
    lines = pa.BufferOutputStream()
    pyarrow.csv.write_csv(flat, lines, pyarrow.csv.WriteOptions(include_header=with_header))
    encoded: bytes = lines.getvalue().to_pybytes()
    return encoded


def _objects(properties: pa.Array) -> list[dict[str, str]]:
    return [dict(pairs) for pairs in properties.to_pylist()]


def _as_json(properties: pa.Array) -> pa.Array:
    return pa.array([_JSON.encode(each).decode() for each in _objects(properties)], pa.string())
