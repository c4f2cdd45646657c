"""Where a new group begins: every row of the table in consume_from_where.py, on a scripted broker."""

import pytest

from mqstore.broker.broker import MessageQueue
from mqstore.client.offsets.consume_from_where import ConsumeFromWhere, first_offset
from support.clients.scripted_broker import BROKER, ScriptedBroker

MAX_OFFSET, BY_TIME = 9, 4
RETRY = "%RETRY%billing"


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
    broker = ScriptedBroker()
    broker.max_offsets = {("orders", 0): MAX_OFFSET, (RETRY, 0): MAX_OFFSET}
    assert first_offset(broker, MessageQueue("orders", BROKER, 0), where, 1_000) == normal
    assert first_offset(broker, MessageQueue(RETRY, BROKER, 0), where, 1_000) == retry
    assert set(broker.searched) <= {1_000}
