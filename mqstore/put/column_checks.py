"""What is checked and chosen for rows before they are encoded: by puts of columns, and by tasks of the sink.

Pure functions: any thread.
"""

import msgspec
import numpy as np

from mqstore.put.put_checks import no_such_queue
from mqstore.store.bulk.message_columns import MessageColumns
from mqstore.store.bulk.text_column import Longs
from mqstore.store.errors import MessageIllegal
from mqstore.store.record.properties_format import RECONSUME_TIME

__all__ = ["refuse_dead_letters", "with_chosen_queues"]


def refuse_dead_letters(columns: MessageColumns, topic: str, *, tries_never: bool) -> None:
    """Raise where rows to a retry topic might be dead letters: only single puts decide that.

    tries_never: whether the group tries no message again.
    """
    # The name MAX_RECONSUME_TIMES holds it too.
    if tries_never or columns.properties.may_hold(RECONSUME_TIME.encode()):
        raise MessageIllegal(
            f"topic {topic!r} is a group's retry topic, and the rows say how often they failed, by which "
            "they may be dead letters: put them with put_messages",
            value=topic,
        )


def with_chosen_queues(
    columns: MessageColumns, write_queue_nums: Longs, choice: "np.random.Generator"
) -> MessageColumns:
    """A queue to write to, chosen at random, for each row that has a negative one.

    write_queue_nums: of each topic. Raises QueueIllegal for a topic that has none.
    """
    rows = np.flatnonzero(columns.queue_ids < 0)
    if not len(rows):
        return columns
    counts = write_queue_nums[columns.topic_indices[rows]]
    if not counts.all():
        row = int(rows[counts.argmin()])
        queue_id, topic = int(columns.queue_ids[row]), columns.topic_at(row)
        raise no_such_queue(f"queue_id of row {row}", queue_id, topic, 0, row)
    queue_ids = columns.queue_ids.copy()
    queue_ids[rows] = choice.integers(0, counts)
    return msgspec.structs.replace(columns, queue_ids=queue_ids)
