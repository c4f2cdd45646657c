"""What may be committed, row by row of section 3 of the spec, and against the tree map of RocketMQ.

Messages are put in batches and removed by masks; the twin is a plain dictionary by queue offset.
"""

import hypothesis.strategies as st
from hypothesis import given

from mqstore.client.consumer.pulls.process_queue import ProcessQueue, PulledBatch
from mqstore.store.message.stored_message import StoredMessage
from support.clients.stored_messages import RECORD_BYTES, stored_message, stored_messages


def put(queue: ProcessQueue, *offsets: int) -> PulledBatch:
    return queue.put(stored_messages(*offsets), offsets[-1] + 1)


def test_the_example_of_the_spec() -> None:
    """Offsets 10, 11, 12 cached; 11 and 12 done first: commit stays 10; then 10 done: 13."""
    queue = ProcessQueue()
    batch = put(queue, 10, 11, 12)
    assert [queue.remove(batch, mask) for mask in (0b100, 0b010, 0b001)] == [10, 10, 13]


def test_nothing_cached() -> None:
    """Row removeMessage: the map was empty, -1."""
    queue = ProcessQueue()
    batch = put(queue, 10)
    assert queue.remove(batch, 1) == 11
    assert queue.remove(batch, 1) == -1


def test_empty_afterwards() -> None:
    """Row removeMessage: the map is empty now, queueOffsetMax + 1; gaps of a filter do not matter."""
    queue = ProcessQueue()
    first, second = put(queue, 3, 7), put(queue, 20, 31)
    assert queue.remove(first, 0b11) == 20
    assert queue.remove(second, 0b11) == 32


def test_the_smallest_key_that_is_left() -> None:
    """Row removeMessage: whatever batch is done first, the offset is that of the first message left."""
    queue = ProcessQueue()
    first, second, third = put(queue, 0, 1), put(queue, 2, 3), put(queue, 4, 5)
    assert queue.remove(third, 0b11) == 0
    assert queue.remove(first, 0b01) == 1
    assert queue.remove(second, 0b11) == 1
    assert queue.remove(first, 0b10) == 6


def test_nothing_done_of_a_request() -> None:
    """All messages of a request were kept aside: the offset is that of the first one left."""
    queue = ProcessQueue()
    batch = put(queue, 5, 6)
    assert queue.remove(batch, 0) == 5


def test_counts_and_sizes() -> None:
    """Row putMessage: messages and bytes in memory, up with a put and down with a removal, once for each."""
    queue = ProcessQueue()
    batch = put(queue, 0, 1, 2)
    assert (queue.message_count, queue.size_bytes) == (3, 3 * RECORD_BYTES)
    queue.remove(batch, 0b010)
    queue.remove(batch, 0b010)
    assert (queue.message_count, queue.size_bytes) == (2, 2 * RECORD_BYTES)
    queue.remove(batch, 0b111)
    assert (queue.message_count, queue.size_bytes) == (0, 0)


def test_what_is_done_is_not_held() -> None:
    """A batch that is done lets its messages go, though it waits for one before it."""
    queue = ProcessQueue()
    put(queue, 0)
    second = put(queue, 1, 2)
    queue.remove(second, 0b11)
    assert second.messages == ()


def test_max_span() -> None:
    """Row getMaxSpan: last key less first key, of what is left."""
    queue = ProcessQueue()
    assert queue.max_span() == 0
    first, second, third = put(queue, 10, 11), put(queue, 20, 25), put(queue, 30)
    assert queue.max_span() == 20
    queue.remove(third, 0b1)
    assert queue.max_span() == 15
    queue.remove(second, 0b10)
    queue.remove(first, 0b01)
    assert queue.max_span() == 9


def test_the_first_message_and_when_a_listener_got_it() -> None:
    """Row cleanExpiredMsg: the first message that is left, and the last time that it was handed out."""
    queue = ProcessQueue()
    assert queue.first() is None
    batch = put(queue, 7, 8)
    first = queue.first()
    assert first is not None
    assert (first.message.queue_offset, first.start_ms) == (7, None)
    batch.starts += [(0b11, 1_000), (0b01, 6_000)]
    first = queue.first()
    assert first is not None
    assert first.start_ms == 6_000
    queue.remove_first(first)
    second = queue.first()
    assert second is not None
    assert (second.message.queue_offset, second.start_ms) == (8, 1_000)
    assert queue.message_count == 1


def test_an_expired_message_that_is_not_the_first_any_more_stays() -> None:
    """Row cleanExpiredMsg: it is removed if it is still first."""
    queue = ProcessQueue()
    batch = put(queue, 7, 8)
    first = queue.first()
    assert first is not None
    queue.remove(batch, 0b01)
    queue.remove_first(first)
    assert (queue.message_count, queue.remove(batch, 0)) == (1, 8)


def test_the_last_expired_message_uncovers_what_is_done_behind_it() -> None:
    """It ends a batch, and the next one is done as well: the offset is the end of all."""
    queue = ProcessQueue()
    first_batch, second_batch = put(queue, 7), put(queue, 8)
    third_batch = put(queue, 9)
    queue.remove(second_batch, 0b1)
    first = queue.first()
    assert first is not None
    queue.remove_first(first)
    assert queue.remove(first_batch, 0b1) == 9
    assert queue.remove(third_batch, 0b1) == 10


def test_singles_of_an_inner_batch_are_not_committed_past_its_entry() -> None:
    """Offsets 5, 6, 7 come from one entry: the next entry is 6, whatever its message is called."""
    queue = ProcessQueue()
    batch = queue.put(stored_messages(5, 6, 7), next_begin_offset=6)
    assert queue.remove(batch, 0b111) == 6


class TreeMap:
    """RocketMQ's: a key for each message."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.queue_offset_max = -1

    def put(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            self.sizes[message.queue_offset] = message.store_size
            self.queue_offset_max = message.queue_offset

    def remove(self, offsets: list[int]) -> int:
        if not self.sizes:
            return -1
        for offset in offsets:
            self.sizes.pop(offset, None)
        return min(self.sizes) if self.sizes else self.queue_offset_max + 1


@given(data=st.data())
def test_like_a_tree_map(data: st.DataObject) -> None:
    """Any batches with any gaps, removed in any pieces and any order, some of them twice."""
    queue, twin = ProcessQueue(), TreeMap()
    batches: list[tuple[PulledBatch, list[int]]] = []
    next_offset = 0
    for step in data.draw(st.lists(st.booleans(), max_size=30)):
        if step or not batches:
            gaps = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
            offsets = [next_offset + sum(gaps[:end]) for end in range(1, len(gaps) + 1)]
            next_offset = offsets[-1]
            messages = [stored_message(offset, body=b"x" * (offset % 7)) for offset in offsets]
            batches.append((queue.put(messages, next_offset + 1), offsets))
            twin.put(messages)
        else:
            batch, offsets = data.draw(st.sampled_from(batches))
            mask = data.draw(st.integers(0, (1 << len(offsets)) - 1))
            chosen = [offset for index, offset in enumerate(offsets) if mask >> index & 1]
            assert queue.remove(batch, mask) == twin.remove(chosen)
        keys = twin.sizes.keys()
        assert queue.message_count == len(keys)
        assert queue.size_bytes == sum(twin.sizes.values())
        assert queue.max_span() == (max(keys) - min(keys) if keys else 0)
        first = queue.first()
        assert (first.message.queue_offset if first else None) == min(keys, default=None)
