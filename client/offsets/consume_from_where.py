"""Where a consumer group begins in a queue that it has never consumed.

    consume from       normal topic                    %RETRY% topic
    LAST_OFFSET        the queue's max offset           0
    FIRST_OFFSET       0 (the first pull corrects it)   0
    TIMESTAMP          first message at or after it     max offset

An offset that is kept always wins over this table. A broker answers 0 instead of "never consumed" for a young
queue (broker/young_queue.py), so a new group there begins at 0 despite LAST_OFFSET; otherwise the first
message of a topic that came to be after the consumer would never be seen.
Source: docs/spec/client_consume.md section 6; RebalancePushImpl#computePullFromWhereWithException.
"""

import enum

from mqstore.broker.broker import Broker, MessageQueue
from mqstore.store.message import topic_names

__all__ = ["ConsumeFromWhere", "first_offset"]


class ConsumeFromWhere(enum.Enum):
    """RocketMQ's names; its three deprecated values mean CONSUME_FROM_LAST_OFFSET."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


def first_offset(
    broker: Broker, queue: MessageQueue, where: ConsumeFromWhere, consume_timestamp_ms: int
) -> int:
    """The offset to begin at; `consume_timestamp_ms` is used for CONSUME_FROM_TIMESTAMP only.

    Raises StoreError.
    """
    topic, _, queue_id = queue
    is_retry = topic_names.is_retry_topic(topic)
    if where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
        return 0
    if where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET:
        return 0 if is_retry else broker.max_offset(topic, queue_id)
    if is_retry:
        return broker.max_offset(topic, queue_id)
    return broker.search_offset(topic, queue_id, consume_timestamp_ms)
