"""Directories that Apache RocketMQ wrote, exported: each row says what the manifest says, and none is missing.

Method: the Parquet export of all topics of a golden directory, opened for reading, against its manifest.
"""

import io
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from mqstore import MessageStore, StoreConfig
from mqstore.tools.export import export
from support.golden.manifest import GOLDEN_NAMES, ExpectedRecord, expected_records
from support.manual_clock import ManualClock

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1_048_576,
    max_message_size=900_000,
    mapped_file_size_consume_queue=6_000,
    max_hash_slot_num=500,
    max_index_num=2_000,
)


def place(expected: ExpectedRecord) -> tuple[str, int, int]:
    return expected.topic, expected.queue_id, expected.queue_offset


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_an_export_has_a_row_for_each_entry(name: str, golden_directory: Callable[[str], Path]) -> None:
    """Of all topics, the broker's own too; in the order topic, queue, offset."""
    with MessageStore.open(
        golden_directory(name), CONFIG, read_only=True, clock=ManualClock(), start=False
    ) as store:
        written = io.BytesIO()
        report = export(store, written, file_format="parquet", all_topics=True, decompress=False)
    rows = pyarrow.parquet.read_table(written)
    for time in ("born_timestamp", "store_timestamp"):
        rows = rows.set_column(rows.schema.get_field_index(time), time, rows[time].cast(pa.int64()))
    expected = sorted((each for each in expected_records(name) if each.has_queue_entry), key=place)
    assert report.rows == len(expected) > 0
    for row, record in zip(rows.to_pylist(), expected, strict=True):
        assert (row["topic"], row["queue_id"], row["queue_offset"]) == place(record)
        assert (row["physical_offset"], row["sys_flag"]) == (record.physical_offset, record.sys_flag)
        assert (row["born_timestamp"], row["store_timestamp"]) == (
            record.born_timestamp,
            record.store_timestamp,
        )
        if record.body_crc is not None:
            body_crc = zlib.crc32(row["body"]) & 0x7FFF_FFFF
            assert (len(row["body"]), body_crc) == (record.body_length, record.body_crc)
