"""Pushed filters: comparisons of a query that narrow what is read.

    =, IN               topic, tags, queueId
    =, <, <=, >, >=     queueOffset, physicalOffset, storeTimestamp, storeTimestampMs

A pushed filter only saves reading: all go back to Spark, which checks each of them, so nothing depends on
whether our comparison of texts is the same as its.
Source: `pushFilters` of PySpark's DataSourceReader.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from mqstore.tools.spark.read.selection import Selection

__all__ = ["narrow"]

_SETS = {"topic": ("topics", str), "tags": ("tags", str), "queueId": ("queue_ids", int)}
_RANGES = {
    "queueOffset": ("begin_queue_offset", "end_queue_offset"),
    "physicalOffset": ("begin_offset", "end_offset"),
    "storeTimestamp": ("begin_ms", "end_ms"),
    "storeTimestampMs": ("begin_ms", "end_ms"),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def narrow(selection: Selection, filters: Iterable[Filter]) -> Selection:
    """The selection, less what the filters exclude for certain."""
    for pushed in filters:
        match pushed:
            case EqualTo(attribute=(column,), value=value):
                selection = _among(selection, column, [value])
                selection = _from(_until(selection, column, value, is_included=True), column, value, True)
            case In(attribute=(column,), value=values):
                selection = _among(selection, column, values)
            case GreaterThan(attribute=(column,), value=value):
                selection = _from(selection, column, value, False)
            case GreaterThanOrEqual(attribute=(column,), value=value):
                selection = _from(selection, column, value, True)
            case LessThan(attribute=(column,), value=value):
                selection = _until(selection, column, value, is_included=False)
            case LessThanOrEqual(attribute=(column,), value=value):
                selection = _until(selection, column, value, is_included=True)
    return selection


def _among(selection: Selection, column: str, values: Iterable[Any]) -> Selection:
    name, kind = _SETS.get(column, ("", str))
    wanted = list(values)
    if not name or not all(type(value) is kind for value in wanted):
        return selection
    return selection.narrowed(name, frozenset(wanted))


def _from(selection: Selection, column: str, value: Any, is_included: bool) -> Selection:
    begin = _least(value, is_included=is_included)
    if column not in _RANGES or begin is None:
        return selection
    return selection.from_(_RANGES[column][0], begin)


def _until(selection: Selection, column: str, value: Any, *, is_included: bool) -> Selection:
    end = _least(value, is_included=not is_included)
    if column not in _RANGES or end is None:
        return selection
    return selection.until(_RANGES[column][1], end)


def _least(value: Any, *, is_included: bool) -> int | None:
    """The least whole number, of ms for a time, not below `value`, or above it; None: it is no number."""
    if type(value) is int:
        return value if is_included else value + 1
    # At both ends of the calendar stand times that Python cannot hold (index/arrow/record_columns.py).
    if not isinstance(value, datetime) or value.tzinfo is None or value.year in (1, 9999):
        return None
    whole_ms, rest = divmod(value - _EPOCH, _MS)
    return whole_ms if is_included and not rest else whole_ms + 1
