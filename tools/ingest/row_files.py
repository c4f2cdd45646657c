"""Rows of a file, as `mqstore ingest` reads them: JSON lines, CSV or Parquet, one dict a row.

JSON lines are read line by line; CSV and Parquet batch by batch with pyarrow (extra `arrow`), which finds
the types of CSV columns by itself. Memory does not grow with the file, except for Parquet on standard
input, which cannot be read from its end otherwise.

tools/cli/messages/ingest.py decides what becomes of a row. Rows are numbered from 1, as in the error.
"""

import io
from collections.abc import Iterator
from enum import StrEnum
from pathlib import PurePath
from typing import Any, BinaryIO

import msgspec

__all__ = ["RowFormat", "RowIllegal", "format_of", "read_rows"]

RowDict = dict[str, Any]


class RowFormat(StrEnum):
    """How the rows are written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


_FORMAT_OF_SUFFIX = {
    ".jsonl": RowFormat.JSONL,
    ".ndjson": RowFormat.JSONL,
    ".json": RowFormat.JSONL,
    ".csv": RowFormat.CSV,
    ".parquet": RowFormat.PARQUET,
    ".pq": RowFormat.PARQUET,
}


class RowIllegal(Exception):
    """A row cannot be read or made into a message. `row_number` counts from 1."""

    def __init__(self, row_number: int, reason: str) -> None:
        super().__init__(f"row {row_number:,}: {reason}")
        self.row_number = row_number
        self.reason = reason


class ReaderMissing(Exception):
    """pyarrow is not installed."""

    def __init__(self, row_format: RowFormat) -> None:
        super().__init__(f"reading {row_format.value} needs pyarrow: pip install pyarrow")


def format_of(path: PurePath) -> RowFormat | None:
    """The format by a file's name; None if the name shows none."""
    return _FORMAT_OF_SUFFIX.get(path.suffix.lower())


def read_rows(file: BinaryIO, row_format: RowFormat) -> Iterator[RowDict]:
    """The rows of an open file. Raises RowIllegal, ReaderMissing."""
    if row_format is RowFormat.JSONL:
        return _json_lines(file)
    return _arrow_rows(file, row_format)


def _json_lines(file: BinaryIO) -> Iterator[RowDict]:
    """Empty lines are skipped, but counted, so that the number is that of the line."""
    decoder = msgspec.json.Decoder()
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = decoder.decode(line)
        except msgspec.DecodeError as error:
            raise RowIllegal(number, f"is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise RowIllegal(number, f"is a JSON {type(row).__name__}, but must be an object")
        yield row


def _arrow_rows(file: BinaryIO, row_format: RowFormat) -> Iterator[RowDict]:
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise ReaderMissing(row_format) from None
    read = 0
    try:
        for batch in _arrow_batches(file, row_format):
            for row in batch.to_pylist():
                read += 1
                yield row
    except pyarrow.ArrowException as error:
        raise RowIllegal(read + 1, f"or one soon after it: {error}") from error


def _arrow_batches(file: BinaryIO, row_format: RowFormat) -> Iterator[Any]:
    if row_format is RowFormat.CSV:
        import pyarrow.csv

        yield from pyarrow.csv.open_csv(file)
    else:
        import pyarrow.parquet

        source = file if file.seekable() else io.BytesIO(file.read())
        yield from pyarrow.parquet.ParquetFile(source).iter_batches()
