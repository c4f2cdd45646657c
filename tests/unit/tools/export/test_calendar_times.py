"""Calendar times: one time that no calendar has makes no other unreadable."""

from datetime import UTC, datetime

import pyarrow as pa

from mqstore.tools.export.calendar_times import calendar_schema, with_calendar_times

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def test_what_python_cannot_show_is_null() -> None:
    """To the millisecond; columns of other types are as they were."""
    epoch_ms = [FIRST_MS - 1, FIRST_MS, 0, LAST_MS, LAST_MS + 1, 2**63 - 1, -(2**63)]
    times = pa.array(epoch_ms, pa.int64()).view(pa.timestamp("ms", tz="UTC"))
    schema = pa.schema(
        [pa.field("at", times.type, nullable=False), pa.field("n", pa.int64(), nullable=False)]
    )
    batch = pa.RecordBatch.from_arrays([times, pa.array(epoch_ms)], schema=schema)
    shown = with_calendar_times(batch)
    assert shown.schema == calendar_schema(schema)
    assert shown["n"].to_pylist() == epoch_ms
    assert shown["at"].to_pylist() == [
        None,
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        *(None, None, None),
    ]
