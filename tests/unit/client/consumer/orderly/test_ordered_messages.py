"""Whose turn it is in a queue: rows takeMessages, commit and rollback of section 3 of client_consume.md."""

from collections.abc import Sequence

from mqstore.client.consumer.orderly.ordered_messages import OrderedMessage, OrderedMessages
from mqstore.client.consumer.pulls.process_queue import ProcessQueue
from support.clients.stored_messages import stored_messages


class Queue:
    """A process queue and its order."""

    def __init__(self, *batches: tuple[int, ...]) -> None:
        self.process_queue = ProcessQueue()
        self.ordered = OrderedMessages(self.process_queue)
        self.begins = [self.add(*offsets) for offsets in batches]

    def add(self, *offsets: int, next_begin_offset: int | None = None) -> bool:
        """A pull has found these; whether a run must begin."""
        end = offsets[-1] + 1 if next_begin_offset is None else next_begin_offset
        return self.ordered.add(self.process_queue.put(stored_messages(*offsets), end))


def offsets_of(taken: Sequence[OrderedMessage]) -> list[int]:
    return [message.queue_offset for _, _, message in taken]


def test_messages_are_taken_in_order_across_batches() -> None:
    """Row takeMessages: the first n."""
    queue = Queue((10, 11), (12, 15))
    assert offsets_of(queue.ordered.take(3)) == [10, 11, 12]
    assert offsets_of(queue.ordered.take(3)) == [15]


def test_one_run_at_a_time() -> None:
    """Row putMessage: a batch begins a run only if none is under way; a run ends when nothing waits."""
    queue = Queue((10,), (11,))
    assert queue.begins == [True, False]
    queue.ordered.take(2)
    assert not queue.add(12)
    queue.ordered.take(1)
    assert queue.ordered.take(1) == []
    assert queue.add(13)


def test_commit() -> None:
    """Row commit: last consuming key + 1, and they are done."""
    queue = Queue((10, 11), (15, 16))
    queue.ordered.take(2)
    assert queue.ordered.commit() == 12
    assert queue.process_queue.message_count == 2
    queue.ordered.take(1)
    queue.ordered.take(1)
    assert queue.ordered.commit() == 17
    assert queue.process_queue.message_count == 0
    assert queue.ordered.commit() == -1


def test_commit_stays_before_the_next_pull() -> None:
    """Singles of an inner batch may have offsets that messages of the next pull have as well."""
    queue = Queue()
    queue.add(10, 11, 12, next_begin_offset=11)
    queue.ordered.take(3)
    assert queue.ordered.commit() == 11


def test_rollback() -> None:
    """Row rollback: all that the listener has comes again, before what waits."""
    queue = Queue((10, 11, 12, 13))
    queue.ordered.take(1)
    queue.ordered.take(2)
    queue.ordered.rollback()
    assert offsets_of(queue.ordered.take(9)) == [10, 11, 12, 13]


def test_put_back() -> None:
    """Row rollback / makeMessageToConsumeAgain: the last batch comes again, those before it stay."""
    queue = Queue((10, 11, 12))
    queue.ordered.take(1)
    taken = queue.ordered.take(1)
    queue.ordered.put_back(taken)
    assert offsets_of(queue.ordered.take(9)) == [11, 12]
    assert queue.ordered.commit() == 13
