"""Delayed messages in columns: rows that ask for delay are rewritten for SCHEDULE_TOPIC_XXXX.

What delayed_message.py does with one message, for thousands. Rows that ask for no delay stay as they are.
Pure function: any thread, no I/O.
"""

import msgspec
import numpy as np

from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.delay.delayed_message import parse_level, timer_not_enabled
from mqstore.store.bulk.columns_encoder import removed
from mqstore.store.bulk.message_columns import MessageColumns
from mqstore.store.bulk.text_column import Longs, TextColumn
from mqstore.store.errors import MessageIllegal
from mqstore.store.message.topic_names import SCHEDULE_TOPIC, TIMER_TOPIC
from mqstore.store.record.properties_format import DELAY, REAL_QID, REAL_TOPIC, TIMER_OUT_MS, TIMER_REQUESTS

__all__ = ["rewrite"]

_NONE = -1
# What the names of TIMER_REQUESTS begin with.
_TIMER = b"TIMER_DEL"


def rewrite(columns: MessageColumns, levels: DelayLevels) -> MessageColumns:
    """The columns to store for `columns`: the same, or with delayed rows addressed to their levels' queues.

    A row asks for delay by `delay_level`, or else by its property DELAY. Raises MessageIllegal for a DELAY
    that is no whole number of 32 bits, and TimerNotEnabled for a row that asks for a time and for no level.
    """
    requested = _requested_levels(columns)
    if columns.properties.may_hold(_TIMER):
        _refuse_times(columns, requested)
    if requested.max(initial=0) <= 0:
        return columns
    level = np.minimum(requested, levels.max_level)
    is_delayed = level > 0
    topics = [*columns.topics, SCHEDULE_TOPIC]
    queue_ids, queue_indices = np.unique(columns.queue_ids, return_inverse=True)
    level_texts = [b"%d" % number for number in range(1, levels.max_level + 1)]
    queue_texts = [b"%d" % number for number in queue_ids.tolist()]
    overrides = (
        *((name, removed(is_delayed)) for name in TIMER_REQUESTS),
        (DELAY, TextColumn.chosen(level_texts, np.where(is_delayed, level - 1, _NONE))),
        (
            REAL_TOPIC,
            TextColumn.chosen(
                [topic.encode() for topic in columns.topics],
                np.where(is_delayed, columns.topic_indices, _NONE),
            ),
        ),
        (REAL_QID, TextColumn.chosen(queue_texts, np.where(is_delayed, queue_indices, _NONE))),
    )
    return msgspec.structs.replace(
        columns,
        topics=topics,
        topic_indices=np.where(is_delayed, np.int32(len(topics) - 1), columns.topic_indices),
        queue_ids=np.where(is_delayed, level - 1, columns.queue_ids).astype(np.int32),
        overrides=overrides,
    )


def _requested_levels(columns: MessageColumns) -> Longs:
    """The level that each row asks for; 0 and below: none."""
    if not len(columns.properties.data):
        return columns.delay_levels
    asks = _values(columns, DELAY)
    has_any = asks.starts < asks.stops
    if not has_any.any():
        return columns.delay_levels
    levels = columns.delay_levels.copy()
    for row in np.flatnonzero(has_any & (levels == 0)).tolist():
        try:
            levels[row] = parse_level(asks.bytes_at(row).decode())
        except MessageIllegal as error:
            raise MessageIllegal(
                f"row {row}: {error.reason}", value=error.value, limit=error.limit, row=row
            ) from None
    return levels


def _refuse_times(columns: MessageColumns, levels: Longs) -> None:
    """Raise for the first row that asks for a deliver time and no level, as delayed_message.py does."""
    delivered = _values(columns, TIMER_OUT_MS)
    may_not = (levels <= 0) & (delivered.starts == delivered.stops)
    may_not &= np.array([topic != TIMER_TOPIC for topic in columns.topics])[columns.topic_indices]
    refused = []
    for name in TIMER_REQUESTS:
        asks = _values(columns, name)
        rows = np.flatnonzero(may_not & (asks.starts < asks.stops))
        refused += [(int(row), name, asks.bytes_at(int(row)).decode()) for row in rows[:1]]
    if refused:
        row, name, value = min(refused)
        raise timer_not_enabled(name, value, row)


def _values(columns: MessageColumns, name: str) -> TextColumn:
    """The value of a property in each row; empty where it is not there."""
    from mqstore.store.bulk import encode_kernels

    starts, stops = np.empty((2, len(columns)), np.int64)
    encode_kernels.find_values(*columns.properties, np.frombuffer(name.encode(), np.uint8), starts, stops)
    return TextColumn(columns.properties.data, starts, stops)
