"""Where a new group begins: every row of the table in consume_from_where.py, on a scripted store."""

from typing import cast

import pytest

from mqstore.client.consumer.consume_from_where import ConsumeFromWhere, first_offset
from mqstore.message_store import MessageStore

MAX_OFFSET, BY_TIME = 9, 4


class ScriptedStore:
    """Answers with fixed offsets."""

    def get_max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        return MAX_OFFSET

    def get_offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        assert timestamp_ms == 1_000
        return BY_TIME


@pytest.mark.parametrize(
    ("where", "normal", "retry"),
    [
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, MAX_OFFSET, 0),
        (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, 0, 0),
        (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, BY_TIME, MAX_OFFSET),
    ],
    ids=lambda value: value.name if isinstance(value, ConsumeFromWhere) else str(value),
)
def test_the_table(where: ConsumeFromWhere, normal: int, retry: int) -> None:
    """RocketMQ's rows, for a normal topic and for a retry topic."""
    store = cast("MessageStore", ScriptedStore())
    assert first_offset(store, "orders", 0, where, 1_000) == normal
    assert first_offset(store, "%RETRY%billing", 0, where, 1_000) == retry
