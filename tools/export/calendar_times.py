"""Calendar times: those in the years 1 to 9999, which readers of files can show.

A producer may name any 64-bit number as the time at which a message was born. DuckDB and Polars refuse to
show a whole column in which one time is beyond their calendars, and so does Python; so Parquet has null
there, and text has the number. Pure. Imported when an export begins, since it imports pyarrow.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["calendar_schema", "has_date", "with_calendar_times"]

_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999


def has_date(epoch_ms: pa.Array) -> pa.Array:
    """Which of these times the calendar has."""
    return pc.and_(pc.greater_equal(epoch_ms, _FIRST_MS), pc.less_equal(epoch_ms, _LAST_MS))


def calendar_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of `with_calendar_times`: its times may be null."""
    return pa.schema([_may_be_null(field) for field in schema])


def with_calendar_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with null for times that the calendar does not have."""
    columns = [
        _calendar_times(column) if pa.types.is_timestamp(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=calendar_schema(batch.schema))


def _may_be_null(field: pa.Field) -> pa.Field:
    return field.with_nullable(True) if pa.types.is_timestamp(field.type) else field


def _calendar_times(times: pa.Array) -> pa.Array:
    return pc.if_else(has_date(times.view(pa.int64())), times, None)
