"""The put path of columns: thousands of messages in one call, without a Python object for any of them.

    read -> route (topic, queue, permission) -> delay rewrite -> encode -> append -> wait -> announce

The steps, checks and results are those of put_path.py, for all rows at once: all are stored or none, under
one append lock and with one wait for the disk. A topic is created by itself only after all checks.
Threads: any. Durability: as put_path.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mqstore.metadata.topics import MAX_QUEUE_NUMS
from mqstore.put.column_checks import refuse_dead_letters, with_chosen_queues
from mqstore.put.put_checks import no_such_queue, refuse_put
from mqstore.put.put_parts import PutParts
from mqstore.schedule.delay.delayed_columns import rewrite
from mqstore.store.bulk.buffer_pool import BufferPool
from mqstore.store.bulk.columns_encoder import ColumnsEncoder
from mqstore.store.bulk.list_encoder import ListEncoder
from mqstore.store.bulk.message_columns import MessageColumns, read_columns
from mqstore.store.bulk.message_list import columns_of_messages
from mqstore.store.bulk.record_block import AppendedBlock, RecordBlock
from mqstore.store.bulk.sent.sent_batch import SentBatch
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutColumnsResult
from mqstore.store.message.topic_names import (
    RETRY_GROUP_TOPIC_PREFIX,
    is_retry_topic,
)
from mqstore.store.status import PutMessageStatus

__all__ = ["ColumnsPath", "StoredRows"]

# Lists of at least this length are worth being made columns, where the quicker way does not take them.
_COLUMNS_FROM = 48


class StoredRows(NamedTuple):
    """Where rows were appended, and whether they are durable."""

    status: PutMessageStatus
    appended: AppendedBlock
    flushed_offset: int


class ColumnsPath:
    """Puts columns into one store."""

    def __init__(self, parts: PutParts) -> None:
        self._choice = parts.choice
        self._topics = parts.topics
        self._groups = parts.groups
        self._delay_levels = parts.delay_levels
        self._buffers = BufferPool()
        self._encoder = ColumnsEncoder(parts.config, self._buffers)
        self._encode_list = ListEncoder(parts.config, parts.delay_levels.max_level, self._buffers).encode
        self._commit_log = parts.commit_log
        self._flusher = parts.flusher
        self._is_sync_flush = parts.config.is_sync_flush
        self._arrivals = parts.arrivals

    def put(self, table: object, topic: str | None, queue_id: int | None) -> PutColumnsResult:
        """Store the rows of `table`, all or none."""
        columns = read_columns(table, topic, queue_id)
        block = self._encode(columns)
        status, appended, flushed_offset = self.store(columns.topics, block)
        return PutColumnsResult(
            status,
            appended.queue_offsets,
            appended.physical_offsets,
            block.sizes,
            appended.store_timestamp,
            appended.end_offset,
            flushed_offset,
        )

    def encode_list(self, messages: Sequence[Message]) -> tuple[list[str], RecordBlock] | None:
        """(topics, records) of a list that is not empty, to be stored; None if it needs the single path.

        Raises MessageIllegal, NoPermission, TopicNotSupported, TypeError, ValueError, OverflowError instead
        of None where that is quicker.
        """
        block = self._encode_list(messages, self._topics.queues_to_put_to)
        if block is not None:
            return [], block
        if isinstance(messages, SentBatch) or len(messages) < _COLUMNS_FROM:
            return None
        columns = columns_of_messages(messages)
        return None if columns is None else (columns.topics, self._encode(columns))

    def _encode(self, columns: MessageColumns) -> RecordBlock:
        """The records to store. Every check is made here but one: whether a missing topic may be created."""
        columns = self._with_queues(columns)
        return self._encoder.encode(rewrite(columns, self._delay_levels))

    def store(self, topics: Sequence[str], block: RecordBlock) -> StoredRows:
        """Store a block that was encoded here, after those topics were created that are missing.

        Its buffer is used again; only its places remain valid.
        """
        for name in topics:
            if self._topics.lookup(name) is None:
                self._topics.find(name)
        stored = self.append(block)
        self._buffers.release(block.buffer)
        return stored

    def append(self, block: RecordBlock) -> StoredRows:
        """Append records whose topics exist, wait for the disk, and announce the messages."""
        appended = self._commit_log.append_block(block)
        status = PutMessageStatus.PUT_OK
        if self._is_sync_flush and len(block) and not self._flusher.wait_for(appended.end_offset):
            status = PutMessageStatus.FLUSH_DISK_TIMEOUT
        if self._arrivals.wanted:
            self._announce(block, appended)
        return StoredRows(status, appended, self._commit_log.flushed_offset)

    def _announce(self, block: RecordBlock, appended: AppendedBlock) -> None:
        wanted = np.array([self._arrivals.wants(*queue) for queue in block.queues], bool)
        if wanted.any():
            offsets = appended.physical_offsets[wanted[block.groups]]
            self._arrivals.announce(map(int, offsets), appended.end_offset)

    def _with_queues(self, columns: MessageColumns) -> MessageColumns:
        """The columns, with a queue for each row. Raises NoPermission or QueueIllegal as `put_message`."""
        queue_nums, write_queue_nums = np.empty((2, len(columns.topics)), np.int64)
        for index, topic in enumerate(columns.topics):
            config = self._topics.lookup(topic)
            refuse_put(topic, config)
            if is_retry_topic(topic):
                self._refuse_dead_letters(columns, topic)
            nums_to_be = self._topics.queue_nums_to_be
            queue_nums[index] = nums_to_be(topic) if config is None else config.queue_nums
            write_queue_nums[index] = queue_nums[index] if config is None else config.write_queue_nums
        if columns.queue_ids.min(initial=0) < 0:
            choice = np.random.default_rng(self._choice.getrandbits(64))
            columns = with_chosen_queues(columns, write_queue_nums, choice)
        if columns.queue_ids.max(initial=0) < queue_nums.min(initial=MAX_QUEUE_NUMS):
            return columns
        beyond = columns.queue_ids >= queue_nums[columns.topic_indices]
        if beyond.any():
            row = int(beyond.argmax())
            topic, queue_id = columns.topic_at(row), int(columns.queue_ids[row])
            count = int(queue_nums[columns.topic_indices[row]])
            raise no_such_queue(f"queue_id of row {row}", queue_id, topic, count, row)
        return columns

    def _refuse_dead_letters(self, columns: MessageColumns, topic: str) -> None:
        group = topic.removeprefix(RETRY_GROUP_TOPIC_PREFIX)
        settings = self._groups.get(group)
        if settings is None:
            self._groups.refuse_unknown(group)
        tries_never = settings is not None and settings.retry_max_times < 0
        refuse_dead_letters(columns, topic, tries_never=tries_never)
