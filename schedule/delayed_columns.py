"""Delayed messages in columns: rows that ask for delay are readdressed to SCHEDULE_TOPIC_XXXX.

What delayed_message.py does with one message, for thousands. Rows that ask for none stay as they are.
Pure function: any thread, no I/O.
"""

import dataclasses

import numpy as np

from mqstore.schedule.delay_levels import DelayLevels
from mqstore.schedule.delayed_message import TIMER_REQUESTS, parse_level
from mqstore.store.bulk.columns_encoder import removed
from mqstore.store.bulk.message_columns import MessageColumns
from mqstore.store.bulk.texts import Longs, Texts
from mqstore.store.errors import MessageIllegal
from mqstore.store.names import SCHEDULE_TOPIC
from mqstore.store.properties_format import DELAY, REAL_QID, REAL_TOPIC

__all__ = ["readdress"]

_NONE = -1


def readdress(columns: MessageColumns, levels: DelayLevels) -> MessageColumns:
    """The columns to store for `columns`: themselves, or with delayed rows addressed to their levels' queues.

    A row asks by `delay_level`, or else by its property DELAY. Raises MessageIllegal for a DELAY that is no
    whole number of 32 bits.
    """
    requested = _requested_levels(columns)
    if requested.max(initial=0) <= 0:
        return columns
    level = np.minimum(requested, levels.max_level)
    is_delayed = level > 0
    topics = [*columns.topics, SCHEDULE_TOPIC]
    queue_ids, queue_indices = np.unique(columns.queue_ids, return_inverse=True)
    level_texts = [b"%d" % number for number in range(1, levels.max_level + 1)]
    queue_texts = [b"%d" % number for number in queue_ids.tolist()]
    overrides = (
        *((name, removed(is_delayed)) for name in sorted(TIMER_REQUESTS)),
        (DELAY, Texts.chosen(level_texts, np.where(is_delayed, level - 1, _NONE))),
        (
            REAL_TOPIC,
            Texts.chosen(
                [topic.encode() for topic in columns.topics],
                np.where(is_delayed, columns.topic_indices, _NONE),
            ),
        ),
        (REAL_QID, Texts.chosen(queue_texts, np.where(is_delayed, queue_indices, _NONE))),
    )
    return dataclasses.replace(
        columns,
        topics=topics,
        topic_indices=np.where(is_delayed, np.int32(len(topics) - 1), columns.topic_indices),
        queue_ids=np.where(is_delayed, level - 1, columns.queue_ids).astype(np.int32),
        overrides=overrides,
    )


def _requested_levels(columns: MessageColumns) -> Longs:
    """What each row asks for; 0 and below is nothing."""
    if not len(columns.properties.data):
        return columns.delay_levels
    from mqstore.store.bulk import kernels

    count = len(columns)
    starts, stops = np.empty(count, np.int64), np.empty(count, np.int64)
    name = np.frombuffer(DELAY.encode(), np.uint8)
    if not kernels.find_values(*columns.properties, name, starts, stops):
        return columns.delay_levels
    levels = columns.delay_levels.copy()
    asks = Texts(columns.properties.data, starts, stops)
    for row in np.flatnonzero((starts < stops) & (levels == 0)).tolist():
        try:
            levels[row] = parse_level(asks.bytes_at(row).decode())
        except MessageIllegal as error:
            raise MessageIllegal(
                f"row {row}: {error.reason}", value=error.value, limit=error.limit, row=row
            ) from None
    return levels
