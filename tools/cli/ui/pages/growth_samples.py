"""How the messages of a queue grew, known from a bounded number of its entries.

Store times ascend along a queue. So the times of some entries, evenly apart, say how many messages there were
at each time between: exactly at the entries, and by a straight line between two of them. Bytes are estimated
from the sizes of a few entries at each place. A queue of a hundred million messages costs as much as one of a
thousand.

Pure but for what it reads; any thread.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue_format import BLANK_SIZE
from mqstore.message_store import MessageStore

__all__ = ["QueueGrowth", "sampled"]

_SIZES_READ = 16

Numbers = npt.NDArray[np.float64]


class QueueGrowth(NamedTuple):
    """At times_ms, ascending: how many messages the queue held by then, and bytes of their records."""

    times_ms: Numbers
    messages: Numbers
    size_bytes: Numbers

    def put_between(self, edges_ms: Numbers) -> tuple[Numbers, Numbers]:
        """Messages and bytes put between each two edges, of which the outer ones are around all times."""
        return self._between(edges_ms, self.messages), self._between(edges_ms, self.size_bytes)

    def _between(self, edges_ms: Numbers, totals: Numbers) -> Numbers:
        reached = np.interp(edges_ms, self.times_ms, totals, left=0.0)
        reached[0], reached[-1] = 0.0, totals[-1]
        return np.diff(reached)


def sampled(store: MessageStore, topic: str, queue_id: int, count: int) -> QueueGrowth | None:
    """The growth of a queue by at most `count` entries, 2 or more; None where none can be read."""
    queue = store.consume_queues.find(topic, queue_id)
    begin, end = (
        get(topic, queue_id) for get in (store.get_min_offset_in_queue, store.get_max_offset_in_queue)
    )
    if queue is None or begin >= end:
        return None
    rows: list[tuple[float, float, float]] = []
    for offset in np.unique(np.linspace(begin, end - 1, count).astype(np.int64)).tolist():
        time_ms = store.get_message_store_timestamp(topic, queue_id, offset)
        if time_ms >= 0:
            entries = queue.entries_from(offset, min(_SIZES_READ, end - offset))
            sizes = entries["size"][entries["size"] != BLANK_SIZE]
            rows.append((time_ms, offset + 1 - begin, float(sizes.mean()) if sizes.size else 0.0))
    if not rows:
        return None
    times_ms, messages, sizes = np.array(rows).T
    # The mean of both ends for what is between; before the first sample there is its own message alone.
    between = np.diff(messages) * (sizes[1:] + sizes[:-1]) / 2
    size_bytes = np.concatenate(([messages[0] * sizes[0]], between)).cumsum()
    # A clock that was set back: the time of an entry is at least that of those before it.
    return QueueGrowth(np.maximum.accumulate(times_ms), messages, size_bytes)
