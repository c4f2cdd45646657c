"""Delayed messages in columns: what is not said by comparing them with single puts (tests/property)."""

import numpy as np

from mqstore.schedule.delay.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from mqstore.schedule.delay.delayed_columns import rewrite
from mqstore.store.bulk.message_columns import read_columns
from mqstore.store.message.topic_names import SCHEDULE_TOPIC


def test_a_high_queue_id_costs_no_more_than_a_low_one() -> None:
    """A broker's topics.json may say any number of queues."""
    ids = np.array([2**31 - 1, 0, 2**31 - 1], np.int64)
    columns = read_columns({"topic": "orders", "body": [b""] * 3, "queue_id": ids, "delay_level": [1, 0, 2]})
    delayed = rewrite(columns, DelayLevels.parse(DEFAULT_DELAY_LEVELS))
    texts = dict(delayed.overrides)["REAL_QID"]
    assert [texts.bytes_at(row) for row in range(3)] == [b"2147483647", b"", b"2147483647"]
    assert [delayed.topics[index] for index in delayed.topic_indices] == [
        SCHEDULE_TOPIC,
        "orders",
        SCHEDULE_TOPIC,
    ]
