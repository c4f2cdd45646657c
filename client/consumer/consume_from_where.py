"""Where a consumer group begins in a queue that it has never consumed.

    consume from       normal topic                    %RETRY% topic
    LAST_OFFSET        the queue's max offset           0
    FIRST_OFFSET       0 (the first pull corrects it)   0
    TIMESTAMP          first message at or after it     max offset

A committed offset always wins over this table. A RocketMQ broker answers 0 instead of "never consumed"
while a queue still begins at 0 and is in memory, so a new group there may begin at 0 despite
LAST_OFFSET; here the table always holds.
Source: docs/spec/client_consume.md section 6; RebalancePushImpl#computePullFromWhereWithException.
"""

import enum

from mqstore.message_store import MessageStore
from mqstore.store.message import topic_names

__all__ = ["ConsumeFromWhere", "first_offset"]


class ConsumeFromWhere(enum.Enum):
    """RocketMQ's names; its three deprecated values mean CONSUME_FROM_LAST_OFFSET."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


def first_offset(
    store: MessageStore, topic: str, queue_id: int, where: ConsumeFromWhere, consume_timestamp_ms: int
) -> int:
    """The offset to begin at; `consume_timestamp_ms` is used for CONSUME_FROM_TIMESTAMP only."""
    is_retry = topic_names.is_retry_topic(topic)
    if where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
        return 0
    if where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET:
        return 0 if is_retry else store.get_max_offset_in_queue(topic, queue_id)
    if is_retry:
        return store.get_max_offset_in_queue(topic, queue_id)
    return store.get_offset_in_queue_by_time(topic, queue_id, consume_timestamp_ms)
