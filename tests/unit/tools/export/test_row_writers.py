"""Row writers: how rows are grouped, and what an abandoned writer leaves to the file."""

import gc
import io

import pyarrow as pa
import pyarrow.parquet
import pytest

from mqstore.tools.export import row_writers
from mqstore.tools.export.export_form import export_form
from mqstore.tools.export.row_writers import RowWriter, row_writer


def batch_of(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int32())})


def writer_to(file: io.BytesIO, file_format: str, compression: str | None = None) -> RowWriter:
    return row_writer(file, export_form(file_format, compression, None, all_base64=False), batch_of().schema)


def test_small_batches_make_one_row_group() -> None:
    """A store of many short queues gives few groups."""
    file = io.BytesIO()
    writer = writer_to(file, "parquet")
    for number in range(100):
        writer.write(batch_of(number))
    assert writer.waiting_bytes == 400
    writer.close()
    found = pyarrow.parquet.ParquetFile(file)
    assert found.metadata.num_row_groups == 1
    assert found.read()["number"].to_pylist() == list(range(100))


@pytest.mark.parametrize(
    ("limit", "value", "groups"), [("_GROUP_ROWS", 4, [4, 4, 2]), ("_GROUP_BYTES", 12, [4, 4, 2])]
)
def test_a_group_that_is_full_is_written(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, groups: list[int]
) -> None:
    """By rows or by bytes: memory stays bounded."""
    monkeypatch.setattr(row_writers, limit, value)
    file = io.BytesIO()
    writer = writer_to(file, "parquet")
    for number in range(0, 10, 2):
        writer.write(batch_of(number, number + 1))
    writer.close()
    found = pyarrow.parquet.ParquetFile(file)
    assert [found.metadata.row_group(at).num_rows for at in range(found.metadata.num_row_groups)] == groups
    assert found.read()["number"].to_pylist() == list(range(10))


@pytest.mark.slow
@pytest.mark.parametrize(("file_format", "compression"), [("parquet", None), ("csv", None), ("csv", "gzip")])
def test_an_abandoned_writer_writes_no_more(file_format: str, compression: str | None) -> None:
    """Not even when it is collected after its file was closed."""
    file = io.BytesIO()
    writer = writer_to(file, file_format, compression)
    writer.write(batch_of(1, 2))
    writer.abandon()
    before = file.getvalue()
    file.close()
    del writer
    gc.collect()
    assert b"PAR1" not in before[4:]


def test_rows_are_encoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are Python objects at a time, and none is lost between two pieces."""
    monkeypatch.setattr(row_writers, "_LINES_AT_ONCE", 3)
    file = io.BytesIO()
    writer = writer_to(file, "jsonl")
    writer.write(batch_of(*range(7)))
    writer.close()
    assert file.getvalue() == b"".join(b'{"number":%d}\n' % number for number in range(7))
