"""The pull: messages of one queue from an entry on, and what to ask for next in every case.

The statuses and their next offsets are RocketMQ's, so a client that follows `next_begin_offset` always
makes progress. Entries come from consume_queue.py, their messages from message_collector.py; both are views
of mapped files.

It does not wait for messages (mqstore/put/arrivals.py), dispatch what was just written (dispatcher.py), know
where a group stands (mqstore/metadata/consumer_offsets.py), whether it may read
(mqstore/metadata/pull_permission.py) or whether a topic exists (mqstore/metadata/topics.py).

A queue to which nothing was ever put is an empty one, as in RocketMQ, which creates it on the spot.
Difference from DefaultMessageStore#getMessage: the limits for messages in memory apply to all messages, for
the store cannot tell which are in memory.

Threads: any; no lock is taken. A file that retention deletes meanwhile stays readable to the end of a call
and as long as its messages are held.
"""

from collections.abc import Sequence

import msgspec

from mqstore.index.pull.message_collector import MessageCollector
from mqstore.index.pull.tag_filter import ALL_TAGS, parse_subscription
from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.consume_queue_format import ENTRY_BYTES
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.store.config import StoreConfig
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.status import GetMessageStatus

__all__ = ["GetMessageResult", "MessageReader"]


class GetMessageResult(msgspec.Struct, frozen=True):
    """What a pull found. `next_begin_offset` is what to ask for next, whatever the status.

    min_offset, max_offset: of the queue. messages: in queue order; they are views of the log. A list, but for
    pulls with `lazily`.
    buffer_total_size: bytes of their records together.

    >>> from mqstore import MessageStore
    >>> with MessageStore.open("data") as store:
    ...     put = store.put("orders", b"first")
    ...     got = store.get_message("billing", "orders", put.queue_id, offset=0)
    ...     got.status.name, got.next_begin_offset, [message.body for message in got.messages]
    ('FOUND', 1, [b'first'])
    """

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: Sequence[StoredMessage]
    buffer_total_size: int = 0


class MessageReader:
    """Answers pulls from the queues and the log of one store."""

    def __init__(self, commit_log: CommitLog, consume_queues: ConsumeQueueStore, config: StoreConfig) -> None:
        self._commit_log = commit_log
        self._offsets = commit_log.offsets
        self._consume_queues = consume_queues
        self._collect = MessageCollector(commit_log, config).collect
        # How many entries a pull may examine, unless it asks for more messages than that.
        self._max_examined = -(-config.max_filter_message_size // ENTRY_BYTES)

    def get_message(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_msg_nums: int = 32,
        tags: str = ALL_TAGS,
        *,
        lazily: bool = False,
    ) -> GetMessageResult:
        """Messages of a queue from entry `offset` on.

        max_msg_nums: at most so many (and at most max_transfer_count_on_message_in_memory, and so many bytes;
        at least one if there is one). tags: `*`, or tags separated by `||`. lazily: the messages are made
        when they are looked at (found_messages.py), where that is quicker. Raises SubscriptionIllegal, and
        CorruptRecord when an entry points at bytes that are not its record.
        """
        tag_filter = parse_subscription(tags)
        queue = self._consume_queues.find(topic, queue_id)
        if queue is None:
            return GetMessageResult(GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, [])
        # A reader beside a live writer may see entries of records that lie behind its end of the log.
        min_offset, max_offset = queue.min_offset, queue.end_below(self._offsets.visible_offset)
        refused = _outside(offset, min_offset, max_offset)
        if refused is not None:
            return GetMessageResult(*refused, min_offset, max_offset, [])
        # They end with the first file, too.
        entries = queue.view_from(offset, min(max(self._max_examined, max_msg_nums), max_offset - offset))
        if not entries:
            return _gone(queue, offset, max_offset)
        found = self._collect(entries, tag_filter, max_msg_nums, lazily=lazily)
        messages: Sequence[StoredMessage] = found.messages if found.found is None else found.found
        return GetMessageResult(
            found.status, offset + found.examined, min_offset, max_offset, messages, found.total_bytes
        )

    def get_from_log(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_msg_nums: int,
        tags: str,
        dispatched_offset: int,
    ) -> GetMessageResult:
        """As `get_message`, where the disk has no room for all entries: those it lacks come from the log."""
        first_offset, missing = self._consume_queues.entries_without_room(
            self._commit_log, dispatched_offset, topic, queue_id
        )
        if not missing or offset < first_offset:
            return self.get_message(topic, queue_id, offset, max_msg_nums, tags)
        queue = self._consume_queues.find(topic, queue_id)
        min_offset = queue.min_offset if queue is not None else 0
        max_offset = first_offset + len(missing) // ENTRY_BYTES
        refused = _outside(offset, min_offset, max_offset)
        if refused is not None:
            return GetMessageResult(*refused, min_offset, max_offset, [])
        begin = (offset - first_offset) * ENTRY_BYTES
        end = begin + max(self._max_examined, max_msg_nums) * ENTRY_BYTES
        found = self._collect(memoryview(missing)[begin:end], parse_subscription(tags), max_msg_nums)
        return GetMessageResult(
            found.status, offset + found.examined, min_offset, max_offset, found.messages, found.total_bytes
        )

    def __repr__(self) -> str:
        return f"MessageReader({self._commit_log!r}, {self._consume_queues!r})"


def _gone(queue: ConsumeQueue, offset: int, max_offset: int) -> GetMessageResult:
    """The answer if retention deleted the entry at `offset` during the pull, alone or with its whole file."""
    min_offset = queue.min_offset
    if offset < min_offset:
        return GetMessageResult(GetMessageStatus.OFFSET_TOO_SMALL, min_offset, min_offset, max_offset, [])
    next_begin_offset = queue.roll_next_file(offset)
    return GetMessageResult(GetMessageStatus.OFFSET_FOUND_NULL, next_begin_offset, min_offset, max_offset, [])


def _outside(offset: int, min_offset: int, max_offset: int) -> tuple[GetMessageStatus, int] | None:
    """Status and next offset when there is no entry at `offset`; None when there is one."""
    if max_offset == 0:
        return GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < min_offset:
        return GetMessageStatus.OFFSET_TOO_SMALL, min_offset
    if offset == max_offset:
        return GetMessageStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > max_offset:
        return GetMessageStatus.OFFSET_OVERFLOW_BADLY, max_offset
    return None
