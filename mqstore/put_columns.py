"""The put path of columns: thousands of messages in one call, without a Python object for any of them.

    read -> route (topic, queue, permission) -> delay rewrite -> encode -> append -> wait -> announce

The steps, checks and results are those of put_path.py, for all rows at once: all are stored or none, under
one append lock and with one wait for the disk. A topic is created by itself only after all checks.
Threads: any. Durability: as put_path.py.
"""

from typing import NamedTuple

import numpy as np

from mqstore.arrivals import Arrivals
from mqstore.schedule.delay_levels import DelayLevels
from mqstore.schedule.delayed_columns import readdress
from mqstore.store.bulk.columns_encoder import ColumnsEncoder
from mqstore.store.bulk.message_columns import MessageColumns, read_columns
from mqstore.store.bulk.record_block import AppendedBlock, RecordBlock
from mqstore.store.commit_log import CommitLog
from mqstore.store.config import StoreConfig
from mqstore.store.errors import NoPermission, QueueIllegal
from mqstore.store.flusher import Flusher
from mqstore.store.names import NOT_ALLOWED_SEND_TOPICS
from mqstore.store.put_result import PutColumnsResult
from mqstore.store.status import PutMessageStatus
from mqstore.topics import MAX_QUEUE_NUMS, TopicConfigs

__all__ = ["ColumnsPath", "StoredRows"]


class StoredRows(NamedTuple):
    """What became of rows that were put."""

    status: PutMessageStatus
    appended: AppendedBlock
    flushed_offset: int


class ColumnsPath:
    """Puts columns into one store."""

    def __init__(
        self,
        config: StoreConfig,
        commit_log: CommitLog,
        flusher: Flusher,
        topics: TopicConfigs,
        delay_levels: DelayLevels,
        arrivals: Arrivals,
    ) -> None:
        self._topics = topics
        self._default_queue_nums = config.default_topic_queue_nums
        self._delay_levels = delay_levels
        self._encoder = ColumnsEncoder(config)
        self._commit_log = commit_log
        self._flusher = flusher
        self._is_sync_flush = config.is_sync_flush
        self._arrivals = arrivals

    def put(self, table: object, topic: str | None, queue_id: int | None) -> PutColumnsResult:
        """Store the rows of `table`, all or none."""
        columns = read_columns(table, topic, queue_id)
        block = self.encode(columns)
        status, appended, flushed_offset = self.store(columns, block)
        return PutColumnsResult(
            status,
            appended.queue_offsets,
            appended.physical_offsets,
            block.sizes,
            appended.store_timestamp,
            appended.end_offset,
            flushed_offset,
        )

    def encode(self, columns: MessageColumns) -> RecordBlock:
        """The records to store: all that can refuse a row, but for a topic that may not be created."""
        self._check_queues(columns)
        return self._encoder.encode(readdress(columns, self._delay_levels))

    def store(self, columns: MessageColumns, block: RecordBlock) -> StoredRows:
        """Store what was made of `columns`. Of the block, only the places are good for anything then."""
        for name in columns.topics:
            if self._topics.lookup(name) is None:
                self._topics.find(name)
        stored = self.append(block)
        self._encoder.give_back(block)
        return stored

    def append(self, block: RecordBlock) -> StoredRows:
        """Append records whose topics are there, wait for the disk, and tell those who wait for messages."""
        appended = self._commit_log.append_block(block)
        status = PutMessageStatus.PUT_OK
        if self._is_sync_flush and len(block) and not self._flusher.wait_for(appended.end_offset):
            status = PutMessageStatus.FLUSH_DISK_TIMEOUT
        if self._arrivals.wanted:
            self._announce(block, appended)
        return StoredRows(status, appended, self._commit_log.flushed_offset)

    def _check_queues(self, columns: MessageColumns) -> None:
        """Raise NoPermission or QueueIllegal for what `put_message` would refuse."""
        queue_nums = np.empty(len(columns.topics), np.int64)
        for index, topic in enumerate(columns.topics):
            config = self._topics.lookup(topic)
            if topic in NOT_ALLOWED_SEND_TOPICS or (config is not None and not config.is_writable):
                raise NoPermission(topic, config.perm if config is not None else 0, "put")
            queue_nums[index] = self._default_queue_nums if config is None else config.write_queue_nums
        if columns.queue_ids.max(initial=0) < queue_nums.min(initial=MAX_QUEUE_NUMS):
            return
        beyond = columns.queue_ids >= queue_nums[columns.topic_indices]
        if beyond.any():
            row = int(beyond.argmax())
            topic, queue_id = columns.topic_at(row), int(columns.queue_ids[row])
            count = int(queue_nums[columns.topic_indices[row]])
            raise QueueIllegal(
                f"queue_id of row {row} is {queue_id}, but topic {topic!r} has {count} queues: use one below "
                f"that, or create the topic with more: store.topics.create({topic!r}, queue_nums=...)",
                value=queue_id,
                limit=count - 1,
                row=row,
            )

    def _announce(self, block: RecordBlock, appended: AppendedBlock) -> None:
        """Say of each queue how long it is now."""
        next_offsets = np.zeros(len(block.queues), np.int64)
        np.maximum.at(next_offsets, block.groups, appended.queue_offsets + 1)
        for (topic, queue_id), next_offset in zip(block.queues, next_offsets.tolist(), strict=True):
            self._arrivals.announce(topic, queue_id, next_offset)
